"""The command line against three nodes: what it prints for people."""

from __future__ import annotations

import json
import re
import subprocess

from support import cli
from support.boto import boto_of
from support.server import wait_until

# Of "bucket lifecycle set demo -".
RULES = {
    "rules": [
        {"id": "logs", "prefix": "logs/", "expire_days": 30, "abort_days": 7},
        {"id": "old", "larger_than": 4096, "noncurrent_days": 30, "noncurrent_keep": 3, "disabled": True},
        {"id": "markers", "expire_markers": True},
    ]
}


def run(three, line: str, *more: str) -> subprocess.CompletedProcess:
    return cli.run(three, line, *more, given=json.dumps(RULES) if line.endswith(" -") else None)


def test_settings_of_a_bucket_are_shown_for_people(three):
    assert run(three, "bucket create cli-settings").returncode == 0
    assert "never enabled" in run(three, "bucket versioning show cli-settings").stdout
    assert "off" in run(three, "bucket lock show cli-settings").stdout
    assert run(three, "bucket quota set cli-settings --size 1GiB --objects 5").returncode == 0
    assert run(three, "bucket quota set cli-settings --objects none").returncode == 0
    shown = run(three, "bucket quota show cli-settings").stdout
    assert re.search(r"objects +0\n", shown) and re.search(r"size +0 B of 1\.0 GiB", shown), shown
    rows = run(three, "bucket tag set cli-settings team=storage cost=").stdout.splitlines()
    assert [row.split() for row in rows] == [["TAG", "VALUE"], ["team", "storage"], ["cost"]]
    assert run(three, "bucket lifecycle set cli-settings -").returncode == 0
    shown = run(three, "bucket lifecycle show cli-settings").stdout
    assert re.search(r"logs +on +logs/\* +expire after 30 d, abort uploads after 7 d", shown), shown
    assert re.search(r"old +off +> 4\.0 KiB +remove versions but 3 after 30 d", shown), shown
    # The printed JSON can be set again.
    rules = run(three, "bucket lifecycle show cli-settings", "--json").stdout
    assert [rule["id"] for rule in json.loads(rules)["rules"]] == ["logs", "old", "markers"]
    assert run(three, "bucket lifecycle delete cli-settings").returncode == 0
    assert "logs" not in run(three, "bucket lifecycle show cli-settings").stdout
    assert run(three, "bucket delete cli-settings").returncode == 0


def test_what_protects_a_bucket_is_shown_for_people(three):
    assert run(three, "bucket create cli-protected").returncode == 0
    shown = run(three, "bucket encryption enable cli-protected").stdout
    assert "AES256" in shown and re.search(r"blocked +nothing\n", shown), shown
    assert "none" in run(three, "bucket encryption disable cli-protected").stdout
    shown = run(three, "bucket public-access show cli-protected").stdout
    assert shown.count(" yes\n") == 4, shown
    shown = run(three, "bucket public-access set cli-protected --block-public-policy false").stdout
    assert re.search(r"refuses public policies +no\n", shown) and shown.count(" yes\n") == 3, shown
    shown = run(three, "bucket ownership set cli-protected objectwriter").stdout
    assert "the user who writes them" in shown, shown
    # A deletion with an obstacle, and then without.
    assert run(three, "user create cli-dry").returncode == 0
    assert run(three, "user attach cli-dry AmazonS3ReadOnlyAccess").returncode == 0
    dry = run(three, "user delete cli-dry --dry-run")
    assert dry.returncode == 1 and re.search(r"obstacle +attached policies: .*AmazonS3ReadOnlyAccess", dry.stdout), dry
    assert run(three, "user detach cli-dry AmazonS3ReadOnlyAccess").returncode == 0
    dry = run(three, "user delete cli-dry --dry-run")
    assert (dry.returncode, dry.stdout) == (0, "possible  yes\n"), dry
    assert re.search(r"disabled +yes\n", run(three, "user disable cli-dry").stdout)
    assert "cli-dry" in run(three, "user list --disabled").stdout
    assert "cli-dry" not in run(three, "user list --disabled=false").stdout
    assert run(three, "user delete cli-dry").returncode == 0
    assert run(three, "bucket delete cli-protected").returncode == 0


def test_routing_rules_and_redirects_are_shown_for_people(three):
    assert run(three, "bucket create cli-site").returncode == 0
    rules = json.dumps({"rules": [{"key_prefix": "old/", "replace_prefix": "new/"}]})
    enabled = cli.run(three, "website enable cli-site --rules -", given=rules)
    assert re.search(r"old/\* +301 \.\.\.://\.\.\./new/\*", enabled.stdout), enabled
    # The printed JSON can be set again.
    whole = run(three, "website show cli-site", "--json").stdout
    again = cli.run(three, "website enable cli-site --rules -", given=whole)
    assert again.returncode == 0 and "old/*" in again.stdout, again
    assert "old/*" in run(three, "website enable cli-site --index home.html").stdout, "rules that are not named stay"
    shown = run(three, "website redirect cli-site www.example.com --protocol https").stdout
    assert "https://www.example.com" in shown and "old/*" not in shown, shown
    assert run(three, "website disable cli-site").returncode == 0
    assert run(three, "bucket delete cli-site").returncode == 0


def test_lifecycle_rules_are_applied_on_demand(three):
    assert run(three, "bucket create cli-expiry").returncode == 0
    s3 = boto_of(three)
    assert run(three, f"key allow {three.access_key} --bucket cli-expiry --read --write").returncode == 0
    s3.put_object(Bucket="cli-expiry", Key="old", Body=b"x")
    rules = json.dumps({"rules": [{"id": "old", "expire_at_ms": 1_577_836_800_000}]})
    assert cli.run(three, "bucket lifecycle set cli-expiry -", given=rules).returncode == 0

    def walked() -> bool:
        """Each node removes its share; another node may not know the rule yet."""
        for node in range(len(three.nodes)):
            told = cli.run(three, "lifecycle start --wait", "--json", node=node)
            assert told.returncode == 0, told
            info = json.loads(told.stdout)
            assert not info["running"] and not info["waiting"]
        return s3.list_objects_v2(Bucket="cli-expiry")["KeyCount"] == 0

    assert wait_until(walked, 60)
    assert run(three, "bucket lifecycle delete cli-expiry").returncode == 0
    assert run(three, "bucket delete cli-expiry").returncode == 0


def test_quiet_prints_nothing_but_results(three):
    assert run(three, "bucket create cli-quiet", "--quiet").returncode == 0
    deleted = run(three, "bucket delete cli-quiet", "--quiet")
    assert (deleted.returncode, deleted.stdout, deleted.stderr) == (0, "", "")


def test_output_that_is_no_terminal_has_no_colours_and_is_whole(three):
    listed = run(three, "node list").stdout
    assert "\x1b" not in listed and "…" not in listed
    # The addresses are the widest column, and the last.
    assert len(re.findall(r"127\.0\.0\.1:\d+", listed)) >= 3
