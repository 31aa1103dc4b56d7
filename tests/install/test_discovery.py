"""Three namespaces that find each other by DNS form a cluster without a manual layout step, and serve S3."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from faults import network

pytestmark = pytest.mark.process
SCRIPT = Path(__file__).with_name("find.py")


@pytest.fixture(scope="module", autouse=True)
def permitted():
    why_not = network.why_not()
    if why_not:
        pytest.skip(why_not)
    if not shutil.which("dnsmasq", path="/usr/sbin:/usr/bin:/sbin"):
        pytest.skip("missing: dnsmasq (apt-get install dnsmasq-base)")


@pytest.mark.parametrize("kind", ["dns", "srv"])
def test_three_machines_find_each_other(tmp_path, kind):
    command = [sys.executable, str(SCRIPT), kind, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "formed and served" in done.stdout
