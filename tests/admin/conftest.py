"""A cluster of three nodes, and the SDK as a user installs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.server import Demo

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def three(tmp_path_factory):
    """`archipel demo` with three nodes."""
    # Nothing is ever sent there: it makes the metrics of targets appear.
    target = '[{name = "hook", url = "http://127.0.0.1:9/"}]'
    demo = Demo(tmp_path_factory.mktemp("three") / "data", env={"ARCHIPEL_EVENT_TARGETS": target}, nodes=3)
    yield demo.start(ready_s=120)
    demo.stop()


@pytest.fixture(scope="session")
def sdk(tmp_path_factory):
    """The SDK, installed with pip from its folder into a folder of its own."""
    folder = tmp_path_factory.mktemp("sdk")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), str(ROOT / "sdk/python")]
    subprocess.run(command, check=True, timeout=300)
    sys.path.insert(0, str(folder))
    import archipel_admin

    yield archipel_admin
    sys.path.remove(str(folder))
