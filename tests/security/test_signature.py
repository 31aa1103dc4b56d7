"""Signature Version 4 in headers: what is not signed exactly right is refused, and does nothing."""

import hashlib

import pytest
from support import sigv4, wire
from support.expect import absent, answer, holds
from support.sigv4 import Credentials, object_path
from support.unchanged import unchanged


@pytest.fixture
def target(raw, bucket):
    answer(raw.put(bucket, "k", b"kept"), 200)
    return bucket


def test_wrong_secret(raw, target, credentials, nothing_changes):
    """Class of CVE-2020-11012: a known key with any secret."""
    wrong = Credentials(credentials.access_key, "wrong" * 8, credentials.region)
    with nothing_changes():
        for method in ("GET", "PUT", "DELETE", "HEAD"):
            reply = raw.request(method, object_path(target, "k"), credentials=wrong)
            answer(reply, 403, *([] if method == "HEAD" else ["SignatureDoesNotMatch"]))
        for method, path, query in (
            ("GET", "/", []), ("GET", f"/{target}", []), ("PUT", "/forged-bucket", []), ("DELETE", f"/{target}", []),
            ("POST", f"/{target}", [("delete", "")]), ("POST", object_path(target, "k"), [("uploads", "")]),
        ):  # fmt: skip
            answer(raw.request(method, path, query, credentials=wrong), 403, "SignatureDoesNotMatch")
    assert raw.get(target, "k").body == b"kept"


def test_unknown_key(raw, target, nothing_changes):
    unknown = Credentials("GK" + "0" * 24, "s" * 40)
    with nothing_changes():
        answer(raw.get(target, "k", credentials=unknown), 403, "InvalidAccessKeyId")
        answer(raw.put(target, "new", b"x", credentials=unknown), 403, "InvalidAccessKeyId")


def test_anonymous(raw, s3, target, nothing_changes):
    """Classes of CVE-2016-7031 and CVE-2018-10861: every route, with every sub-resource."""
    key = object_path(target, "k")
    with nothing_changes():
        for method, path, query in (
            ("GET", "/", []), ("GET", f"/{target}", []), ("HEAD", f"/{target}", []), ("GET", key, []), ("HEAD", key, []),
            ("PUT", key, []), ("DELETE", key, []), ("DELETE", f"/{target}", []), ("PUT", "/anonymous-bucket", []),
            ("GET", f"/{target}", [("uploads", "")]), ("GET", f"/{target}", [("location", "")]),
            ("GET", f"/{target}", [("cors", "")]), ("PUT", f"/{target}", [("cors", "")]),
            ("POST", f"/{target}", [("delete", "")]), ("POST", key, [("uploads", "")]),
            ("GET", f"/{target}", [("versions", "")]), ("GET", f"/{target}", [("acl", "")]),
            ("GET", key, [("attributes", "")]), ("GET", key, [("response-content-type", "text/html")]),
        ):  # fmt: skip
            reply = raw.request(method, path, query, anonymous=True)
            answer(reply, 403, *([] if method == "HEAD" else ["AccessDenied"]))
    assert raw.get(target, "k").body == b"kept"


def test_anonymous_conditions_tell_nothing(raw, target):
    """Class of CVE-2024-36107: existing or not, the answer is the same."""
    for header in (("If-None-Match", "*"), ("If-Modified-Since", "Thu, 01 Jan 2099 00:00:00 GMT"), ("Range", "bytes=0-0")):
        existing = raw.get(target, "k", [header], anonymous=True)
        missing = raw.get(target, "missing", [header], anonymous=True)
        assert (existing.status, existing.code) == (missing.status, missing.code) == (403, "AccessDenied")


@pytest.mark.parametrize("seconds", [-14 * 60, 14 * 60])
def test_skew_within_bounds(raw, target, seconds):
    answer(raw.get(target, "k", stamp=sigv4.shifted(seconds)), 200)


