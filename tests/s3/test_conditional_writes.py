"""`If-Match` and `If-None-Match` on every write that takes them."""

import pytest
from support.data import MIB, content, etag
from support.expect import absent, answer, holds, refused
from support.sigv4 import object_path
from support.unchanged import unchanged

NONE = [("If-None-Match", "*")]
OTHER = etag(b"something else")


def test_put_if_absent(s3, bucket, nothing_changes):
    s3.put_object(Bucket=bucket, Key="k", Body=b"first", IfNoneMatch="*")
    with nothing_changes():
        with refused(412, "PreconditionFailed"):
            s3.put_object(Bucket=bucket, Key="k", Body=b"second", IfNoneMatch="*")
    holds(s3, bucket, "k", b"first")


def test_put_if_absent_after_delete(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"first")
    s3.delete_object(Bucket=bucket, Key="k")
    s3.put_object(Bucket=bucket, Key="k", Body=b"second", IfNoneMatch="*")
    holds(s3, bucket, "k", b"second")


def test_put_if_match(s3, bucket, nothing_changes):
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"first")["ETag"]
    newer = s3.put_object(Bucket=bucket, Key="k", Body=b"second", IfMatch=tag)["ETag"]
    with nothing_changes():
        with refused(412, "PreconditionFailed"):
            s3.put_object(Bucket=bucket, Key="k", Body=b"third", IfMatch=tag)
    s3.put_object(Bucket=bucket, Key="k", Body=b"fourth", IfMatch=newer.strip('"'))
    holds(s3, bucket, "k", b"fourth")


def test_put_if_match_of_a_missing_key(s3, bucket, nothing_changes):
    with nothing_changes():
        with refused(404, "NoSuchKey"):
            s3.put_object(Bucket=bucket, Key="k", Body=b"x", IfMatch=OTHER)
    absent(s3, bucket, "k")


def test_large_put_with_a_failed_condition(s3, bucket, nothing_changes):
    data = content(3 * MIB, "large")
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    with nothing_changes():
        with refused(412, "PreconditionFailed"):
            s3.put_object(Bucket=bucket, Key="k", Body=content(3 * MIB, "other"), IfNoneMatch="*")
        with refused(412, "PreconditionFailed"):
            s3.put_object(Bucket=bucket, Key="k", Body=content(3 * MIB, "other"), IfMatch=OTHER)
    holds(s3, bucket, "k", data)


def test_none_match_takes_only_the_asterisk(raw, bucket, nothing_changes):
    """AWS defines `*` alone; a tag must not be ignored and overwrite."""
    tag = raw.put(bucket, "k", b"first").headers["etag"]
    with nothing_changes():
        reply = raw.put(bucket, "k", b"second", [("If-None-Match", tag)])
    assert reply.status in (400, 412, 501), reply.brief()
    assert raw.get(bucket, "k").body == b"first"


def test_contradicting_conditions_write_nothing(raw, bucket, nothing_changes):
    tag = raw.put(bucket, "k", b"first").headers["etag"]
    with nothing_changes():
        reply = raw.put(bucket, "k", b"second", [("If-None-Match", "*"), ("If-Match", tag)])
    assert reply.status in (400, 412, 501), reply.brief()
    assert raw.get(bucket, "k").body == b"first"


def test_delete_if_match(s3, raw, bucket, nothing_changes):
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    with nothing_changes():
        with refused(412, "PreconditionFailed"):
            s3.delete_object(Bucket=bucket, Key="k", IfMatch=OTHER)
    holds(s3, bucket, "k", b"x")
    s3.delete_object(Bucket=bucket, Key="k", IfMatch=tag)
    absent(s3, bucket, "k")
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    answer(raw.delete(bucket, "k", [("If-Match", "*")]), 204)
    absent(s3, bucket, "k")


@pytest.mark.parametrize("condition", ["*", OTHER])
def test_delete_if_match_of_a_missing_key(raw, bucket, condition, nothing_changes):
    with nothing_changes():
        reply = raw.delete(bucket, "k", [("If-Match", condition)])
    assert (reply.status, reply.code) in [(404, "NoSuchKey"), (412, "PreconditionFailed")], reply.brief()


