"""Tags of objects and buckets."""

import pytest
from support.expect import answer, holds, refused
from support.sigv4 import object_path
from support.unchanged import unchanged


def tag_set(**tags):
    return {"TagSet": [{"Key": k, "Value": v} for k, v in tags.items()]}


def tags_of(s3, bucket, key):
    found = s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
    return {tag["Key"]: tag["Value"] for tag in found}


@pytest.mark.parametrize("size", [0, 100, 100_000, 3_000_000])
def test_tags_change_nothing_else(s3, bucket, size):
    content = bytes(n % 251 for n in range(size))
    s3.put_object(Bucket=bucket, Key="k", Body=content, Tagging="a=1&b=%C3%A4", Metadata={"m": "1"}, ContentType="x/y")
    before = s3.head_object(Bucket=bucket, Key="k")
    assert tags_of(s3, bucket, "k") == {"a": "1", "b": "ä"}
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging=tag_set(c="+ -=._:/@"))
    assert tags_of(s3, bucket, "k") == {"c": "+ -=._:/@"}
    after = s3.head_object(Bucket=bucket, Key="k")
    for same in ("ETag", "LastModified", "ContentLength", "ContentType", "Metadata"):
        assert before[same] == after[same]
    assert (before["TagCount"], after["TagCount"]) == (2, 1)
    assert s3.get_object(Bucket=bucket, Key="k")["TagCount"] == 1
    holds(s3, bucket, "k", content)
    s3.delete_object_tagging(Bucket=bucket, Key="k")
    assert tags_of(s3, bucket, "k") == {}
    assert "TagCount" not in s3.head_object(Bucket=bucket, Key="k")
    holds(s3, bucket, "k", content)


def test_replacement_has_no_old_tags(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"1", Tagging="a=1")
    s3.put_object(Bucket=bucket, Key="k", Body=b"2")
    assert tags_of(s3, bucket, "k") == {}


def test_copies(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="a=1")
    source = {"Bucket": bucket, "Key": "k"}
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=source)
    assert tags_of(s3, bucket, "copy") == {"a": "1"}
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=source, TaggingDirective="REPLACE", Tagging="b=2")
    assert tags_of(s3, bucket, "copy") == {"b": "2"}
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=source, TaggingDirective="REPLACE")
    assert tags_of(s3, bucket, "copy") == {}
    with refused(400, "InvalidArgument"):
        s3.copy_object(Bucket=bucket, Key="copy", CopySource=source, TaggingDirective="KEEP")


def test_multipart(s3, bucket):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", Tagging="a=1")["UploadId"]
    parts = []
    for number, body in ((1, b"1" * (5 << 20)), (2, b"2")):
        part = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=number, Body=body)
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": parts})
    assert tags_of(s3, bucket, "k") == {"a": "1"}
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging=tag_set(b="2"))
    assert tags_of(s3, bucket, "k") == {"b": "2"}
    holds(s3, bucket, "k", b"1" * (5 << 20) + b"2")


def test_refusals(s3, raw, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="a=1")

    def put(**tags):
        s3.put_object_tagging(Bucket=bucket, Key="k", Tagging=tag_set(**tags))

    with refused(400, "BadRequest"):
        put(**{f"k{n}": "" for n in range(11)})
    for bad in ({"k" * 129: ""}, {"k": "v" * 257}, {"aws:k": ""}, {"k?": ""}, {"k": "<"}):
        with refused(400, "InvalidTag"):
            put(**bad)
    with refused(400, "InvalidTag"):
        twice = [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]
        s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": twice})
    with refused(400, "InvalidTag"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"new", Tagging="aws:a=1")
    with refused(400, "InvalidArgument"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"new", Tagging="a=1&a=2")
    with refused(400, "BadRequest"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"new", Tagging="&".join(f"k{n}=1" for n in range(11)))
    with refused(404, "NoSuchKey"):
        s3.put_object_tagging(Bucket=bucket, Key="none", Tagging=tag_set(a="1"))
    with refused(404, "NoSuchKey"):
        s3.get_object_tagging(Bucket=bucket, Key="none")
    for body in (b"<x/>", b"<Tagging/>", b"<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>"):
        with unchanged():
            reply = raw.request("PUT", object_path(bucket, "k"), [("tagging", "")], body=body)
            answer(reply, 400, "MalformedXML")
    holds(s3, bucket, "k", b"x")
    assert tags_of(s3, bucket, "k") == {"a": "1"}


def test_buckets(s3, bucket):
    with refused(404, "NoSuchTagSet"):
        s3.get_bucket_tagging(Bucket=bucket)
    many = {f"k{n}": f"v{n}" for n in range(50)}
    s3.put_bucket_tagging(Bucket=bucket, Tagging=tag_set(**many))
    assert {t["Key"]: t["Value"] for t in s3.get_bucket_tagging(Bucket=bucket)["TagSet"]} == many
    with refused(400, "BadRequest"):
        s3.put_bucket_tagging(Bucket=bucket, Tagging=tag_set(**many, more=""))
    with refused(400, "InvalidTag"):
        s3.put_bucket_tagging(Bucket=bucket, Tagging=tag_set(**{"aws:x": ""}))
    assert len(s3.get_bucket_tagging(Bucket=bucket)["TagSet"]) == 50
    s3.delete_bucket_tagging(Bucket=bucket)
    with refused(404, "NoSuchTagSet"):
        s3.get_bucket_tagging(Bucket=bucket)


def test_a_bucket_is_created_with_its_tags(s3, raw, make_bucket):
    tags = [{"Key": "team", "Value": "a b"}, {"Key": "empty", "Value": ""}]
    name = make_bucket() + "-tagged"
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"Tags": tags})
    assert s3.get_bucket_tagging(Bucket=name)["TagSet"] == tags
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"Tags": tags})
    with refused(409, "BucketAlreadyOwnedByYou"):
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"Tags": tags[:1]})
    assert s3.get_bucket_tagging(Bucket=name)["TagSet"] == tags
    s3.delete_bucket(Bucket=name)
    for bad in ([{"Key": "aws:x", "Value": ""}], tags[:1] * 2):
        with refused(400, "InvalidTag"):
            s3.create_bucket(Bucket=name, CreateBucketConfiguration={"Tags": bad})
    with refused(404):
        s3.head_bucket(Bucket=name)