@pytest.mark.parametrize("seconds", [-16 * 60, 16 * 60, -86400, 86400])
def test_skew_beyond_bounds(raw, target, seconds, nothing_changes):
    with nothing_changes():
        reply = raw.put(target, "k", b"new", stamp=sigv4.shifted(seconds))
    answer(reply, 403, "RequestTimeTooSkewed")
    assert raw.get(target, "k").body == b"kept"


def test_wrong_region_and_service(raw, target, credentials):
    elsewhere = Credentials(credentials.access_key, credentials.secret_key, "mars-north-1")
    with unchanged():
        answer(raw.get(target, "k", credentials=elsewhere), 400, "AuthorizationHeaderMalformed")
    # An SDK that asks HEAD for the region has only headers to learn it from.
    reply = raw.head(target, "k", credentials=elsewhere)
    assert (reply.status, reply.headers["x-amz-bucket-region"]) == (400, credentials.region)
    for service in ("sts", "k2v", "ec2"):
        with unchanged():
            reply = raw.get(target, "k", service=service)
            assert reply.status in (400, 403), reply.brief()


@pytest.mark.parametrize("name", ["x-amz-meta-a", "x-amz-copy-source", "x-amz-tagging", "x-amz-acl", "x-amz-checksum-crc32"])
def test_unsigned_amz_headers(raw, s3, target, name, nothing_changes):
    """Class of VersityGW 44967116: an x-amz-* header outside the signature must not act."""
    value = {"x-amz-copy-source": f"/{target}/k", "x-amz-checksum-crc32": "AAAAAA=="}.get(name, "private")
    with nothing_changes():
        reply = raw.put(target, "new", b"x", add_after=[(name, value)])
    answer(reply, 403, "AccessDenied", "SignatureDoesNotMatch")
    absent(s3, target, "new")


def test_host_must_be_signed(raw, target):
    with unchanged():
        answer(raw.get(target, "k", leave_unsigned=("host",)), 403, "AccessDenied", "SignatureDoesNotMatch")


def test_forged_host(raw, make_bucket, target):
    """Signed for one host, sent to another that names another bucket."""
    port = raw.address[1]
    path = "/k"
    headers = sigv4.sign_headers(
        raw.credentials, "GET", path, [], [("Host", f"{make_bucket()}.localhost:{port}")], sigv4.EMPTY_SHA256
    )
    headers = [("Host", f"{target}.localhost:{port}")] + headers[1:]
    with unchanged():
        answer(raw.send("GET", path, headers), 403, "SignatureDoesNotMatch")


def authorization_of(raw, bucket):
    headers = sigv4.sign_headers(
        raw.credentials, "GET", object_path(bucket, "k"), [], [("Host", raw.host)], sigv4.EMPTY_SHA256
    )
    return headers, dict(headers)["Authorization"]


MANGLED = [
    lambda a: "",
    lambda a: "AWS4-HMAC-SHA256",
    lambda a: a.replace("Credential=", "Credentials="),
    lambda a: a.split(",Signature")[0],
    lambda a: a.replace("SignedHeaders=host;", "SignedHeaders="),
    lambda a: a.replace("host;", "host;;"),
    lambda a: a.replace("host;x-amz-content-sha256", "x-amz-content-sha256;host"),
    lambda a: a.replace("/aws4_request", ""),
    lambda a: a.replace("/aws4_request", "/aws5_request"),
    lambda a: a.replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"),
    lambda a: "AWS " + a.split("Credential=")[1].split("/")[0] + ":AAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    lambda a: a + ",Signature=" + "0" * 64,
    lambda a: a[:-1],
    lambda a: a[:-64] + "0" * 64,
    lambda a: a + "0",
    lambda a: "Bearer abc",
    lambda a: "Basic YTpi",
    lambda a: "x" * 9000,
]


@pytest.mark.parametrize("number", range(len(MANGLED)))
def test_mangled_authorization(raw, target, number):
    headers, value = authorization_of(raw, target)
    changed = MANGLED[number](value)
    headers = [(n, changed if n == "Authorization" else v) for n, v in headers]
    with unchanged():
        reply = raw.send("GET", object_path(target, "k"), headers)
        assert reply.status in (400, 403, 431), reply.brief()
    assert b"kept" not in reply.body


