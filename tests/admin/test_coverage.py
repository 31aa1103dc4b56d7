"""docs/admin-api-coverage.md: every row names operations of the OpenAPI document and commands that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/admin-api-coverage.md"
HELP = ROOT / "crates/archipel/testdata/help.txt"

# All operations of the admin API v2 of Garage.
GARAGE = """
AddBucketAlias AllowBucketKey ApplyClusterLayout CheckDomain CleanupIncompleteUploads ClusterLayoutSkipDeadNodes
ConnectClusterNodes CreateAdminToken CreateBucket CreateKey CreateMetadataSnapshot DeleteAdminToken DeleteBucket
DeleteKey DenyBucketKey GetAdminTokenInfo GetBlockInfo GetBucketInfo GetClusterHealth GetClusterLayout
GetClusterLayoutHistory GetClusterStatistics GetClusterStatus GetCurrentAdminTokenInfo GetKeyInfo GetNodeInfo
GetNodeStatistics GetWorkerInfo GetWorkerVariable Health ImportKey InspectObject LaunchRepairOperation ListAdminTokens
ListBlockErrors ListBuckets ListKeys ListWorkers Metrics PreviewClusterLayoutChanges PurgeBlocks RemoveBucketAlias
RetryBlockResync RevertClusterLayout SetWorkerVariable UpdateAdminToken UpdateBucket UpdateClusterLayout UpdateKey
"""

# The commands of `mc admin`.
MC = """
accesskey bucket cluster config console decommission group heal idp info kms logs policy prometheus rebalance replicate
scanner service tier top trace update user
"""


def sections() -> dict[str, list[list[str]]]:
    """The rows of each table, by heading."""
    found: dict[str, list[list[str]]] = {}
    for part in PAGE.read_text().split("\n## ")[1:]:
        heading, _, text = part.partition("\n")
        rows = [line for line in text.splitlines() if line.startswith("|")][2:]
        found[heading] = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return found


ROWS = [row for rows in sections().values() for row in rows]


def operations() -> set[tuple[str, str]]:
    paths = json.loads((ROOT / "docs/openapi.json").read_text())["paths"]
    return {(method.upper(), path.removeprefix("/v1")) for path, methods in paths.items() for method in methods}


def commands() -> set[str]:
    names = re.findall(r"^=== archipel (.+)$", HELP.read_text(), re.M)
    return {name.strip() for name in names}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_row_names_what_exists(row):
    _, here, command = row
    named = re.findall(r"`(GET|PUT|POST|PATCH|DELETE) (/[^`]*)`", here)
    assert {one for one in named} <= operations()
    assert here.startswith("-: ") or named, "neither an operation nor a dash"
    assert set(re.findall(r"`([^`]+)`", command)) <= commands()
    assert command or here.startswith("-: ") or row[0] == "Health", "an operation without a command"


def test_all_operations_of_garage_have_a_row():
    rows = sections()["Garage's admin API v2"]
    assert {row[0].split(":")[0] for row in rows} == set(GARAGE.split())


def test_all_commands_of_mc_have_a_row():
    rows = sections()["`mc admin`"]
    assert {name.split()[0] for row in rows for name in re.findall(r"`([^`]+)`", row[0])} == set(MC.split())


def test_what_changes_the_cluster_is_in_a_row():
    """An operation that no row names is one that neither API has, and none of "Only here"."""
    named = {one for row in ROWS for one in re.findall(r"`(GET|PUT|POST|PATCH|DELETE) (/[^`]*)`", row[1])}
    # The other half of what is named: show, set, delete.
    paths = {path.split("/")[1] for _, path in named}
    assert {path.split("/")[1] for _, path in operations()} - paths == {"openapi.json"}


def test_the_page_of_the_api_names_all_lists_and_their_filters():
    rows = re.findall(r"^\| (`GET /v1/.*?) \|(.*)\|$", (ROOT / "docs/admin-api.md").read_text(), re.M)
    told = {path: set(re.findall(r"`(\w+)`", about)) for paths, about in rows for path in re.findall(r"`GET (\S+)`", paths)}
    paths = json.loads((ROOT / "docs/openapi.json").read_text())["paths"]
    known = {}
    for path, methods in paths.items():
        names = {one["name"] for one in methods.get("get", {}).get("parameters", []) if one["in"] == "query"}
        if "after" in names:
            known[path] = names - {"after", "limit"}
    assert told == known
