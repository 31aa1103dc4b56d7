"""The memory that a client can make the server hold is bounded, signed or not."""

from __future__ import annotations

import contextlib
import socket

import pytest
from support import chunked, sigv4, wire
from support.data import MIB, content
from support.expect import answer
from support.server import Demo, memory_kib, wait_until
from support.sigv4 import Credentials, object_path
from support.client import Client

pytestmark = pytest.mark.process

CONNECTIONS = 300
READERS = 150
SSE = [("x-amz-server-side-encryption", "AES256")]
# By number of nodes. Content may take 72 MiB; the rest is what connections take each, what is on its way to other
# nodes, and the node itself.
MOST_KIB = {1: 216 * 1024, 3: 240 * 1024}
# Chunks and documents that are held whole until they can be checked grow in steps, and each step copies them.
MOST_HELD_WHOLE_KIB = 256 * 1024
# The memory when the clients are gone, without what the kernel maps of files: the program itself, and LMDB's file.
AFTERWARDS_KIB = 64 * 1024


@pytest.fixture(scope="module", params=[1, 3], ids=["one node", "three nodes"])
def own(request, tmp_path_factory):
    """Servers of their own, so that their memory is what these tests made of it."""
    demo = Demo(tmp_path_factory.mktemp("memory") / "node", nodes=request.param)
    info = demo.start()
    yield demo, Client(info.endpoint, Credentials(info.access_key, info.secret_key, info.region)), info.bucket
    demo.stop()


def most_held(demo, field: str = "VmRSS") -> int:
    """The memory of the node that holds most, in KiB."""
    return max(memory_kib(int(node["pid"]), field) for node in demo.info.nodes)


def head_of(client, bucket, kind: str, number: int) -> bytes:
    """The start of an upload that announces 1 GiB."""
    path, size = object_path(bucket, f"big-{number}"), str(1 << 30)
    if kind == "unsigned chunk":
        upload = chunked.Upload([b""], chunked.UNSIGNED_TRAILER, decoded_length=1 << 30)
        head, _ = chunked.build(client, "PUT", path, [], upload)
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
        return b"\r\n".join([lines[0], b"Content-Length: 1073741900", *lines[1:]]) + b"40000000\r\n"
    if kind == "signed chunk":
        upload = chunked.Upload([b""], decoded_length=1 << 30)
        head, _ = chunked.build(client, "PUT", path, [], upload)
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
        start = b"1000000;chunk-signature=" + b"0" * 64 + b"\r\n"
        return b"\r\n".join([lines[0], b"Content-Length: 1073741900", *lines[1:]]) + start
    if kind == "document":
        query = [("delete", "")]
        headers = [("Host", client.host)]
        signed = sigv4.sign_headers(client.credentials, "POST", f"/{bucket}", query, headers, sigv4.UNSIGNED)
        return wire.head("POST", f"/{bucket}?delete=", [*signed, ("Content-Length", "2097152")])
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


# The other nodes have to do with content only.
UPLOADS = [(1, kind) for kind in ("plain", "unsigned chunk", "signed chunk", "document", "anonymous form", "xml")]
UPLOADS += [(3, "plain"), (3, "signed chunk")]
# The least and the most that a node does for content.
SLOW, SLOW_NAMES = [(1, []), (3, SSE)], ["one node, plain", "three nodes, encrypted"]


@pytest.mark.parametrize("own, kind", UPLOADS, indirect=["own"])
def test_many_unfinished_uploads(own, kind):
    """300 uploads that announce 1 GiB, send 2 MB and wait: classes of CVE-2018-1000538 and of s3s #390."""
    demo, client, bucket = own
    data = content(2_000_000, kind)
    with contextlib.ExitStack() as stack:
        for number in range(CONNECTIONS):
            sock = stack.enter_context(wire.connect(client.address, timeout=2))
            with contextlib.suppress(OSError):  # refused early, or not read further: both are right
                sock.sendall(head_of(client, bucket, kind, number) + data)
        gets_through(client, bucket)
        most = MOST_HELD_WHOLE_KIB if kind in ("signed chunk", "document") else MOST_KIB[demo.nodes]
        assert most_held(demo) < most
    gets_through(client, bucket)
    assert wait_until(lambda: most_held(demo, "RssAnon") < AFTERWARDS_KIB, 60)


def gets_through(client, bucket) -> None:
    """A client that does not stall is served as ever, with encryption or without."""
    data = content(8 * MIB, "alive")
    for headers in ([], SSE):
        answer(client.put(bucket, "alive", data, headers), 200)
        assert answer(client.get(bucket, "alive"), 200).body == data


@pytest.mark.parametrize("own, encryption", SLOW, indirect=["own"], ids=SLOW_NAMES)
def test_slow_uploads_end_well(own, encryption):
    """More uploads than there is memory for, each bit by bit and all at once: all are stored as they were sent."""
    demo, client, bucket = own
    size = 3 * MIB + 12_345
    common = content(size, "slow")

    def slow(number: int) -> bytes:
        return number.to_bytes(8, "big") + common[8:]

    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(wire.connect(client.address)) for _ in range(150)]
        for number, sock in enumerate(socks):
            path = object_path(bucket, f"slow-{number}")
            headers = [("Host", client.host), *encryption]
            headers = sigv4.sign_headers(client.credentials, "PUT", path, [], headers, sigv4.UNSIGNED)
            sock.sendall(wire.head("PUT", path, [*headers, ("Content-Length", str(size))]))
        for start in range(0, size, 700_000):
            for number, sock in enumerate(socks):
                sock.sendall(slow(number)[start : start + 700_000])
            assert most_held(demo) < MOST_KIB[demo.nodes]
        for sock in socks:
            answer(wire.read_response(sock, "PUT"), 200)
    for number in range(len(socks)):
        assert answer(client.get(bucket, f"slow-{number}"), 200).body == slow(number)


@pytest.mark.parametrize("own, headers", SLOW, indirect=["own"], ids=SLOW_NAMES)
def test_slow_readers(own, headers):
    """150 downloads of 64 MiB whose clients read nothing, then all of it. Others get through meanwhile."""
    demo, client, bucket = own
    large = content(64 * MIB, "large")
    answer(client.put(bucket, "large", large, headers), 200)
    path = object_path(bucket, "large")
    with contextlib.ExitStack() as stack:
        socks = []
        for _ in range(READERS):
            sock = stack.enter_context(wire.connect(client.address))
            headers = sigv4.sign_headers(
                client.credentials, "GET", path, [], [("Host", client.host)], sigv4.EMPTY_SHA256
            )
            sock.sendall(wire.head("GET", path, headers))
            assert sock.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200"
            socks.append(sock)
        gets_through(client, bucket)
        assert most_held(demo) < MOST_KIB[demo.nodes]
        for sock in socks[::50]:
            assert wire.read_response(sock).body == large
    gets_through(client, bucket)
