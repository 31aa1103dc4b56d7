"""Versions in a bucket that never had any: each object is its own only version, `null`."""

import pytest
from support.expect import absent, answer, holds, keys, refused
from support.sigv4 import object_path
from support.unchanged import unchanged

OTHER = "3sL4kqtJlcpXroDTDmJ_rmSpXd3dIbrH"


def versions(s3, bucket, size=1000, **more):
    paginator = s3.get_paginator("list_object_versions")
    pages = paginator.paginate(Bucket=bucket, PaginationConfig={"PageSize": size}, **more)
    return [v for page in pages for v in page.get("Versions", [])]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_listing(s3, bucket, size):
    names = sorted(["a", "b c", "d/1", "d/2", "ü", "z&<>"] + [f"n{i:02}" for i in range(12)], key=str.encode)
    for name in names:
        s3.put_object(Bucket=bucket, Key=name, Body=name.encode())
    found = versions(s3, bucket, size)
    assert [v["Key"] for v in found] == names
    assert {(v["VersionId"], v["IsLatest"]) for v in found} == {("null", True)}
    head = s3.head_object(Bucket=bucket, Key="a")
    assert (found[0]["ETag"], found[0]["Size"], found[0]["StorageClass"]) == (head["ETag"], 1, "STANDARD")
    assert found[0]["Owner"]["ID"]
    assert [v["Key"] for v in versions(s3, bucket, size, Prefix="n0")] == [f"n{i:02}" for i in range(10)]
    page = s3.list_object_versions(Bucket=bucket, Delimiter="/")
    assert [p["Prefix"] for p in page["CommonPrefixes"]] == ["d/"]
    assert len(page["Versions"]) == len(names) - 2 and "DeleteMarkers" not in page


def test_emptying_a_bucket_by_its_versions(s3, bucket):
    """As boto3's `bucket.object_versions.delete()`, Terraform's force_destroy and others do it."""
    for n in range(25):
        s3.put_object(Bucket=bucket, Key=f"k{n}", Body=b"x")
    entries = [{"Key": v["Key"], "VersionId": v["VersionId"]} for v in versions(s3, bucket, 10)]
    deleted = s3.delete_objects(Bucket=bucket, Delete={"Objects": entries})
    assert "Errors" not in deleted
    assert {d["VersionId"] for d in deleted["Deleted"]} == {"null"}
    assert keys(s3, bucket) == []


def test_null_is_the_object(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="a=1")
    named = {"Bucket": bucket, "Key": "k", "VersionId": "null"}
    assert s3.get_object(**named)["Body"].read() == b"x"
    assert s3.head_object(**named)["ContentLength"] == 1
    assert s3.get_object_tagging(**named)["TagSet"] == [{"Key": "a", "Value": "1"}]
    assert s3.get_object_attributes(**named, ObjectAttributes=["ObjectSize"])["ObjectSize"] == 1
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=named)
    holds(s3, bucket, "copy", b"x")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    s3.upload_part_copy(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=1, CopySource=named)
    s3.abort_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload)
    s3.delete_object(**named)
    absent(s3, bucket, "k")


def test_others_do_not_exist(s3, raw, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for version, status, code in ((OTHER, 404, "NoSuchVersion"), ("1", 400, "InvalidArgument")):
        for call in (s3.get_object, s3.get_object_tagging, s3.delete_object_tagging):
            with refused(status, code):
                call(Bucket=bucket, Key="k", VersionId=version)
        with refused(status, code):
            source = {"Bucket": bucket, "Key": "k", "VersionId": version}
            s3.copy_object(Bucket=bucket, Key="copy", CopySource=source)
    s3.delete_object(Bucket=bucket, Key="k", VersionId=OTHER)
    deleted = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k", "VersionId": OTHER}]})
    assert "Errors" not in deleted
    with unchanged():
        reply = raw.request("DELETE", object_path(bucket, "k"), [("versionId", "1")])
        answer(reply, 400, "InvalidArgument")
    holds(s3, bucket, "k", b"x")
