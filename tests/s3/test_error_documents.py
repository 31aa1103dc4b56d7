"""Errors say what they are about, in the elements that AWS documents."""

import base64
import hashlib

import pytest
from support.expect import answer
from support.sigv4 import Credentials, object_path

LONG_AGO = "Wed, 01 Jan 2020 00:00:00 GMT"
OTHER = '"00000000000000000000000000000000"'


def told(reply, status: int, code: str) -> dict[str, str]:
    return {e.tag: e.text or "" for e in answer(reply, status, code).xml()}


@pytest.fixture
def held(raw, bucket):
    """An object, and its tag."""
    return raw.put(bucket, "k", b"kept").headers["etag"]


def test_failed_condition_of_a_read(raw, bucket, held):
    for name, value in (("If-Match", OTHER), ("If-Unmodified-Since", LONG_AGO)):
        error = told(raw.get(bucket, "k", [(name, value)]), 412, "PreconditionFailed")
        assert error["Condition"] == name


def test_failed_condition_of_a_write(raw, bucket, held, nothing_changes):
    upload = raw.request("POST", object_path(bucket, "k"), [("uploads", "")]).xml().findtext("UploadId")
    query = [("partNumber", "1"), ("uploadId", upload)]
    part = raw.request("PUT", object_path(bucket, "k"), query, body=b"x").headers["etag"]
    parts = f"<Part><PartNumber>1</PartNumber><ETag>{part}</ETag></Part>"
    document = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    with nothing_changes():
        for name, value in (("If-Match", OTHER), ("If-None-Match", "*")):
            header, source = (name, value), ("x-amz-copy-source", f"{bucket}/k")
            replies = [
                raw.put(bucket, "k", b"new", [header]),
                raw.put(bucket, "k", b"", [header, source, ("x-amz-metadata-directive", "REPLACE")]),
                raw.request("POST", object_path(bucket, "k"), [("uploadId", upload)], [header], document),
            ]
            for reply in replies:
                assert told(reply, 412, "PreconditionFailed")["Condition"] == name
        reply = raw.delete(bucket, "k", [("If-Match", OTHER)])
        assert told(reply, 412, "PreconditionFailed")["Condition"] == "If-Match"


@pytest.mark.parametrize("name", ["Match", "None-Match", "Modified-Since", "Unmodified-Since"])
def test_failed_condition_of_a_source(raw, bucket, held, name):
    last = raw.head(bucket, "k").headers["last-modified"]
    value = {"Match": OTHER, "None-Match": held, "Modified-Since": last}.get(name, LONG_AGO)
    header = f"x-amz-copy-source-If-{name}"
    reply = raw.put(bucket, "copy", b"", [("x-amz-copy-source", f"{bucket}/k"), (header, value)])
    assert told(reply, 412, "PreconditionFailed")["Condition"] == header


@pytest.mark.parametrize("name", ["If-Modified-Since", "If-Unmodified-Since"])
def test_dates_are_no_condition_of_writes(raw, bucket, held, name, nothing_changes):
    """S3 does not know them there; who sends one must not believe that it was met."""
    with nothing_changes():
        for reply in (raw.put(bucket, "k", b"new", [(name, LONG_AGO)]), raw.delete(bucket, "k", [(name, LONG_AGO)])):
            assert told(reply, 501, "NotImplemented")["Header"] == name.lower()


def test_post_without_a_form(raw, bucket):
    error = told(raw.request("POST", f"/{bucket}", headers=[("Content-Type", "text/plain")]), 412, "PreconditionFailed")
    assert error["Condition"] == "Bucket POST must be of the enclosure-type multipart/form-data"


def test_method_that_is_not_allowed(raw, bucket):
    reply = raw.request("POST", object_path(bucket, "k"))
    error = told(reply, 405, "MethodNotAllowed")
    assert (error["Method"], error["ResourceType"]) == ("POST", "OBJECT")
    assert reply.headers["allow"] == "GET, HEAD, PUT, DELETE"


def test_delete_marker(raw, s3, make_bucket):
    bucket = make_bucket("marked")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    marker = raw.delete(bucket, "k").headers["x-amz-version-id"]
    query = [("versionId", marker), ("tagging", "")]
    reply = raw.request("DELETE", object_path(bucket, "k"), query)
    error = told(reply, 405, "MethodNotAllowed")
    assert (error["Method"], error["ResourceType"]) == ("DELETE", "DeleteMarker")
    assert reply.headers["allow"] == "DELETE"
    missing = marker[:-4] + "0000"
    error = told(raw.request("GET", object_path(bucket, "k"), [("versionId", missing)]), 404, "NoSuchVersion")
    assert (error["Key"], error["VersionId"]) == ("k", missing)


