"""Bucket CORS: configuration, preflight, headers on answers."""

import pytest
from support.expect import answer, refused
from support.sigv4 import object_path
from support.unchanged import unchanged

RULES = [
    {
        "AllowedOrigins": ["https://app.example", "https://*.wild.example"],
        "AllowedMethods": ["GET", "PUT"],
        "AllowedHeaders": ["content-type", "x-amz-*"],
        "ExposeHeaders": ["ETag", "x-amz-meta-a"],
        "MaxAgeSeconds": 300,
        "ID": "first",
    },
    {"AllowedOrigins": ["*"], "AllowedMethods": ["HEAD"]},
]


@pytest.fixture
def cors_bucket(s3, bucket):
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": RULES})
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"a": "1"})
    return bucket


def preflight(raw, bucket, origin, method, headers=None):
    asked = [("Origin", origin), ("Access-Control-Request-Method", method)]
    if headers:
        asked.append(("Access-Control-Request-Headers", headers))
    return raw.request("OPTIONS", object_path(bucket, "k"), headers=asked, anonymous=True)


def test_configuration_round_trip(s3, bucket):
    with refused(404, "NoSuchCORSConfiguration"):
        s3.get_bucket_cors(Bucket=bucket)
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": RULES})
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == RULES
    s3.delete_bucket_cors(Bucket=bucket)
    with refused(404, "NoSuchCORSConfiguration"):
        s3.get_bucket_cors(Bucket=bucket)


def test_preflight_allows(raw, cors_bucket):
    reply = answer(preflight(raw, cors_bucket, "https://app.example", "PUT", "Content-Type, x-amz-date"), 200)
    got = reply.headers
    assert got["access-control-allow-origin"] == "https://app.example"
    assert "PUT" in got["access-control-allow-methods"]
    allowed = got["access-control-allow-headers"].lower()
    assert "content-type" in allowed and "x-amz-date" in allowed
    assert got["access-control-max-age"] == "300"
    assert "origin" in got["vary"].lower()


def test_preflight_wildcards(raw, cors_bucket):
    reply = answer(preflight(raw, cors_bucket, "https://a.wild.example", "GET"), 200)
    assert reply.headers["access-control-allow-origin"] == "https://a.wild.example"
    reply = answer(preflight(raw, cors_bucket, "https://anyone.example", "HEAD"), 200)
    assert reply.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in reply.headers


@pytest.mark.parametrize(
    "origin,method,headers",
    [
        ("https://evil.example", "GET", None),
        ("https://app.example.evil.example", "GET", None),
        ("https://app.example", "DELETE", None),
        ("https://app.example", "GET", "x-other"),
        ("http://app.example", "GET", None),
    ],
)
def test_preflight_refuses(raw, cors_bucket, origin, method, headers):
    with unchanged():
        reply = answer(preflight(raw, cors_bucket, origin, method, headers), 403)
    assert "access-control-allow-origin" not in reply.headers


def test_preflight_without_configuration(raw, bucket):
    with unchanged():
        reply = preflight(raw, bucket, "https://app.example", "GET")
        answer(reply, 403)
    with unchanged():
        missing = preflight(raw, "never-made-bucket", "https://app.example", "GET")
        assert missing.status in (403, 404)


def test_preflight_without_origin(raw, cors_bucket):
    with unchanged():
        reply = raw.request("OPTIONS", object_path(cors_bucket, "k"), anonymous=True)
        answer(reply, 400, "BadRequest", "InvalidRequest")


def test_answers_carry_headers(raw, cors_bucket):
    reply = answer(raw.get(cors_bucket, "k", [("Origin", "https://app.example")]), 200)
    assert reply.headers["access-control-allow-origin"] == "https://app.example"
    exposed = reply.headers["access-control-expose-headers"].lower()
    assert "etag" in exposed and "x-amz-meta-a" in exposed
    assert "origin" in reply.headers["vary"].lower()
    other = answer(raw.get(cors_bucket, "k", [("Origin", "https://evil.example")]), 200)
    assert "access-control-allow-origin" not in other.headers
    none = answer(raw.get(cors_bucket, "k"), 200)
    assert "access-control-allow-origin" not in none.headers


def test_errors_carry_headers_too(raw, cors_bucket):
    """A browser page must be able to read the error."""
    with unchanged():
        reply = answer(raw.get(cors_bucket, "missing", [("Origin", "https://app.example")]), 404)
    assert reply.headers["access-control-allow-origin"] == "https://app.example"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<CORSConfiguration>",
        b"<CORSConfiguration></CORSConfiguration>",
        b"<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin></CORSRule></CORSConfiguration>",
        b"<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>",
        b"<CORSConfiguration><CORSRule><AllowedMethod>TRACE</AllowedMethod><AllowedOrigin>*</AllowedOrigin></CORSRule></CORSConfiguration>",
        b"<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>a*b*c</AllowedOrigin></CORSRule></CORSConfiguration>",
    ],
)
def test_bad_configurations(raw, s3, bucket, body, nothing_changes):
    with nothing_changes():
        reply = raw.request("PUT", f"/{bucket}", [("cors", "")], body=body)
    answer(reply, 400, "MalformedXML", "InvalidRequest", "MissingRequestBodyError")
    with refused(404, "NoSuchCORSConfiguration"):
        s3.get_bucket_cors(Bucket=bucket)


def test_header_injection_by_expose_header(raw, s3, bucket):
    """Class of CVE-2020-10753: a line break in a configured header must not become a header."""
    body = (
        b"<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin>"
        b"<ExposeHeader>x-a&#13;&#10;x-injected: yes</ExposeHeader></CORSRule></CORSConfiguration>"
    )
    raw.request("PUT", f"/{bucket}", [("cors", "")], body=body)
    raw.put(bucket, "k", b"x")
    reply = raw.get(bucket, "k", [("Origin", "https://a.example")])
    assert "x-injected" not in reply.headers