def test_two_authorization_headers(raw, target):
    headers, value = authorization_of(raw, target)
    for extra in (value, value[:-64] + "0" * 64):
        with unchanged():
            reply = raw.send("GET", object_path(target, "k"), [*headers, ("Authorization", extra)])
            assert reply.status in (400, 403), reply.brief()


def test_scope_date_differs_from_request_date(raw, target):
    headers, _ = authorization_of(raw, target)
    yesterday = sigv4.shifted(-86400)
    headers = [(n, yesterday if n == "x-amz-date" else v) for n, v in headers]
    with unchanged():
        reply = raw.send("GET", object_path(target, "k"), headers)
        assert reply.status in (400, 403), reply.brief()


def test_date_missing(raw, target):
    headers, _ = authorization_of(raw, target)
    headers = [(n, v) for n, v in headers if n != "x-amz-date"]
    with unchanged():
        reply = raw.send("GET", object_path(target, "k"), headers)
        assert reply.status in (400, 403), reply.brief()


def test_changes_after_signing(raw, s3, target, nothing_changes):
    """Another key, another method, another parameter: the signature covers all of them."""
    headers, _ = authorization_of(raw, target)
    raw.put(target, "other", b"other")
    with nothing_changes():
        for method, where in (
            ("GET", object_path(target, "other")),
            ("DELETE", object_path(target, "k")),
            ("HEAD", object_path(target, "k")),
            ("GET", object_path(target, "k") + "?partNumber=1"),
            ("GET", object_path(target, "k") + "?response-content-type=text/html"),
            ("GET", object_path(target, "k") + "?uploads"),
        ):
            assert raw.send(method, where, headers).status == 403, (method, where)
    holds(s3, target, "k", b"kept")


def test_repeated_query_names_are_signed_sorted(raw, target):
    """Class of SeaweedFS 7589429b4: names, then values, sorted; and each counts."""
    query = [("x-test", "b"), ("x-test", "a"), ("x-test", "")]
    reply = raw.request("GET", object_path(target, "k"), query)
    assert reply.status in (200, 400, 501), reply.brief()


def test_header_values_are_trimmed_and_joined(raw, target):
    answer(raw.put(target, "trim", b"x", [("x-amz-meta-a", "  two   words  ")]), 200)
    reply = raw.put(target, "twice", b"x", [("x-amz-meta-a", "1"), ("x-amz-meta-a", "2")])
    assert reply.status in (200, 400), reply.brief()
    if reply.status == 200:
        assert raw.head(target, "twice").headers["x-amz-meta-a"].replace(" ", "") == "1,2"


# Payloads


def test_payload_hash_is_checked(raw, s3, target, nothing_changes):
    """The body must be the one that was signed, also when it is empty or larger than memory wants."""
    with nothing_changes():
        for signed, sent in ((b"right", b"wrong"), (b"", b"body"), (b"body", b""), (b"a" * 3_000_000, b"b" * 3_000_000)):
            import hashlib

            reply = raw.put(target, "k", sent, payload_hash=hashlib.sha256(signed).hexdigest())
            answer(reply, 400, "XAmzContentSHA256Mismatch")
    holds(s3, target, "k", b"kept")


@pytest.mark.parametrize(
    "method,key,query,headers",
    [
        ("GET", "k", [], []),
        ("HEAD", "k", [], []),
        ("DELETE", "k", [], []),
        ("GET", None, [("list-type", "2")], []),
        ("DELETE", None, [("cors", "")], []),
        ("POST", "up", [("uploads", "")], []),
        ("PUT", "copy", [], [("x-amz-copy-source", "BUCKET/k")]),
    ],
)
def test_payload_hash_is_checked_without_a_body(raw, s3, target, method, key, query, headers):
    headers = [(n, v.replace("BUCKET", target)) for n, v in headers]
    with unchanged():
        reply = raw.request(method, object_path(target, key), query, headers, payload_hash=hashlib.sha256(b"x").hexdigest())
        answer(reply, 400, *([] if method == "HEAD" else ["XAmzContentSHA256Mismatch"]))
    holds(s3, target, "k", b"kept")
    absent(s3, target, "copy")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=target)


