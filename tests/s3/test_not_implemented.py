"""An operation that is not implemented says so (501 NotImplemented) and does nothing."""

import pytest
from support.expect import absent, answer, holds
from support.expect import refused as refused_by_s3
from support.sigv4 import object_path

ON = {
    "abac": "<AbacStatus><Status>Enabled</Status></AbacStatus>",
    "accelerate": "<AccelerateConfiguration><Status>Enabled</Status></AccelerateConfiguration>",
    "logging": "<BucketLoggingStatus><LoggingEnabled/></BucketLoggingStatus>",
}
READABLE_PARTS = [
    "abac", "accelerate", "analytics", "intelligent-tiering", "inventory", "logging",
    "metrics", "replication",
]  # fmt: skip
# The methods that S3 has; others are not allowed.
BUCKET_PARTS = {"session": ("GET",)}
OBJECT_PARTS = {"torrent": ("GET",)}


def refused(reply, method, methods):
    if method in methods:
        answer(reply, 501, "NotImplemented")
    else:
        answer(reply, 405, "MethodNotAllowed")



@pytest.mark.parametrize("part", BUCKET_PARTS)
def test_bucket_sub_resources(raw, s3, bucket, part, nothing_changes):
    raw.put(bucket, "k", b"x")
    with nothing_changes():
        for method in ("GET", "PUT", "DELETE"):
            reply = raw.request(method, f"/{bucket}", [(part, "")], body=b"<x/>" if method == "PUT" else b"")
            refused(reply, method, BUCKET_PARTS[part])
    holds(s3, bucket, "k", b"x")


@pytest.mark.parametrize("part", READABLE_PARTS)
def test_configurations_that_cannot_be_written(raw, bucket, part, nothing_changes):
    """Reading and deleting them answers as for a bucket that never had one: see test_unconfigured.py."""
    with nothing_changes():
        reply = raw.request("PUT", f"/{bucket}", [(part, "")], body=ON.get(part, "<x/>").encode())
        answer(reply, 501, "NotImplemented")


def test_metadata_tables_cannot_be_configured(raw, bucket, nothing_changes):
    """There is no PUT of it on AWS either."""
    with nothing_changes():
        for part in ("metadataConfiguration", "metadataTable"):
            for method, status, code in (("POST", 501, "NotImplemented"), ("PUT", 405, "MethodNotAllowed")):
                answer(raw.request(method, f"/{bucket}", [(part, "")], body=b"<x/>"), status, code)


@pytest.mark.parametrize("part", OBJECT_PARTS)
def test_object_sub_resources(raw, s3, bucket, part, nothing_changes):
    raw.put(bucket, "k", b"kept")
    with nothing_changes():
        for method in ("GET", "PUT", "DELETE"):
            reply = raw.request(method, object_path(bucket, "k"), [(part, "")], body=b"<x/>" if method == "PUT" else b"")
            refused(reply, method, OBJECT_PARTS[part])
    holds(s3, bucket, "k", b"kept")


def test_select(raw, s3, bucket, nothing_changes):
    raw.put(bucket, "k", b"kept")
    with nothing_changes():
        answer(raw.request("POST", object_path(bucket, "k"), [("select", ""), ("select-type", "2")], body=b"<x/>"), 501)
    holds(s3, bucket, "k", b"kept")


def test_no_object_is_in_an_archive(raw, s3, bucket, nothing_changes):
    """AWS: 403 InvalidObjectState for an object of another storage class."""
    raw.put(bucket, "k", b"kept")
    days = {"Days": 1, "GlacierJobParameters": {"Tier": "Standard"}}
    with nothing_changes():
        with refused_by_s3(403, "InvalidObjectState"):
            s3.restore_object(Bucket=bucket, Key="k", RestoreRequest=days)
        with refused_by_s3(404, "NoSuchKey"):
            s3.restore_object(Bucket=bucket, Key="absent", RestoreRequest=days)
        reply = raw.request("POST", object_path(bucket, "k"), [("restore", "")], body=b"<x/>")
        answer(reply, 400, "MalformedXML")
    holds(s3, bucket, "k", b"kept")


HEADERS = [
    ("x-amz-server-side-encryption", "aws:kms"),
    ("x-amz-write-offset-bytes", "5"),
]


@pytest.mark.parametrize("name,value", HEADERS)
def test_headers_that_ask_for_more(raw, s3, bucket, name, value, nothing_changes):
    """Encryption, public access: never taken and forgotten."""
    with nothing_changes():
        reply = raw.put(bucket, "k", b"x", [(name, value)])
        answer(reply, 501, "NotImplemented")
        absent(s3, bucket, "k")
        reply = raw.request("POST", object_path(bucket, "k"), [("uploads", "")], [(name, value)])
        if name != "x-amz-write-offset-bytes":
            answer(reply, 501, "NotImplemented")


def test_private_acl_is_what_it_is_anyway(raw, bucket):
    """Clients (rclone, s3cmd) send it by default."""
    answer(raw.put(bucket, "k", b"x", [("x-amz-acl", "private")]), 200)


def test_a_version_is_not_ignored(raw, s3, bucket, nothing_changes):
    raw.put(bucket, "k", b"x")
    with nothing_changes():
        for method in ("GET", "HEAD", "DELETE"):
            reply = raw.request(method, object_path(bucket, "k"), [("versionId", "3sL4kqtJlcpXroDTDmJ")])
            assert reply.status in (400, 404, 501), f"{method} {reply.brief()}"
    holds(s3, bucket, "k", b"x")


@pytest.mark.parametrize("method", ["PATCH", "TRACE", "PROPFIND", "MKCOL", "LINK"])
def test_other_methods(raw, s3, bucket, method, nothing_changes):
    raw.put(bucket, "k", b"x")
    with nothing_changes():
        for path in ("/", f"/{bucket}", object_path(bucket, "k")):
            reply = raw.request(method, path)
            assert reply.status in (400, 405, 501), f"{method} {path} {reply.brief()}"
    holds(s3, bucket, "k", b"x")


def test_methods_on_the_root(raw, nothing_changes):
    with nothing_changes():
        for method in ("PUT", "DELETE", "POST"):
            reply = raw.request(method, "/")
            assert reply.status in (400, 405, 501), f"{method} {reply.brief()}"


def test_versioning_is_off_at_first_and_mfa_delete_is_refused(raw, bucket, nothing_changes):
    """Clients ask before they begin; the true answer is an empty configuration."""
    root = answer(raw.request("GET", f"/{bucket}", [("versioning", "")]), 200).xml()
    assert root.tag == "VersioningConfiguration" and root.find("Status") is None
    body = (
        b"<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Enabled</MfaDelete></VersioningConfiguration>"
    )
    with nothing_changes():
        answer(raw.request("PUT", f"/{bucket}", [("versioning", "")], body=body), 501, "NotImplemented")


def test_two_sub_resources(raw, bucket, nothing_changes):
    with nothing_changes():
        for method, both in [("GET", ("acl", "policy")), ("DELETE", ("lifecycle", "tagging"))]:
            reply = raw.request(method, f"/{bucket}", [(name, "") for name in both])
            assert "Conflicting query string parameters" in answer(reply, 400, "InvalidArgument").body.decode()

