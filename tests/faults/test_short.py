"""Short runs of what `cargo xtask faults` does for hours: faults at random, losses, a zone cut off, a lost disk, and others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from faults import network
from support.server import binary

pytestmark = pytest.mark.process
SCRIPT = Path(__file__).with_name("run.py")


@pytest.fixture(scope="module", autouse=True)
def permitted():
    why_not = network.why_not()
    if why_not:
        pytest.skip(why_not)


def passes(tmp_path, scenario: str, seconds: int, *more: str) -> None:
    command = [sys.executable, str(SCRIPT), "--scenario", scenario, "--seconds", str(seconds), "--dir", str(tmp_path)]
    done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=seconds + 400)
    print(done.stdout)
    assert done.returncode == 0, f"{binary()}: {done.stdout}\n{done.stderr}"


def test_faults_at_random(tmp_path):
    passes(tmp_path, "faults", 40)


def test_losses_and_changes(tmp_path):
    passes(tmp_path, "losses", 20)


def test_a_zone_cut_off(tmp_path):
    passes(tmp_path, "cut", 25)


def test_a_dead_peer(tmp_path):
    passes(tmp_path, "dead", 10)


def test_a_rolling_restart_fails_no_request(tmp_path):
    passes(tmp_path, "rolling", 10)


def test_a_key_that_is_revoked_while_a_node_is_cut_off(tmp_path):
    passes(tmp_path, "revoke", 10)


def test_a_lost_disk(tmp_path):
    passes(tmp_path, "disk", 1, "--blocks", "300")
