"""Dashboards and alert rules name metrics that exist; the reference page lists all that exist."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import boto3
import pytest
import yaml
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
metric they name exists.

`REWRITE=1 cargo xtask clients -k monitoring` writes this page anew.

| metric | kind | labels | meaning |
|---|---|---|---|
"""


@pytest.fixture(scope="module")
def metrics(three, sdk) -> str:
    """The metrics of a node that has served each kind of request."""
    node = three.nodes[0]
    s3 = boto3.client(
        "s3",
        endpoint_url=three.endpoint,
        region_name=three.region,
        aws_access_key_id=three.access_key,
        aws_secret_access_key=three.secret_key,
    )
    s3.put_object(Bucket=three.bucket, Key="metrics", Body=b"x" * 100_000)
    s3.get_object(Bucket=three.bucket, Key="metrics")["Body"].read()
    # The metrics of quotas have samples once a bucket with a quota was counted, which is each minute.
    for line in ("bucket create monitored", "bucket quota set monitored --size 1GB --objects 100"):
        assert run(three, line).returncode == 0
    with sdk.Archipel(socket=node["admin"]) as admin:
        # The counts of a request follow its answer.
        assert wait_until(lambda: 'operation="GetObject"' in admin.metrics(), 20)
        assert wait_until(lambda: "archipel_bucket_quota_bytes{" in admin.metrics(), 150)
        return admin.metrics()


def series(text: str) -> set[str]:
    """The names of all samples."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {re.split(r"[{ ]", line)[0] for line in lines}


def families(text: str) -> dict[str, tuple[str, str, str]]:
    """Kind, labels and meaning of each metric."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if match := re.match(r"# (HELP|TYPE) (\S+) (.*)", line):
            what, name, value = match.groups()
            found.setdefault(name, ["", "", ""])[2 if what == "HELP" else 0] = value
    for line in text.splitlines():
        if match := re.match(r"([a-z0-9_]+)\{(.*)\} ", line):
            sample, labels = match.groups()
            for name in (sample, sample.removesuffix("_total"), sample.removesuffix("_bucket"), sample.removesuffix("_info")):
                if name in found:
                    names = re.findall(r"([a-z_]+)=\"", labels)
                    found[name][1] = ", ".join(f"`{label}`" for label in names if label != "le")
    return {name: (kind, labels, about.rstrip(".")) for name, (kind, labels, about) in found.items()}


def unknown(text: str, known: set[str]) -> list[str]:
    return sorted({name for name in NAME.findall(text) if name not in known})


def test_alert_rules_name_existing_metrics(metrics):
    groups = yaml.safe_load(RULES.read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) > 8
    for rule in rules:
        assert unknown(rule["expr"], series(metrics)) == [], rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical"), rule["alert"]
        assert rule["annotations"]["summary"] and rule["annotations"]["runbook"], rule["alert"]
        page = rule["annotations"]["runbook"].split("#")[0]
        assert (ROOT / page).exists(), f"{rule['alert']}: {page}"
    assert len({rule["alert"] for rule in rules}) == len(rules)


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_dashboards_name_existing_metrics(metrics, path):
    panels = [panel for panel in json.loads(path.read_text())["panels"] if panel["type"] != "row"]
    assert len(panels) > 8
    for panel in panels:
        for target in panel["targets"]:
            assert NAME.search(target["expr"]), panel["title"]
            assert unknown(target["expr"], series(metrics)) == [], panel["title"]


def test_the_reference_page_lists_all_metrics(metrics):
    rows = [
        f"| `{name}` | {kind} | {labels} | {about} |\n" for name, (kind, labels, about) in sorted(families(metrics).items())
    ]
    page = HEAD + "".join(rows)
    if os.environ.get("REWRITE"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page, "fix: REWRITE=1 cargo xtask clients -k monitoring"


def test_buckets_and_keys_have_counters(three, metrics):
    of_bucket = f'archipel_s3_bucket_requests_total{{bucket="{three.bucket}",status="2xx"}}'
    of_key = f'archipel_s3_user_requests_total{{user="{three.access_key}",status="2xx"}}'
    assert of_bucket in metrics and of_key in metrics


def test_names_follow_the_conventions(metrics):
    for name, (kind, _, about) in families(metrics).items():
        assert about, f"{name} says nothing"
        assert not name.endswith(("_total", "_count", "_sum", "_bucket")), name
        assert not re.search(r"_(ms|millis|kb|mb|percent)$", name), f"{name}: seconds, bytes and ratios only"
        assert kind in ("counter", "gauge", "histogram", "info"), name
