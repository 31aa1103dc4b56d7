"""Presigned URLs: what they allow, and nothing beside it."""

import base64
import hashlib

import pytest
from support import sigv4
from support.expect import absent, answer, holds
from support.sigv4 import Credentials, object_path
from support.unchanged import unchanged


# A new bucket allows no lists that grant anything to others.
REFUSED_LIST = (400, "AccessControlListNotSupported")


@pytest.fixture
def target(raw, bucket):
    answer(raw.put(bucket, "k", b"kept", [("Content-Type", "text/plain")]), 200)
    return bucket


def url(raw, method, bucket, key, **more) -> str:
    return sigv4.presign(raw.credentials, method, raw.host, object_path(bucket, key), **more)


def test_get_and_put(raw, s3, target):
    assert answer(raw.presigned("GET", url(raw, "GET", target, "k")), 200).body == b"kept"
    answer(raw.presigned("HEAD", url(raw, "HEAD", target, "k")), 200)
    answer(raw.presigned("PUT", url(raw, "PUT", target, "ü +&"), body=b"put"), 200)
    holds(s3, target, "ü +&", b"put")
    answer(raw.presigned("DELETE", url(raw, "DELETE", target, "k")), 204)
    absent(s3, target, "k")


def test_boto3_urls(raw, s3, target, server):
    for method, wanted in (("get_object", b"kept"), ("list_objects_v2", None)):
        arguments = {"Bucket": target} | ({"Key": "k"} if method == "get_object" else {})
        made = s3.generate_presigned_url(method, Params=arguments, ExpiresIn=60)
        reply = answer(raw.presigned("GET", made.removeprefix(server.endpoint)), 200)
        assert wanted is None or reply.body == wanted


def test_overrides_are_part_of_the_signature(raw, target):
    overrides = [("response-content-type", "text/x"), ("response-content-disposition", 'attachment; filename="ü"')]
    reply = answer(raw.presigned("GET", url(raw, "GET", target, "k", query=overrides[:1])), 200)
    assert reply.headers["content-type"] == "text/x"
    plain = url(raw, "GET", target, "k")
    with unchanged():
        answer(raw.presigned("GET", plain + "&response-content-type=text/html"), 403, "SignatureDoesNotMatch")


def test_line_breaks_in_overrides(raw, target):
    """Class of CVE-2015-5245: an encoded line break must not become a header."""
    for value in ("text/x\r\nx-injected: yes", "text/x\nx-injected: yes", "a\rb", "a\x00b"):
        made = url(raw, "GET", target, "k", query=[("response-content-type", value)])
        reply = raw.presigned("GET", made)
        assert reply.status in (200, 400) and "x-injected" not in reply.headers


def test_expired(raw, target):
    made = url(raw, "GET", target, "k", expires=1, stamp=sigv4.shifted(-10))
    with unchanged():
        answer(raw.presigned("GET", made), 403, "AccessDenied")
    made = url(raw, "GET", target, "k", expires=3600, stamp=sigv4.shifted(-3000))
    answer(raw.presigned("GET", made), 200)
    made = url(raw, "GET", target, "k", expires=3600, stamp=sigv4.shifted(3600))
    with unchanged():
        answer(raw.presigned("GET", made), 403, "AccessDenied", "RequestTimeTooSkewed")


@pytest.mark.parametrize("expires", ["604801", "-1", "x", "", "9223372036854775808"])
def test_impossible_lifetimes(raw, target, expires):
    with unchanged():
        reply = raw.presigned("GET", url(raw, "GET", target, "k", expires=expires))
        answer(reply, 400, "AuthorizationQueryParametersError")


def test_longest_lifetime(raw, target):
    answer(raw.presigned("GET", url(raw, "GET", target, "k", expires=604800)), 200)


