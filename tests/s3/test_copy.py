"""CopyObject: directives, preconditions, sources."""

import datetime

import pytest
from support.data import MIB, content, etag
from support.expect import absent, answer, holds, refused
from support.sigv4 import object_path


def test_copy_keeps_metadata(s3, bucket):
    s3.put_object(
        Bucket=bucket, Key="a", Body=b"x", ContentType="text/a", Metadata={"m": "1"}, CacheControl="no-cache"
    )
    result = s3.copy_object(Bucket=bucket, Key="b", CopySource=f"{bucket}/a")["CopyObjectResult"]
    assert result["ETag"] == etag(b"x") and result["LastModified"]
    head = s3.head_object(Bucket=bucket, Key="b")
    assert head["ContentType"] == "text/a" and head["Metadata"] == {"m": "1"}
    assert head["CacheControl"] == "no-cache"


def test_copy_directive_ignores_new_metadata(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x", Metadata={"m": "1"})
    s3.copy_object(
        Bucket=bucket, Key="b", CopySource=f"{bucket}/a", MetadataDirective="COPY", Metadata={"n": "2"}
    )
    assert s3.head_object(Bucket=bucket, Key="b")["Metadata"] == {"m": "1"}


def test_replace_directive(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x", Metadata={"m": "1"}, ContentType="text/a")
    s3.copy_object(
        Bucket=bucket, Key="b", CopySource=f"{bucket}/a", MetadataDirective="REPLACE",
        Metadata={"n": "2"}, ContentType="text/b",
    )  # fmt: skip
    head = s3.head_object(Bucket=bucket, Key="b")
    assert head["Metadata"] == {"n": "2"} and head["ContentType"] == "text/b"
    holds(s3, bucket, "b", b"x")


def test_bad_directive(raw, bucket, nothing_changes):
    raw.put(bucket, "a", b"x")
    headers = [("x-amz-copy-source", object_path(bucket, "a")), ("x-amz-metadata-directive", "MERGE")]
    with nothing_changes():
        answer(raw.put(bucket, "b", b"", headers), 400, "InvalidArgument")


def test_headers_of_the_other_copy_are_not_ignored(raw, s3, bucket, nothing_changes):
    """A whole object instead of a range of it would be a surprise; parts have no metadata."""
    raw.put(bucket, "a", b"0123456789")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="b")["UploadId"]
    part = [("partNumber", "1"), ("uploadId", upload)]
    ranged, directive = ("x-amz-copy-source-range", "bytes=0-1"), ("x-amz-metadata-directive", "REPLACE")
    source = ("x-amz-copy-source", object_path(bucket, "a"))
    path = object_path(bucket, "b")
    with nothing_changes():
        for query, header in [((), ranged), (part, directive)]:
            reply = answer(raw.request("PUT", path, query, [source, header]), 400, "InvalidArgument")
            assert reply.xml().findtext("ArgumentName") == header[0]
    absent(s3, bucket, "b")
    answer(raw.request("PUT", path, part, [source, ranged]), 200)
    answer(raw.request("PUT", path, (), [source, directive]), 200)


def test_copy_to_itself(s3, bucket, nothing_changes):
    """Only with something changed; the content stays."""
    data = content(2 * MIB, "self")
    s3.put_object(Bucket=bucket, Key="a", Body=data, Metadata={"m": "1"})
    with nothing_changes():
        with refused(400, "InvalidRequest"):
            s3.copy_object(Bucket=bucket, Key="a", CopySource=f"{bucket}/a")
    s3.copy_object(
        Bucket=bucket, Key="a", CopySource=f"{bucket}/a", MetadataDirective="REPLACE", Metadata={"n": "2"}
    )
    assert s3.head_object(Bucket=bucket, Key="a")["Metadata"] == {"n": "2"}
    holds(s3, bucket, "a", data)


@pytest.mark.parametrize("size", [0, 10, 100_000, 3 * MIB])
def test_sizes_and_source_deleted_afterwards(s3, make_bucket, size):
    one, other = make_bucket(), make_bucket()
    data = content(size, f"copy-{size}")
    s3.put_object(Bucket=one, Key="a", Body=data)
    s3.copy_object(Bucket=other, Key="b", CopySource={"Bucket": one, "Key": "a"})
    s3.delete_object(Bucket=one, Key="a")
    holds(s3, other, "b", data)


@pytest.mark.parametrize("lead", ["", "/"])
def test_encoded_sources(raw, bucket, lead):
    key = "folder x/ü+%2F&?#.txt"
    raw.put(bucket, key, b"odd")
    source = lead + object_path(bucket, key).lstrip("/")
    answer(raw.put(bucket, "b", b"", [("x-amz-copy-source", source)]), 200)
    assert raw.get(bucket, "b").body == b"odd"


def test_source_preconditions(s3, bucket, nothing_changes):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x")
    modified = s3.head_object(Bucket=bucket, Key="a")["LastModified"]
    common = dict(Bucket=bucket, Key="b", CopySource=f"{bucket}/a")
    hour = datetime.timedelta(hours=1)
    with nothing_changes():
        with refused(412, "PreconditionFailed"):
            s3.copy_object(CopySourceIfMatch=etag(b"other"), **common)
        with refused(412, "PreconditionFailed"):
            s3.copy_object(CopySourceIfNoneMatch=etag(b"x"), **common)
        with refused(412, "PreconditionFailed"):
            s3.copy_object(CopySourceIfUnmodifiedSince=modified - hour, **common)
        with refused(412, "PreconditionFailed"):
            s3.copy_object(CopySourceIfModifiedSince=modified, **common)
    absent(s3, bucket, "b")
    s3.copy_object(CopySourceIfMatch=etag(b"x"), CopySourceIfUnmodifiedSince=modified - hour, **common)
    s3.copy_object(CopySourceIfNoneMatch=etag(b"other"), **common)


def test_missing_sources(s3, bucket, nothing_changes):
    with nothing_changes():
        with refused(404, "NoSuchKey"):
            s3.copy_object(Bucket=bucket, Key="b", CopySource=f"{bucket}/missing")
        with refused(404, "NoSuchBucket"):
            s3.copy_object(Bucket=bucket, Key="b", CopySource="no-such-bucket-x/a")
    absent(s3, bucket, "b")


@pytest.mark.parametrize("source", ["", "/", "nokey", "//", "/b/", "%FF/x", "a/b?versionId="])
def test_malformed_sources(raw, s3, bucket, source, nothing_changes):
    """The crash of CVE-2024-47866 was an empty one."""
    with nothing_changes():
        reply = raw.put(bucket, "b", b"", [("x-amz-copy-source", source)])
    assert reply.status in (400, 404), reply.brief()
    absent(s3, bucket, "b")


def test_source_version_is_not_ignored(raw, s3, bucket, nothing_changes):
    """No versioning here: naming a version must not silently copy the current one."""
    raw.put(bucket, "a", b"x")
    source = object_path(bucket, "a") + "?versionId=3sL4kqtJlcpXroDTDmJ"
    with nothing_changes():
        reply = raw.put(bucket, "b", b"", [("x-amz-copy-source", source)])
    assert reply.status in (400, 404, 501), reply.brief()
    absent(s3, bucket, "b")


def test_copy_with_a_body_is_not_a_put(raw, bucket):
    raw.put(bucket, "a", b"source")
    reply = raw.put(bucket, "b", b"smuggled", [("x-amz-copy-source", object_path(bucket, "a"))])
    if reply.status == 200:
        assert raw.get(bucket, "b").body == b"source"


def test_multipart_object_copied_in_one(s3, bucket):
    """The copy is one object of its own: same content, and an ETag that its writer announced."""
    parts = [content(5 * MIB, "m1"), content(50, "m2")]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="a")["UploadId"]
    listed = []
    for number, data in enumerate(parts, 1):
        reply = s3.upload_part(Bucket=bucket, Key="a", UploadId=upload, PartNumber=number, Body=data)
        listed.append({"PartNumber": number, "ETag": reply["ETag"]})
    s3.complete_multipart_upload(
        Bucket=bucket, Key="a", UploadId=upload, MultipartUpload={"Parts": listed}
    )
    copied = s3.copy_object(Bucket=bucket, Key="b", CopySource=f"{bucket}/a")["CopyObjectResult"]
    assert s3.head_object(Bucket=bucket, Key="b")["ETag"] == copied["ETag"]
    holds(s3, bucket, "b", b"".join(parts))


def test_a_plus_in_the_source_is_a_space(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a b", Body=b"space")
    s3.put_object(Bucket=bucket, Key="a+b", Body=b"plus")
    for source, body in [(f"{bucket}%2Fa+b", b"space"), (f"{bucket}/a%2Bb", b"plus"), (f"{bucket}/a%20b", b"space")]:
        answer(raw.put(bucket, "copy", b"", [("x-amz-copy-source", source)]), 200)
        holds(s3, bucket, "copy", body)
