"""HTTP framing, hosts, names and limits, over raw sockets."""

import pytest
from support import sigv4, wire
from support.data import MIB
from support.expect import absent, answer, holds, keys
from support.sigv4 import EMPTY_SHA256, UNSIGNED, object_path
from support.unchanged import unchanged


def signed(raw, method, path, payload=EMPTY_SHA256, headers=()):
    return sigv4.sign_headers(raw.credentials, method, path, [], [("Host", raw.host), *headers], payload)


def still_serving(raw, bucket):
    answer(raw.put(bucket, "alive", b"yes"), 200)
    assert raw.get(bucket, "alive").body == b"yes"


@pytest.mark.parametrize(
    "framing",
    [
        [("Content-Length", "4"), ("Transfer-Encoding", "chunked")],
        [("Content-Length", "4"), ("Content-Length", "5")],
        [("Content-Length", "+4")],
        [("Content-Length", "-4")],
        [("Content-Length", "4, 5")],
        [("Content-Length", "99999999999999999999")],
        [("Transfer-Encoding", "xchunked")],
        [("Transfer-Encoding", "identity, gzip")],
    ],
)
def test_ambiguous_framing(raw, s3, bucket, framing):
    """Request smuggling: none of these may store anything, nor leave the connection in use."""
    path = object_path(bucket, "k")
    data = wire.head("PUT", path, [*signed(raw, "PUT", path, UNSIGNED), *framing]) + b"4\r\nbody\r\n0\r\n\r\n"
    smuggled = wire.head("GET", object_path(bucket, "k"), signed(raw, "GET", path))
    reply = wire.exchange(raw.address, data + smuggled, "PUT", half_close=True)
    if reply is not None and reply.status == 200:
        # A server that follows the standard reads `chunked` over a length, and then says close.
        assert framing[-1] == ("Transfer-Encoding", "chunked"), reply.brief()
        assert reply.headers.get("connection") == "close"
        holds(s3, bucket, "k", b"body")
    else:
        absent(s3, bucket, "k")
    still_serving(raw, bucket)


def test_length_required(raw, s3, bucket, nothing_changes):
    """A PUT without length: 411, or the empty object that HTTP/1.1 says it is. S3 has no chunks of HTTP: 501."""
    path = object_path(bucket, "k")
    data = wire.head("PUT", path, [*signed(raw, "PUT", path, UNSIGNED), ("Transfer-Encoding", "chunked")])
    with nothing_changes():
        reply = wire.exchange(raw.address, data + b"4\r\nbody\r\n0\r\n\r\n", "PUT")
    answer(reply, 501, "NotImplemented")
    absent(s3, bucket, "k")


@pytest.mark.parametrize("host", ["", "a b", "a/b", "a@b", "[::1", "x" * 300, "bücher.example"])
def test_invalid_hosts(raw, bucket, host):
    """Class of MinIO 2719f1efa: nonsense in Host is refused, not resolved."""
    path = object_path(bucket, "k")
    headers = sigv4.sign_headers(raw.credentials, "GET", path, [], [("Host", host)], EMPTY_SHA256)
    with unchanged():
        reply = wire.exchange(raw.address, wire.head("GET", path, headers))
        assert reply is None or reply.status in (400, 403, 404), reply.brief()
    still_serving(raw, bucket)


def test_two_hosts(raw, bucket):
    path = object_path(bucket, "k")
    headers = signed(raw, "GET", path)
    with unchanged():
        reply = wire.exchange(raw.address, wire.head("GET", path, [*headers, ("Host", "other.example")]))
        assert reply is None or reply.status in (400, 403), reply.brief()


def test_no_host(raw, bucket):
    with unchanged():
        reply = wire.exchange(raw.address, b"GET / HTTP/1.1\r\n\r\n")
        assert reply is None or reply.status in (400, 403), reply.brief()