@pytest.mark.parametrize(
    "change",
    [
        lambda u: u.replace("/k?", "/other?"),
        lambda u: u.replace("X-Amz-Expires=600", "X-Amz-Expires=6000"),
        lambda u: u[:-64] + "0" * 64,
        lambda u: u[:-1],
        lambda u: u + "&partNumber=1",
        lambda u: u + "&x-amz-meta-a=1",
        lambda u: u + "&X-Amz-Expires=604800",
    ],
)
def test_tampered(raw, target, change, nothing_changes):
    raw.put(target, "other", b"other's")
    with nothing_changes():
        reply = raw.presigned("GET", change(url(raw, "GET", target, "k")))
    assert reply.status in (400, 403), reply.brief()


def test_other_method(raw, s3, target, nothing_changes):
    made = url(raw, "GET", target, "k")
    with nothing_changes():
        answer(raw.presigned("PUT", made, body=b"new"), 403, "SignatureDoesNotMatch")
        answer(raw.presigned("DELETE", made), 403, "SignatureDoesNotMatch")
    holds(s3, target, "k", b"kept")


@pytest.mark.parametrize(
    "name,value",
    [
        ("x-amz-copy-source", "/BUCKET/k"),
        ("x-amz-meta-a", "1"),
        ("x-amz-tagging", "a=b"),
        ("x-amz-storage-class", "STANDARD_IA"),
        ("x-amz-object-lock-mode", "COMPLIANCE"),
        ("x-amz-trailer", "x-amz-checksum-crc32"),
    ],
)
def test_unsigned_amz_headers(raw, s3, target, name, value, nothing_changes):
    """Class of VersityGW 44967116: a presigned PUT with an x-amz-* header added."""
    made = url(raw, "PUT", target, "new")
    with nothing_changes():
        reply = raw.presigned("PUT", made, [(name, value.replace("BUCKET", target))], b"x")
    answer(reply, 403, "AccessDenied", "SignatureDoesNotMatch")
    absent(s3, target, "new")


def test_signed_headers_must_come(raw, s3, target, nothing_changes):
    headers = [("x-amz-meta-a", "1"), ("content-type", "text/x")]
    made = url(raw, "PUT", target, "new", headers=headers)
    with nothing_changes():
        answer(raw.presigned("PUT", made, body=b"x"), 403, "AccessDenied", "SignatureDoesNotMatch")
    wrong = [("x-amz-meta-a", "2"), ("content-type", "text/x")]
    with unchanged():
        answer(raw.presigned("PUT", made, wrong, b"x"), 403, "SignatureDoesNotMatch")
    answer(raw.presigned("PUT", made, headers, b"x"), 200)
    assert s3.head_object(Bucket=target, Key="new")["Metadata"] == {"a": "1"}


def test_header_and_query_together(raw, target):
    """Class of CVE-2026-40344: two credentials, of which only one is checked."""
    path = object_path(target, "k")
    headers = sigv4.sign_headers(raw.credentials, "GET", path, [], [("Host", raw.host)], sigv4.EMPTY_SHA256)
    with unchanged():
        reply = raw.send("GET", url(raw, "GET", target, "k"), headers)
        answer(reply, 400, "InvalidArgument", "InvalidRequest")
    forged = url(raw, "GET", target, "k")[:-64] + "0" * 64
    with unchanged():
        assert raw.send("GET", forged, headers).status in (400, 403)


def test_wrong_secret_and_unknown_key(raw, target, credentials):
    path = object_path(target, "k")
    wrong = Credentials(credentials.access_key, "wrong" * 8, credentials.region)
    with unchanged():
        answer(raw.presigned("GET", sigv4.presign(wrong, "GET", raw.host, path)), 403, "SignatureDoesNotMatch")
    unknown = Credentials("GKNOSUCHKEY", "s" * 40, credentials.region)
    with unchanged():
        answer(raw.presigned("GET", sigv4.presign(unknown, "GET", raw.host, path)), 403, "InvalidAccessKeyId")


