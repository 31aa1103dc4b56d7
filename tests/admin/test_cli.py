"""The command line against three nodes: what it prints for people."""

from __future__ import annotations

import json
import re
import subprocess

from support import cli

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
    # What is printed as JSON can be set again.
    rules = run(three, "bucket lifecycle show cli-settings", "--json").stdout
    assert [rule["id"] for rule in json.loads(rules)["rules"]] == ["logs", "old", "markers"]
    assert run(three, "bucket lifecycle delete cli-settings").returncode == 0
    assert "logs" not in run(three, "bucket lifecycle show cli-settings").stdout
    assert run(three, "bucket delete cli-settings").returncode == 0


def test_quiet_prints_nothing_but_results(three):
    assert run(three, "bucket create cli-quiet", "--quiet").returncode == 0
    deleted = run(three, "bucket delete cli-quiet", "--quiet")
    assert (deleted.returncode, deleted.stdout, deleted.stderr) == (0, "", "")


def test_output_that_is_no_terminal_has_no_colours_and_is_whole(three):
    listed = run(three, "node list").stdout
    assert "\x1b" not in listed and "…" not in listed
    # The addresses are the widest column, and the last.
    assert len(re.findall(r"127\.0\.0\.1:\d+", listed)) >= 3