@pytest.mark.parametrize("target", ["*", "http://127.0.0.1:1/x", "127.0.0.1:1", "//", "/%00", "/%", "/%zz", "/a%2Fb"])
def test_strange_targets(raw, bucket, target):
    """Class of CVE-2021-21287: an absolute target must not send the server anywhere."""
    with unchanged():
        reply = wire.exchange(raw.address, wire.head("GET", target, [("Host", raw.host)]))
        assert reply is None or reply.status in (400, 403, 404, 405), reply.brief()
    still_serving(raw, bucket)


@pytest.mark.parametrize(
    "junk",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nBad Header: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nx: a\x00b\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nx: " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"x: y\r\n" * 5000 + b"\r\n",
    ],
)
def test_junk(raw, bucket, junk):
    reply = wire.exchange(raw.address, junk, half_close=True)
    assert reply is None or 400 <= reply.status < 600, reply.brief()
    still_serving(raw, bucket)


def test_header_bombs_are_bounded(raw, bucket, server, nothing_changes):
    """64 KiB of metadata names: refused before anything is stored."""
    headers = [(f"x-amz-meta-{n}", "v" * 100) for n in range(60)]
    with nothing_changes():
        reply = raw.put(bucket, "k", b"x", headers)
    assert reply.status in (400, 431), reply.brief()


def test_pipelined_requests(raw, s3, bucket):
    """Two requests in one segment: two answers, in order."""
    raw.put(bucket, "a", b"first")
    raw.put(bucket, "b", b"second")
    data = b"".join(
        wire.head("GET", object_path(bucket, k), signed(raw, "GET", object_path(bucket, k))) for k in "ab"
    )
    with wire.connect(raw.address) as sock:
        sock.sendall(data)
        stream = b""
        while stream.count(b"HTTP/1.1 200") < 2 or b"second" not in stream:
            more = sock.recv(65536)
            assert more, stream
            stream += more
    assert stream.index(b"first") < stream.index(b"second")


def test_refused_upload_does_not_poison_the_connection(raw, s3, bucket, nothing_changes):
    """After a refusal the body's bytes must not be read as the next request."""
    path = object_path(bucket, "k")
    forged = [(n, v[:-64] + "0" * 64 if n == "Authorization" else v) for n, v in signed(raw, "PUT", path, UNSIGNED)]
    inner = wire.head("DELETE", object_path(bucket, "victim"), signed(raw, "DELETE", object_path(bucket, "victim")))
    raw.put(bucket, "victim", b"safe")
    data = wire.head("PUT", path, [*forged, ("Content-Length", str(len(inner)))]) + inner
    with nothing_changes():
        reply = wire.exchange(raw.address, data, "PUT", half_close=True)
    answer(reply, 403, "SignatureDoesNotMatch")
    holds(s3, bucket, "victim", b"safe")


def test_internal_names_cannot_be_addressed(raw, s3, bucket, nothing_changes):
    """Class of CVE-2023-28434: no bucket name reaches what the server keeps for itself."""
    with nothing_changes():
        for name in ("..", ".", "%2e%2e", ".archipel.sys", "_control", "%00", "a%2Fb", "a\\b", "\u00fc"):
            path = "/" + (name if "%" in name else sigv4.encode(name, safe="._-~"))
            reply = raw.request("PUT", f"{path}/key", body=b"x")
            assert reply.status in (400, 403, 404), f"{name} {reply.brief()}"
            reply = raw.request("GET", path)
            assert reply.status in (400, 403, 404), f"{name} {reply.brief()}"
    assert keys(s3, bucket) == []


def test_internal_looking_headers_are_just_metadata(raw, s3, bucket):
    """Class of CVE-2026-34204: no header of a client reaches internal state."""
    headers = [
        ("x-archipel-stamp", "1"), ("x-archipel-encryption", "1"), ("x-amz-meta-archipel-internal", "1"),
        ("x-forwarded-for", "127.0.0.1"), ("x-minio-source-mtime", "2001-01-01T00:00:00Z"), ("x-amz-source-mtime", "1"),
    ]  # fmt: skip
    reply = raw.put(bucket, "k", b"readable", headers)
    assert reply.status in (200, 400, 501), reply.brief()
    if reply.status == 200:
        holds(s3, bucket, "k", b"readable")