@pytest.mark.parametrize("missing", ["Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature"])
def test_missing_parameters(raw, target, missing):
    path, query = url(raw, "GET", target, "k").split("?")
    kept = "&".join(p for p in query.split("&") if not p.startswith(f"X-Amz-{missing}="))
    with unchanged():
        reply = raw.presigned("GET", f"{path}?{kept}")
        assert reply.status in (400, 403), reply.brief()


def test_wrong_signature_of_version_2(raw, target, credentials):
    made = f"{object_path(target, 'k')}?AWSAccessKeyId={credentials.access_key}&Expires=9999999999&Signature=AAAA"
    with unchanged():
        answer(raw.presigned("GET", made), 403, "SignatureDoesNotMatch")
    unknown = made.replace(credentials.access_key, "AK" + "0" * 18)
    with unchanged():
        answer(raw.presigned("GET", unknown), 403, "InvalidAccessKeyId")
    for bucket_level in (f"/{target}", f"/{target}?list-type=2", "/"):
        path = made.replace(object_path(target, "k"), bucket_level)
        path = path if path.count("?") == 1 else path[::-1].replace("?", "&", 1)[::-1]
        with unchanged():
            answer(raw.presigned("GET", path), 400, "InvalidRequest")


def test_payload_mode_in_the_query(raw, s3, target, nothing_changes):
    """Classes of CVE-2025-31489 and CVE-2026-41145: a streaming mode named in query or header by the uploader."""
    with nothing_changes():
        for mode in ("STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"):
            forged = url(raw, "PUT", target, "new")[:-64] + "0" * 64
            for made, headers in (
                (forged, [("x-amz-content-sha256", mode)]),
                (forged + f"&X-Amz-Content-Sha256={mode}", []),
            ):
                reply = raw.presigned("PUT", made, headers, b"1\r\nx\r\n0\r\n\r\n")
                assert reply.status in (400, 403), reply.brief()
    absent(s3, target, "new")


