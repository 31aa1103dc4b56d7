"""What a client can make the server hold in memory is bounded, signed or not."""

from __future__ import annotations

import contextlib

import pytest
from support import chunked, sigv4, wire
from support.data import MIB, content
from support.expect import answer
from support.server import Demo, memory_kib
from support.sigv4 import Credentials, object_path
from support.client import Client

pytestmark = pytest.mark.process

CONNECTIONS = 100
# A block of 1 MiB and its surroundings for each upload, and the node itself.
MOST_KIB = CONNECTIONS * 2 * 1024 + 100 * 1024


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A server of its own, so that its memory is what these tests made of it."""
    demo = Demo(tmp_path_factory.mktemp("memory") / "node")
    info = demo.start()
    yield demo, Client(info.endpoint, Credentials(info.access_key, info.secret_key, info.region)), info.bucket
    demo.stop()


def head_of(client, bucket, kind: str, number: int) -> bytes:
    """The start of an upload that announces 1 GiB."""
    path, size = object_path(bucket, f"big-{number}"), str(1 << 30)
    if kind == "unsigned chunk":
        upload = chunked.Upload([b""], chunked.UNSIGNED_TRAILER, decoded_length=1 << 30)
        head, _ = chunked.build(client, "PUT", path, [], upload)
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
        return b"\r\n".join([lines[0], b"Content-Length: 1073741900", *lines[1:]]) + b"40000000\r\n"
    if kind == "anonymous form":
        fields = [("Host", client.host), ("Content-Type", "multipart/form-data; boundary=b"), ("Content-Length", size)]
        return wire.head("POST", f"/{bucket}", fields) + b'--b\r\nContent-Disposition: form-data; name="key"\r\n\r\n'
    if kind == "xml":
        headers = sigv4.sign_headers(
            client.credentials, "POST", f"/{bucket}", [("delete", "")], [("Host", client.host)], sigv4.UNSIGNED
        )
        return wire.head("POST", f"/{bucket}?delete=", [*headers, ("Content-Length", size)]) + b"<Delete>"
    headers = sigv4.sign_headers(client.credentials, "PUT", path, [], [("Host", client.host)], sigv4.UNSIGNED)
    return wire.head("PUT", path, [*headers, ("Content-Length", size)])


@pytest.mark.parametrize("kind", ["plain", "unsigned chunk", "anonymous form", "xml"])
def test_many_unfinished_uploads(own, kind):
    """100 uploads that announce 1 GiB, send 2 MiB and wait: classes of CVE-2018-1000538 and of s3s #390."""
    demo, client, bucket = own
    data = content(2 * MIB, kind)
    with contextlib.ExitStack() as stack:
        for number in range(CONNECTIONS):
            sock = stack.enter_context(wire.connect(client.address, timeout=2))
            with contextlib.suppress(OSError):  # refused early, or not read further: both are right
                sock.sendall(head_of(client, bucket, kind, number) + data)
        answer(client.put(bucket, "alive", b"x"), 200)
        assert memory_kib(demo.server_pid) < MOST_KIB
    answer(client.get(bucket, "alive"), 200)


def test_slow_readers(own):
    """50 downloads of 64 MiB whose clients read nothing."""
    demo, client, bucket = own
    answer(client.put(bucket, "large", content(64 * MIB, "large")), 200)
    path = object_path(bucket, "large")
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            sock = stack.enter_context(wire.connect(client.address))
            headers = sigv4.sign_headers(
                client.credentials, "GET", path, [], [("Host", client.host)], sigv4.EMPTY_SHA256
            )
            sock.sendall(wire.head("GET", path, headers))
            assert sock.recv(12) == b"HTTP/1.1 200"
        answer(client.put(bucket, "alive", b"x"), 200)
        assert memory_kib(demo.server_pid) < MOST_KIB
    answer(client.get(bucket, "alive"), 200)