def test_errors_do_not_reflect_markup(raw, bucket):
    """Class of CVE-2016-9579: what a page could run is escaped, and typed as XML."""
    key = "<script>alert(1)</script>"
    with unchanged():
        reply = answer(raw.get(bucket, key), 404)
    assert b"<script>" not in reply.body and reply.headers["content-type"] == "application/xml"
    reply = raw.request("GET", "/no-bucket-%3Cscript%3E")
    assert b"<script>" not in reply.body


def test_unfinished_requests_do_not_block_others(raw, bucket):
    """Class of CVE-2022-31028: 300 connections that never finish, and service goes on."""
    path = object_path(bucket, "slow")
    head = wire.head("PUT", path, [*signed(raw, "PUT", path, UNSIGNED), ("Content-Length", str(MIB))])
    socks = [wire.connect(raw.address) for _ in range(300)]
    try:
        for number, sock in enumerate(socks):
            sock.sendall((b"", head[: len(head) // 2], head + b"x" * 1000)[number % 3])
        still_serving(raw, bucket)
    finally:
        for sock in socks:
            sock.close()
    still_serving(raw, bucket)


BOMB = b'<!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;">]>'
XML = {
    "entities": BOMB + b"<Delete><Object><Key>&c;</Key></Object></Delete>",
    "external entity": b'<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]><Delete><Object><Key>&x;</Key></Object></Delete>',
    "deep": b"<Delete>" + b"<a>" * 50_000 + b"</a>" * 50_000 + b"</Delete>",
    "many attributes": b"<Delete " + b" ".join(b'a%d="1"' % n for n in range(50_000)) + b"/>",
    "utf-16": "<Delete><Object><Key>k</Key></Object></Delete>".encode("utf-16"),
    "not utf-8": b"<Delete><Object><Key>\xff</Key></Object></Delete>",
    "mismatched": b"<Delete><Object><Key>k</Object></Key></Delete>",
    "nul": b"<Delete><Object><Key>k\x00</Key></Object></Delete>",
    "bad reference": b"<Delete><Object><Key>&#0;</Key></Object></Delete>",
    "unknown entity": b"<Delete><Object><Key>&nosuch;</Key></Object></Delete>",
}


@pytest.mark.parametrize("name", XML)
def test_hostile_xml(raw, s3, bucket, name, nothing_changes):
    raw.put(bucket, "k", b"x")
    with nothing_changes():
        for query in ([("delete", "")], [("cors", "")]):
            method = "POST" if query[0][0] == "delete" else "PUT"
            reply = raw.request(method, f"/{bucket}", query, [("x-amz-checksum-sha256", sha256(XML[name]))], XML[name])
            answer(reply, 400)
    holds(s3, bucket, "k", b"x")


def sha256(data: bytes) -> str:
    import base64
    import hashlib

    return base64.b64encode(hashlib.sha256(data).digest()).decode()


def test_secrets_appear_nowhere(raw, server, bucket):
    """Class of CVE-2023-28432: no answer of any port shows the secret key, with or without a signature."""
    secret = server.secret_key.encode()
    seen = []
    for anonymous in (True, False):
        for path in ("/", f"/{bucket}", f"/{bucket}/missing", "/health", "/metrics", "/status", "/debug", "/v1/keys"):
            seen.append(raw.request("GET", path, anonymous=anonymous).body)
    for node in server.nodes:
        from support.client import Client

        admin = node.get("admin")
        if admin and not admin.startswith("/"):
            client = Client(admin if "://" in admin else f"http://{admin}", raw.credentials)
            for path in ("/", "/health", "/metrics", "/v1/status", "/v1/keys", "/v1/key", "/debug/pprof"):
                seen.append(client.request("GET", path, anonymous=True).body)
    assert all(secret not in body for body in seen)