def base64_of(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def in_query(raw, method, bucket, key, pairs, body=b""):
    """Sends a presigned request whose `x-amz-*` headers stand in the query, as most SDKs write it."""
    return raw.presigned(method, url(raw, method, bucket, key, query=pairs), body=body)


@pytest.mark.parametrize("name", ["x-amz-copy-source", "X-Amz-Copy-Source"])
def test_copy_source_in_the_query_copies(raw, s3, target, name):
    reply = answer(in_query(raw, "PUT", target, "copy", [(name, f"{target}/k")]), 200)
    assert reply.xml().tag.endswith("CopyObjectResult")
    holds(s3, target, "copy", b"kept")


def test_part_copy_source_in_the_query_copies(raw, s3, target):
    upload = s3.create_multipart_upload(Bucket=target, Key="m")["UploadId"]
    pairs = [("uploadId", upload), ("partNumber", "1"), ("x-amz-copy-source", f"{target}/k")]
    reply = answer(in_query(raw, "PUT", target, "m", [*pairs, ("x-amz-copy-source-range", "bytes=1-2")]), 200)
    assert reply.xml().tag.endswith("CopyPartResult")
    assert [p["Size"] for p in s3.list_parts(Bucket=target, Key="m", UploadId=upload)["Parts"]] == [2]


def test_metadata_and_storage_class_in_the_query_are_kept(raw, s3, target):
    pairs = [("X-Amz-Meta-Colour", "blue +"), ("x-amz-storage-class", "STANDARD_IA")]
    answer(in_query(raw, "PUT", target, "new", pairs, b"new"), 200)
    head = s3.head_object(Bucket=target, Key="new")
    assert head["Metadata"] == {"colour": "blue +"} and head["StorageClass"] == "STANDARD_IA"


def test_checksum_in_the_query_must_match(raw, s3, target):
    right = base64_of(hashlib.sha256(b"new").digest())
    pairs = [("X-Amz-Checksum-Sha256", right)]
    with unchanged():
        answer(in_query(raw, "PUT", target, "new", pairs, b"bad"), 400, "BadDigest")
    absent(s3, target, "new")
    answer(in_query(raw, "PUT", target, "new", pairs, b"new"), 200)
    reply = answer(in_query(raw, "GET", target, "new", [("x-amz-checksum-mode", "ENABLED")]), 200)
    assert reply.headers["x-amz-checksum-sha256"] == right


def test_checksum_of_nothing_in_the_query_is_no_claim(raw, s3, target):
    """The JavaScript SDK presigns uploads with the CRC of an empty body; S3 takes any body."""
    pairs = [("x-amz-checksum-crc32", "AAAAAA=="), ("x-amz-sdk-checksum-algorithm", "CRC32"), ("x-id", "PutObject")]
    answer(in_query(raw, "PUT", target, "new", pairs, b"new"), 200)
    holds(s3, target, "new", b"new")


def refused(name: str, value: str) -> tuple[int, str]:
    """Returns the refusal of a header that asks for what the bucket does not give."""
    if value == "public-read":
        return REFUSED_LIST
    if name == "x-amz-object-lock-mode":
        return 400, "InvalidArgument"  # without a date
    if name == "x-amz-object-lock-legal-hold":
        return 400, "InvalidRequest"  # without a checksum of the content
    if name.startswith("x-amz-grant-"):
        return 400, "AccessControlListNotSupported"
    return 501, "NotImplemented"


@pytest.mark.parametrize(
    "name,value",
    [
        ("x-amz-acl", "public-read"),
        ("X-Amz-Acl", "public-read"),
        ("x-amz-grant-read-acp", "uri=http://acs.amazonaws.com/groups/global/AllUsers"),
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-object-lock-mode", "COMPLIANCE"),
        ("x-amz-object-lock-legal-hold", "ON"),
    ],
)
def test_query_is_refused_as_the_header_is(raw, s3, target, name, value):
    """Encryption, locks, public access: never taken and forgotten."""
    refusal = refused(name, value)
    answer(in_query(raw, "PUT", target, "k", [(name, value)], b"new"), *refusal)
    header = [(name.lower(), value)]
    made = url(raw, "PUT", target, "k", headers=header)
    answer(raw.presigned("PUT", made, header, b"new"), *refusal)
    holds(s3, target, "k", b"kept")


def test_tags_in_the_query_count(raw, s3, target):
    answer(in_query(raw, "PUT", target, "new", [("x-amz-tagging", "a=b")], b"x"), 200)
    made = url(raw, "PUT", target, "signed", headers=[("x-amz-tagging", "a=b")])
    answer(raw.presigned("PUT", made, [("x-amz-tagging", "a=b")], b"x"), 200)
    for key in ("new", "signed"):
        assert s3.get_object_tagging(Bucket=target, Key=key)["TagSet"] == [{"Key": "a", "Value": "b"}]


def test_expected_owner_in_the_query_is_checked(raw, s3, target):
    pairs = [("x-amz-expected-bucket-owner", "123456789012")]
    with unchanged():
        answer(in_query(raw, "GET", target, "k", pairs), 403, "AccessDenied")
        answer(in_query(raw, "PUT", target, "k", pairs, b"new"), 403, "AccessDenied")
    holds(s3, target, "k", b"kept")


def test_header_and_query_must_agree(raw, s3, target):
    for other, status in (("1", 200), ("2", 400)):
        header = [("x-amz-meta-a", other)]
        made = url(raw, "PUT", target, "new", query=[("x-amz-meta-a", "1")], headers=header)
        answer(raw.presigned("PUT", made, header, other.encode()), status, *(["InvalidRequest"] if status == 400 else []))
    holds(s3, target, "new", b"1")
    twice = [("x-amz-meta-a", "1"), ("X-Amz-Meta-A", "2")]
    with unchanged():
        answer(in_query(raw, "PUT", target, "new", twice, b"new"), 400, "InvalidRequest")
    holds(s3, target, "new", b"1")


def test_line_breaks_in_headers_of_the_query(raw, s3, target):
    with unchanged():
        answer(in_query(raw, "PUT", target, "new", [("x-amz-meta-a", "1\r\nx-b: 2")], b"x"), 400, "InvalidArgument")
    absent(s3, target, "new")


def test_payload_hash_in_the_query_counts(raw, s3, target):
    """The hash that is named in the query, in any case, is the hash of the body."""
    right = hashlib.sha256(b"new").hexdigest()
    for name in ("X-Amz-Content-Sha256", "x-amz-content-sha256"):
        made = url(raw, "PUT", target, "new", query=[(name, right)], payload_hash=right)
        with unchanged():
            answer(raw.presigned("PUT", made, body=b"bad"), 400, "XAmzContentSHA256Mismatch")
        absent(s3, target, "new")
    answer(raw.presigned("PUT", made, body=b"new"), 200)


MD5 = base64_of(hashlib.md5(b"new").digest())
SHA256 = base64_of(hashlib.sha256(b"new").digest())


@pytest.mark.parametrize(
    "params,headers,wrong",
    [
        ({"Metadata": {"a": "1"}}, {"x-amz-meta-a": "1"}, None),
        ({"ChecksumSHA256": SHA256}, {"x-amz-checksum-sha256": SHA256}, "BadDigest"),
        ({"ContentMD5": MD5}, {"content-md5": MD5}, "BadDigest"),
        ({"ACL": "private"}, {"x-amz-acl": "private"}, None),
        ({"StorageClass": "GLACIER_IR"}, {"x-amz-storage-class": "GLACIER_IR"}, None),
    ],
)
def test_boto3_put_urls(raw, s3, target, server, params, headers, wrong):
    made = s3.generate_presigned_url("put_object", Params={"Bucket": target, "Key": "new"} | params, ExpiresIn=60)
    made = made.removeprefix(server.endpoint)
    with unchanged():
        answer(raw.presigned("PUT", made, body=b"new"), 403, "AccessDenied", "SignatureDoesNotMatch")
    if wrong:
        with unchanged():
            answer(raw.presigned("PUT", made, headers.items(), b"bad"), 400, wrong)
    absent(s3, target, "new")
    answer(raw.presigned("PUT", made, headers.items(), b"new"), 200)
    head = s3.head_object(Bucket=target, Key="new")
    assert head["Metadata"] == params.get("Metadata", {})
    assert head.get("StorageClass") == params.get("StorageClass")


@pytest.mark.parametrize(
    "params,headers",
    [
        ({"ACL": "public-read"}, {"x-amz-acl": "public-read"}),
        ({"ServerSideEncryption": "aws:kms"}, {"x-amz-server-side-encryption": "aws:kms"}),
        ({"ObjectLockLegalHoldStatus": "ON"}, {"x-amz-object-lock-legal-hold": "ON"}),
    ],
)
def test_boto3_put_urls_that_ask_for_more(raw, s3, target, server, params, headers):
    made = s3.generate_presigned_url("put_object", Params={"Bucket": target, "Key": "new"} | params, ExpiresIn=60)
    reply = raw.presigned("PUT", made.removeprefix(server.endpoint), headers.items(), b"new")
    answer(reply, *refused(*next(iter(headers.items()))))
    absent(s3, target, "new")


def test_boto3_copy_url(raw, s3, target, server):
    params = {"Bucket": target, "Key": "copy", "CopySource": f"{target}/k"}
    made = s3.generate_presigned_url("copy_object", Params=params, ExpiresIn=60).removeprefix(server.endpoint)
    with unchanged():
        answer(raw.presigned("PUT", made), 403, "AccessDenied", "SignatureDoesNotMatch")
    absent(s3, target, "copy")
    answer(raw.presigned("PUT", made, [("x-amz-copy-source", f"{target}/k")]), 200)
    holds(s3, target, "copy", b"kept")
