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


@pytest.fixture
def folder(tmp_path_factory) -> Path:
    """A folder with a short path, whatever the test's name is: the path of a node's socket may have 107 bytes."""
    return tmp_path_factory.mktemp("faults")


def passes(folder, scenario: str, seconds: int, *more: str) -> None:
    command = [sys.executable, str(SCRIPT), "--scenario", scenario, "--seconds", str(seconds), "--dir", str(folder)]
    done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=seconds + 400)
    print(done.stdout)
    assert done.returncode == 0, f"{binary()}: {done.stdout}\n{done.stderr}"


def test_faults_at_random(folder):
    passes(folder, "faults", 40)


def test_losses_and_changes(folder):
    passes(folder, "losses", 20)


def test_a_zone_cut_off(folder):
    passes(folder, "cut", 25)


def test_a_dead_peer(folder):
    passes(folder, "dead", 10)


def test_a_rolling_restart_fails_no_request(folder):
    passes(folder, "rolling", 10)


def test_a_key_that_is_revoked_while_a_node_is_cut_off(folder):
    passes(folder, "revoke", 10)


def test_a_lost_disk(folder):
    passes(folder, "disk", 1, "--blocks", "300")
