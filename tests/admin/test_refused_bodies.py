"""Bodies that the admin API does not read. A client may send one after the answer, and use the connection again."""

from __future__ import annotations

import socket

import pytest

pytestmark = pytest.mark.process

BODY = b'{"name":"x"}'


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/nothing"), ("PUT", "/v1/buckets"), ("POST", "/v1/keys?x=1")])
def test_body_after_the_answer_does_not_break_the_connection(server, method, path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(server.sockets()[0])
        sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}\r\n\r\n".encode())
        assert sock.recv(4096).startswith(b"HTTP/1.1 4")
        sock.sendall(BODY)
        sock.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert sock.recv(4096).startswith(b"HTTP/1.1 200")