def test_unsigned_payload(raw, s3, target):
    answer(raw.put(target, "k", b"unsigned", payload_hash=sigv4.UNSIGNED), 200)
    holds(s3, target, "k", b"unsigned")


@pytest.mark.parametrize(
    "value", ["garbage", "", "0" * 63, "STREAMING-UNKNOWN", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", "unsigned-payload"]
)
def test_strange_payload_hashes(raw, s3, target, value, nothing_changes):
    headers = [("x-amz-content-sha256", value)]
    with nothing_changes():
        reply = raw.put(target, "new", b"x", headers, payload_hash=value or " ")
    assert reply.status in (400, 403, 501), reply.brief()
    absent(s3, target, "new")


def test_payload_header_missing(raw, s3, target, nothing_changes):
    """Without x-amz-content-sha256 the signature of a body cannot be checked."""
    headers = [("Host", raw.host), ("x-amz-date", sigv4.timestamp())]
    canonical = sigv4.canonical_request(
        "PUT", object_path(target, "new"), [], headers, ["host", "x-amz-date"], sigv4.UNSIGNED
    )
    value = sigv4.signature(raw.credentials, headers[1][1], canonical)
    line = sigv4.authorization(raw.credentials, headers[1][1], ["host", "x-amz-date"], value)
    with nothing_changes():
        reply = raw.send("PUT", object_path(target, "new"), [*headers, ("Authorization", line), ("Content-Length", "1")], b"x")
    assert reply.status in (400, 403), reply.brief()
    absent(s3, target, "new")


def test_truncated_body_stores_nothing(raw, s3, target, nothing_changes):
    """The connection ends before Content-Length: no object, the old one whole."""
    with nothing_changes():
        for size, sent in ((1000, 999), (3_000_000, 2_500_000), (3_000_000, 0)):
            headers = sigv4.sign_headers(
                raw.credentials, "PUT", object_path(target, "k"), [], [("Host", raw.host)], sigv4.UNSIGNED
            )
            head = wire.head("PUT", object_path(target, "k"), [*headers, ("Content-Length", str(size))])
            reply = wire.exchange(raw.address, head + b"t" * sent, "PUT", half_close=True)
            assert reply is None or reply.status >= 400, reply.brief()
            holds(s3, target, "k", b"kept")


def test_expect_continue(raw, s3, target):
    """A right request is asked for its body; a forged one is refused without it."""
    path = object_path(target, "k")
    headers = sigv4.sign_headers(raw.credentials, "PUT", path, [], [("Host", raw.host)], sigv4.UNSIGNED)
    more = [("Content-Length", "4"), ("Expect", "100-continue")]
    with wire.connect(raw.address) as sock:
        sock.sendall(wire.head("PUT", path, [*headers, *more]))
        assert sock.recv(1000).startswith(b"HTTP/1.1 100 ")
        sock.sendall(b"body")
        assert wire.read_response(sock, "PUT").status == 200
    holds(s3, target, "k", b"body")
    forged = [(n, v[:-64] + "0" * 64 if n == "Authorization" else v) for n, v in headers]
    with wire.connect(raw.address) as sock:
        sock.sendall(wire.head("PUT", path, [*forged, *more]))
        assert sock.recv(1000).startswith(b"HTTP/1.1 403 ")


def test_signature_before_body(raw, target, nothing_changes):
    """Class of CVE-2018-1000538: a forged upload of gigabytes is answered without reading them."""
    path = object_path(target, "k")
    headers = sigv4.sign_headers(raw.credentials, "PUT", path, [], [("Host", raw.host)], sigv4.UNSIGNED)
    forged = [(n, v[:-64] + "0" * 64 if n == "Authorization" else v) for n, v in headers]
    with nothing_changes():
        with wire.connect(raw.address, timeout=20) as sock:
            sock.sendall(wire.head("PUT", path, [*forged, ("Content-Length", str(4 << 30))]) + b"x" * 1000)
            assert wire.read_response(sock, "PUT").status == 403
