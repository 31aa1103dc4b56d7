"""Access keys with chosen permissions, made by the server's own command line."""

from __future__ import annotations

import json
import subprocess

import pytest
from support.boto import boto
from support.server import binary
from support.sigv4 import Credentials
from support.tools import aws_env  # noqa: F401


@pytest.fixture(scope="session")
def cli(server):
    """Runs `archipel ... --json` against the server's own socket."""

    def call(*arguments: str):
        socket = server.nodes[0]["admin"]
        where = ["--socket", socket] if socket.startswith("/") else ["--admin", socket]
        done = subprocess.run([binary(), *arguments, *where, "--json"], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return json.loads(done.stdout) if done.stdout.strip() else None

    return call


@pytest.fixture
def make_key(cli, server):
    made = []

    def make(name: str, *flags: str) -> Credentials:
        key = cli("key", "create", name, *flags)
        made.append(key["id"])
        return Credentials(key["id"], key["secret"], server.region)

    yield make
    for key in made:
        cli("key", "delete", key)


@pytest.fixture
def admin(cli):
    """A user that may do everything: its key and the secret."""
    cli("user", "create", "admin", "--policy", "AdministratorAccess")
    key = cli("user", "key", "admin")
    yield key["id"], key["secret"]
    for one in cli("user", "info", "admin")["keys"]:
        cli("key", "delete", one)
    cli("user", "detach", "admin", "AdministratorAccess")
    cli("user", "delete", "admin")


@pytest.fixture
def iam(server, admin):
    """The IAM API, for that user."""
    return boto("iam", server.endpoint, *admin)
