"""One address cannot take the connections of all others."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest
from security import hostile_http2 as http2
from support import sigv4, wire
from support.client import Client
from support.server import lone_server, wait_until
from support.sigv4 import Credentials

pytestmark = pytest.mark.process

MOST = 20


@pytest.fixture
def node(tmp_path: Path):
    with lone(tmp_path) as (_, port):
        yield port


def lone(folder: Path):
    return lone_server(folder, f"[limits]\nconnections_per_address = {MOST}\n")


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


def test_connections_that_break_the_protocol_are_not_made_without_end(node):
    """Each keeps its place for a while, so that an address cannot keep the node busy with new ones."""
    for _ in range(MOST):
        with socket.create_connection(("127.0.0.1", node), 10) as sock:
            sock.sendall(http2.PREFACE + b"no frame at all")
            with contextlib.suppress(OSError):
                while sock.recv(1 << 16):
                    pass
    assert status(node, "127.0.0.1") in (503, 0)
    assert status(node, "127.0.0.2") == 403
    assert wait_until(lambda: status(node, "127.0.0.1") == 403, 30)


@pytest.mark.parametrize("window", [0, 1])
def test_answers_over_http2_that_nobody_reads_count(tmp_path, window):
    """A request over HTTP/2 takes its place until its answer is sent, also if all of it waits in the connection."""
    with lone(tmp_path) as (server, port):
        key = server.cli_json("key", "create", "reader", "--create-bucket")
        client = Client(f"http://127.0.0.1:{port}", Credentials(key["id"], key["secret"], "us-east-1"))
        assert client.request("PUT", "/bucket").status == 200
        assert client.put("bucket", "large", bytes(64 << 10)).status == 200
        host = [("Host", client.host)]
        head = sigv4.sign_headers(client.credentials, "GET", "/bucket/large", [], host, sigv4.EMPTY_SHA256)
        with socket.create_connection(("127.0.0.1", port), 30) as sock:
            # The client gives no room for content, or for one byte.
            sock.sendall(http2.start(window))
            streams = http2.Streams(sock, "/bucket/large", head)
            asked = [streams.get() for _ in range(MOST + 5)]
            answers = [streams.status(stream) for stream in asked]
            assert answers.count("200") == MOST
            assert answers.count("other") == 5
            # Those that are given up free their places.
            kept = [stream for stream, answer in zip(asked, answers) if answer == "200"]
            streams.cancel(kept[0])
            assert wait_until(lambda: streams.status(streams.get()) == "200", 20)