def test_delete_objects_with_tags(s3, bucket):
    good = s3.put_object(Bucket=bucket, Key="good", Body=b"1")["ETag"]
    s3.put_object(Bucket=bucket, Key="bad", Body=b"2")
    objects = [{"Key": "good", "ETag": good}, {"Key": "bad", "ETag": OTHER}]
    reply = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects})
    assert [d["Key"] for d in reply["Deleted"]] == ["good"]
    assert [(e["Key"], e["Code"]) for e in reply["Errors"]] == [("bad", "PreconditionFailed")]
    absent(s3, bucket, "good")
    holds(s3, bucket, "bad", b"2")


def test_copy_if_absent_and_if_match(raw, bucket):
    raw.put(bucket, "source", b"source")
    source = ("x-amz-copy-source", object_path(bucket, "source"))
    answer(raw.put(bucket, "k", b"", [source, *NONE]), 200)
    with unchanged():
        answer(raw.put(bucket, "k", b"", [source, *NONE]), 412, "PreconditionFailed")
    tag = raw.put(bucket, "k", b"mine").headers["etag"]
    with unchanged():
        answer(raw.put(bucket, "k", b"", [source, ("If-Match", OTHER)]), 412, "PreconditionFailed")
    assert raw.get(bucket, "k").body == b"mine"
    answer(raw.put(bucket, "k", b"", [source, ("If-Match", tag)]), 200)
    assert raw.get(bucket, "k").body == b"source"


def test_complete_if_absent(s3, bucket, nothing_changes):
    upload, parts = started(s3, bucket, "k", b"multipart")
    s3.put_object(Bucket=bucket, Key="k", Body=b"meanwhile")
    with nothing_changes():
        with refused(412, "PreconditionFailed"):
            s3.complete_multipart_upload(
                Bucket=bucket, Key="k", UploadId=upload, MultipartUpload=parts, IfNoneMatch="*"
            )
    holds(s3, bucket, "k", b"meanwhile")
    listed = s3.list_parts(Bucket=bucket, Key="k", UploadId=upload)["Parts"]
    assert [part["ETag"] for part in listed] == [part["ETag"] for part in parts["Parts"]]
    s3.delete_object(Bucket=bucket, Key="k")
    s3.complete_multipart_upload(
        Bucket=bucket, Key="k", UploadId=upload, MultipartUpload=parts, IfNoneMatch="*"
    )
    holds(s3, bucket, "k", b"multipart")


def test_complete_under_another_condition(s3, bucket):
    """A completion that failed as a creation succeeds as a replacement of the object that was in its way."""
    upload, parts = started(s3, bucket, "k", b"multipart")
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"meanwhile")["ETag"]
    arguments = dict(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload=parts)
    for _ in range(3):
        with refused(412, "PreconditionFailed"):
            s3.complete_multipart_upload(IfNoneMatch="*", **arguments)
    first = s3.complete_multipart_upload(IfMatch=tag, **arguments)
    holds(s3, bucket, "k", b"multipart")
    again = s3.complete_multipart_upload(**arguments)
    assert again["ETag"] == first["ETag"]


def test_complete_if_match(s3, bucket, nothing_changes):
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"old")["ETag"]
    upload, parts = started(s3, bucket, "k", b"multipart")
    arguments = dict(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload=parts)
    with nothing_changes():
        with refused(412, "PreconditionFailed"):
            s3.complete_multipart_upload(IfMatch=OTHER, **arguments)
    holds(s3, bucket, "k", b"old")
    s3.complete_multipart_upload(IfMatch=tag, **arguments)
    holds(s3, bucket, "k", b"multipart")


def started(s3, bucket, key, data):
    """An upload with one part, and what completes it."""
    upload = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=data)
    return upload, {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}


def test_a_quoted_asterisk_is_a_tag(raw, s3, bucket, nothing_changes):
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    quoted = [("If-Match", '"*"')]
    with nothing_changes():
        answer(raw.put(bucket, "k", b"other", quoted), 412, "PreconditionFailed")
        answer(raw.delete(bucket, "k", quoted), 412, "PreconditionFailed")
    answer(raw.put(bucket, "k", b"other", [("If-Match", "*")]), 200)
