"""One address cannot take the connections of all others."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest
from support import wire
from support.server import lone_server, wait_until

pytestmark = pytest.mark.process

MOST = 20


@pytest.fixture
def node(tmp_path: Path):
    with lone_server(tmp_path, f"[limits]\nconnections_per_address = {MOST}\n") as (_, port):
        yield port


def status(port: int, source: str) -> int:
    """The status of an anonymous request from an address of this machine."""
    with socket.create_connection(("127.0.0.1", port), 10, source_address=(source, 0)) as sock:
        with contextlib.suppress(OSError):
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        try:
            return wire.read_response(sock).status
        except OSError:
            return 0


def test_silent_connections_keep_only_their_own_address_out(node):
    with contextlib.ExitStack() as stack:
        for _ in range(MOST):
            stack.enter_context(socket.create_connection(("127.0.0.1", node), 10))
        assert wait_until(lambda: status(node, "127.0.0.1") in (503, 0), 20)
        # All of 127.0.0.0/8 is this machine, and other addresses are not concerned.
        assert status(node, "127.0.0.2") == 403
    assert wait_until(lambda: status(node, "127.0.0.1") == 403, 20)