def test_missing_upload(raw, bucket):
    for query in ([("uploadId", "x")], [("uploadId", "0" * 32)]):
        error = told(raw.request("GET", object_path(bucket, "k"), query), 404, "NoSuchUpload")
        assert error["UploadId"] == query[0][1]


def test_digests(raw, bucket, nothing_changes):
    def md5(content):
        return base64.b64encode(hashlib.md5(content).digest()).decode()

    with nothing_changes():
        error = told(raw.put(bucket, "k", b"a", [("Content-MD5", md5(b"b"))]), 400, "BadDigest")
        assert (error["ExpectedDigest"], error["CalculatedDigest"]) == (md5(b"b"), md5(b"a"))
        assert told(raw.put(bucket, "k", b"a", [("Content-MD5", "no")]), 400, "InvalidDigest")["Content-MD5"] == "no"
        # One of them would be ignored.
        twice = [("Content-MD5", md5(b"a")), ("Content-MD5", md5(b"b"))]
        told(raw.put(bucket, "k", b"a", twice), 400, "InvalidDigest")
        signed, found = hashlib.sha256(b"b").hexdigest(), hashlib.sha256(b"a").hexdigest()
        error = told(raw.put(bucket, "k", b"a", payload_hash=signed), 400, "XAmzContentSHA256Mismatch")
        assert error["ClientComputedContentSHA256"] == signed
        assert error["S3ComputedContentSHA256"] == found


def test_unknown_key(raw, bucket):
    stranger = Credentials("AKSTRANGER", "x" * 40)
    error = told(raw.get(bucket, "k", credentials=stranger), 403, "InvalidAccessKeyId")
    assert error["AWSAccessKeyId"] == "AKSTRANGER"


def test_wrong_signature(raw, credentials, bucket):
    """The text to sign, so that who writes a client finds the difference."""
    wrong = Credentials(credentials.access_key, "x" * 40)
    error = told(raw.get(bucket, "k", credentials=wrong), 403, "SignatureDoesNotMatch")
    canonical = error["CanonicalRequest"]
    assert canonical.startswith(f"GET\n/{bucket}/k\n\nhost:")
    text = error["StringToSign"]
    assert text.splitlines()[0] == "AWS4-HMAC-SHA256"
    assert text.splitlines()[-1] == hashlib.sha256(canonical.encode()).hexdigest()
    assert bytes.fromhex(error["StringToSignBytes"]).decode() == text
    assert error["AWSAccessKeyId"] == credentials.access_key
    assert len(error["SignatureProvided"]) == 64


def test_part_that_is_not_there(raw, bucket, held):
    reply = raw.request("GET", object_path(bucket, "k"), [("partNumber", "2")])
    error = told(reply, 416, "InvalidPartNumber")
    assert (error["ActualPartCount"], error["PartNumberRequested"]) == ("1", "2")


def test_list_that_is_not_given(raw, bucket):
    error = told(raw.request("PUT", f"/{bucket}", [("acl", "")]), 400, "MissingSecurityHeader")
    assert error["MissingHeaderName"] == "x-amz-acl"


def test_refused_preflight(raw, s3, bucket):
    def preflight(**headers):
        headers = [(name.replace("_", "-"), value) for name, value in headers.items()]
        return raw.send("OPTIONS", object_path(bucket, "k"), [("Host", raw.host), *headers])

    asked = {"Origin": "http://a.example", "Access_Control_Request_Method": "PUT"}
    error = told(preflight(**asked), 403, "AccessForbidden")
    assert "not enabled" in error["Message"]
    assert (error["Method"], error["ResourceType"]) == ("PUT", "OBJECT")
    rule = {"AllowedOrigins": ["http://b.example"], "AllowedMethods": ["PUT"]}
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    assert "not allowed" in told(preflight(**asked), 403, "AccessForbidden")["Message"]
    del asked["Access_Control_Request_Method"]
    error = told(preflight(**asked), 400, "BadRequest")
    assert error["Message"] == "Invalid Access-Control-Request-Method: null"


def test_page_without_entries_is_the_last(raw, bucket):
    upload = raw.request("POST", object_path(bucket, "k"), [("uploads", "")]).xml().findtext("UploadId")
    query = [("partNumber", "1"), ("uploadId", upload)]
    answer(raw.request("PUT", object_path(bucket, "k"), query, body=b"x"), 200)
    page = raw.request("GET", object_path(bucket, "k"), [("uploadId", upload), ("max-parts", "0")]).xml()
    assert (page.findtext("IsTruncated"), page.find("Part")) == ("false", None)


@pytest.mark.parametrize("most", ["0", "10001"])
def test_numbers_of_buckets(raw, most):
    error = told(raw.request("GET", "/", [("max-buckets", most)]), 400, "InvalidArgument")
    assert (error["ArgumentName"], error["ArgumentValue"]) == ("max-buckets", most)
