"""Dashboards and alert rules name metrics that exist; the reference page lists all that exist."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import yaml
from support.boto import boto_of
from support.cli import run
from support.server import wait_until

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "monitoring/alerts.yaml"
DASHBOARDS = sorted((ROOT / "monitoring").glob("*.json"))
PAGE = ROOT / "docs/metrics.md"
NAME = re.compile(r"\b(?:archipel|process)_[a-z0-9_]+")

HEAD = """# Metrics

`GET /metrics` on the admin API answers with these, as OpenMetrics text ([how to scrape
them](operations.md#metrics)). Counters have `_total` after their name, histograms `_bucket`, `_count` and
`_sum`. `monitoring/` has a dashboard for Grafana and alert rules for Prometheus; a test checks that every
metric and label they name exists. `archipel metric list` shows the same.

`REWRITE=1 cargo xtask clients -k monitoring` rewrites this page.

| metric | kind | labels | meaning |
|---|---|---|---|
"""


@pytest.fixture(scope="module")
def metrics(three, sdk) -> str:
    """The metrics of a node that has served each kind of request."""
    node = three.nodes[0]
    s3 = boto_of(three)
    s3.put_object(Bucket=three.bucket, Key="metrics", Body=b"x" * 100_000)
    s3.get_object(Bucket=three.bucket, Key="metrics")["Body"].read()
    # The metrics of quotas have samples once a bucket with a quota was counted, which is each minute.
    for line in ("bucket create monitored", "bucket quota set monitored --size 1GB --objects 100"):
        assert run(three, line).returncode == 0
    with sdk.Archipel(socket=node["admin"]) as admin:
        # The counts of a request follow its answer.
        assert wait_until(lambda: 'operation="GetObject"' in admin.metrics(), 20)
        assert wait_until(lambda: "archipel_bucket_quota_bytes{" in admin.metrics(), 150, every_s=1)
        return admin.metrics()


@pytest.fixture(scope="module")
def families(metrics, three, sdk) -> list[dict]:
    """The metrics that the node declares."""
    from archipel_admin.api.metrics import list_metrics

    with sdk.Archipel(socket=three.nodes[0]["admin"]) as admin:
        return [family.to_dict() for family in admin.pages(list_metrics)]


def labels(text: str) -> dict[str, set[str]]:
    """The labels that the samples of each metric have."""
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if match := re.match(r"([a-z0-9_]+)(?:\{(.*)\})? ", line):
            names = re.findall(r"([a-z_]+)=\"", match[2] or "")
            found.setdefault(match[1], set()).update(set(names) - {"le"})
    return found


def names(family: dict) -> set[str]:
    """The names of the samples that a metric can have."""
    ends = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"], "info": ["_info"]}
    return {family["name"] + end for end in ends.get(family["kind"], [""])}


def wrong(expression: str, families: list[dict]) -> list[str]:
    """Returns the names of an expression that do not exist: metrics, and labels in selectors and groupings."""
    known = {name: set(family["labels"]) for family in families for name in names(family)}
    found = sorted({name for name in NAME.findall(expression) if name not in known})
    of_scrapes = {"instance", "job"}
    for name, selector in re.findall(r"([a-z0-9_]+)\{([^}]*)\}", expression):
        asked = set(re.findall(r"([a-z_]+)\s*(?:=~|!=|!~|=)", selector)) - of_scrapes
        found += [f"{name}{{{label}}}" for label in sorted(asked - known.get(name, set()))]
    grouped = {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
    used = set().union(*(known.get(name, set()) for name in NAME.findall(expression)))
    return found + [f"by ({label})" for label in sorted(grouped - used - of_scrapes - {"le"})]


def test_alert_rules_name_existing_metrics_and_labels(families):
    groups = yaml.safe_load(RULES.read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) > 8
    for rule in rules:
        assert wrong(rule["expr"], families) == [], rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical"), rule["alert"]
        assert rule["annotations"]["summary"] and rule["annotations"]["runbook"], rule["alert"]
        page = rule["annotations"]["runbook"].split("#")[0]
        assert (ROOT / page).exists(), f"{rule['alert']}: {page}"
    assert len({rule["alert"] for rule in rules}) == len(rules)


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_dashboards_name_existing_metrics_and_labels(families, path):
    panels = [panel for panel in json.loads(path.read_text())["panels"] if panel["type"] != "row"]
    assert len(panels) > 8
    for panel in panels:
        for target in panel["targets"]:
            assert NAME.search(target["expr"]), panel["title"]
            assert wrong(target["expr"], families) == [], panel["title"]


def test_what_does_not_exist_is_found(families):
    assert wrong("sum by (operation) (archipel_s3_requests_total{status='500',instance='a'})", families) == []
    assert wrong("archipel_s3_nothing_total > 1", families) == ["archipel_s3_nothing_total"]
    assert wrong("archipel_s3_requests_total{bucket='b'}", families) == ["archipel_s3_requests_total{bucket}"]
    assert wrong("sum by (bucket) (archipel_s3_requests_total)", families) == ["by (bucket)"]


def test_samples_have_the_labels_that_are_declared(metrics, families):
    declared = {name: set(family["labels"]) for family in families for name in names(family)}
    samples = labels(metrics)
    assert set(samples) - set(declared) == set()
    assert {name: seen for name, seen in samples.items() if seen != declared[name]} == {}
    for endpoint in ("s3", "web", "k2v", "console"):
        assert declared[f"archipel_{endpoint}_requests_total"] == {"operation", "status"}


def test_the_reference_page_lists_all_metrics(families):
    rows = []
    for family in families:
        of = ", ".join(f"`{label}`" for label in family["labels"])
        rows.append(f"| `{family['name']}` | {family['kind']} | {of} | {family['about']} |\n")
    page = HEAD + "".join(rows)
    if os.environ.get("REWRITE"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page, "fix: REWRITE=1 cargo xtask clients -k monitoring"


def test_buckets_and_keys_have_counters(three, metrics):
    of_bucket = f'archipel_s3_bucket_requests_total{{bucket="{three.bucket}",status="2xx"}}'
    of_key = f'archipel_s3_user_requests_total{{user="{three.access_key}",status="2xx"}}'
    assert of_bucket in metrics and of_key in metrics


def test_names_follow_the_conventions(families):
    for family in families:
        name = family["name"]
        assert family["about"], f"{name} says nothing"
        assert not name.endswith(("_total", "_count", "_sum", "_bucket")), name
        assert not re.search(r"_(ms|millis|kb|mb|percent)$", name), f"{name}: seconds, bytes and ratios only"
        assert family["kind"] in ("counter", "gauge", "histogram", "info"), name
