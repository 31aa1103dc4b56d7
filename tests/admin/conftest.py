"""A cluster of three nodes, and the SDK as a user installs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.projects import made_once
from support.server import Demo, Server, free_port
from support.unchanged import watched

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def three(tmp_path_factory):
    """`archipel demo` with three nodes."""
    # Nothing is ever sent there: it makes the metrics of targets appear.
    target = '[{name = "hook", url = "http://127.0.0.1:9/"}]'
    demo = Demo(tmp_path_factory.mktemp("three") / "data", env={"ARCHIPEL_EVENT_TARGETS": target}, nodes=3)
    endpoint = demo.start(ready_s=120)
    watched.share(endpoint.sockets(), "three")
    yield endpoint
    demo.stop()


@pytest.fixture(scope="session")
def sdk(tmp_path_factory):
    """The SDK, installed with pip from its folder into a folder that all processes of a run share."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    install = [sys.executable, "-m", "pip", "install", "--quiet", str(ROOT / "sdk/python")]
    folder = made_once(root / "sdk", lambda new: subprocess.run([*install, "--target", str(new)], check=True, timeout=300))
    sys.path.insert(0, str(folder))
    import archipel_admin

    yield archipel_admin
    sys.path.remove(str(folder))


@pytest.fixture
def machines(tmp_path):
    """Three configured servers, of which the last two join the first."""
    secret = tmp_path / "secret"
    secret.write_text("a-secret-of-all-nodes-of-this-test\n")
    secret.chmod(0o600)
    token = tmp_path / "token"
    token.write_text("the-token-of-this-test\n")
    token.chmod(0o600)
    servers = []
    for zone in ("paris", "oslo", "rome"):
        folder = tmp_path / zone
        folder.mkdir()
        server = Server(folder)
        server.s3, server.cluster, server.admin = free_port(), free_port(), free_port()
        join = f'join = ["127.0.0.1:{servers[0].cluster}"]\n' if servers else ""
        (folder / "archipel.toml").write_text(
            f'data_dir = "{server.data}"\n'
            f'[s3]\nlisten = "127.0.0.1:{server.s3}"\n'
            f'[cluster]\nlisten = "127.0.0.1:{server.cluster}"\nsecret_file = "{secret}"\nzone = "{zone}"\n{join}'
            f'[admin]\nlisten = "127.0.0.1:{server.admin}"\ntoken_file = "{token}"\n'
        )
        servers.append(server)
    try:
        for server in servers:
            server.start(in_layout=server is servers[0])
        yield servers
    finally:
        for server in servers:
            server.stop()
