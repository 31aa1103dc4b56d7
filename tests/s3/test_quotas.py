"""Quotas of buckets: what counts, what is refused, what gives room back."""

import concurrent.futures
import json
import subprocess

import pytest
from botocore.exceptions import ClientError
from support.boto import boto
from support.expect import absent, keys, refused
from support.server import binary


def cli(server, *arguments):
    command = [str(binary()), *arguments, "--json", "--socket", server.nodes[0]["admin"]]
    done = subprocess.run(command, check=True, capture_output=True, timeout=60)
    return json.loads(done.stdout)


@pytest.fixture
def limit(server, bucket):
    """Sets the quota of the bucket. The next test that gets the bucket finds none."""

    def set_limit(size="none", objects="none"):
        cli(server, "bucket", "quota", "set", bucket, "--size", str(size), "--objects", str(objects))

    yield set_limit
    set_limit()


def test_a_user_s_buckets_are_limited_together(server):
    cli(server, "user", "create", "quota-user", "--policy", "AmazonS3FullAccess")
    key = cli(server, "user", "key", "quota-user")
    own = boto("s3", server.endpoint, key["id"], key["secret"], region=server.region)
    names = ["quota-user-1", "quota-user-2"]
    own.create_bucket(Bucket=names[0])
    own.put_object(Bucket=names[0], Key="a", Body=bytes(600))
    shown = cli(server, "user", "quota", "set", "quota-user", "--size", "1000")
    assert shown == {"quota": {"bytes": 1000}, "bytes": 600, "objects": 1}
    own.create_bucket(Bucket=names[1])
    own.put_object(Bucket=names[1], Key="a", Body=bytes(400))
    for name in names:
        with refused(403, "QuotaExceeded"):
            own.put_object(Bucket=name, Key="b", Body=bytes(1))
        absent(own, name, "b")
    own.delete_object(Bucket=names[0], Key="a")
    own.put_object(Bucket=names[1], Key="b", Body=bytes(600))
    cli(server, "user", "quota", "set", "quota-user", "--size", "none")
    assert cli(server, "user", "quota", "show", "quota-user") == {"quota": {}, "bytes": 1000, "objects": 2}
    own.put_object(Bucket=names[0], Key="b", Body=bytes(5000))


def test_bytes_and_objects_are_limited(s3, server, bucket, limit):
    limit(size=1000, objects=3)
    s3.put_object(Bucket=bucket, Key="a", Body=bytes(600))
    with refused(403, "QuotaExceeded"):
        s3.put_object(Bucket=bucket, Key="b", Body=bytes(401))
    absent(s3, bucket, "b")
    s3.put_object(Bucket=bucket, Key="b", Body=bytes(400))
    s3.put_object(Bucket=bucket, Key="c")
    with refused(403, "QuotaExceeded"):
        s3.put_object(Bucket=bucket, Key="d")
    shown = cli(server, "bucket", "info", bucket)
    assert (shown["bytes"], shown["objects"]) == (1000, 3)
    assert shown["quota"] == {"bytes": 1000, "objects": 3}


def test_deletions_and_smaller_content_give_room_back(s3, bucket, limit):
    limit(size=1000)
    s3.put_object(Bucket=bucket, Key="a", Body=bytes(1000))
    s3.put_object(Bucket=bucket, Key="a", Body=bytes(900))
    s3.put_object(Bucket=bucket, Key="b", Body=bytes(100))
    with refused(403, "QuotaExceeded"):
        s3.put_object(Bucket=bucket, Key="a", Body=bytes(901))
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a"}]})
    s3.put_object(Bucket=bucket, Key="c", Body=bytes(900))


def test_copies_are_limited(s3, bucket, limit):
    s3.put_object(Bucket=bucket, Key="a", Body=bytes(600))
    limit(size=1000)
    with refused(403, "QuotaExceeded"):
        s3.copy_object(Bucket=bucket, Key="b", CopySource={"Bucket": bucket, "Key": "a"})
    absent(s3, bucket, "b")
    # Replacing the metadata of an object adds nothing.
    source = {"Bucket": bucket, "Key": "a"}
    s3.copy_object(Bucket=bucket, Key="a", CopySource=source, MetadataDirective="REPLACE", Metadata={"m": "1"})
    limit(size=1200)
    s3.copy_object(Bucket=bucket, Key="b", CopySource=source)


def test_a_refused_completion_leaves_the_upload(s3, bucket, limit):
    limit(size=6_000_000)
    s3.put_object(Bucket=bucket, Key="a", Body=bytes(1_000_000))
    upload = s3.create_multipart_upload(Bucket=bucket, Key="b")["UploadId"]
    parts = []
    for number, size in ((1, 5 << 20), (2, 1000)):
        part = s3.upload_part(Bucket=bucket, Key="b", UploadId=upload, PartNumber=number, Body=bytes(size))
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    whole = {"Parts": parts}
    with refused(403, "QuotaExceeded"):
        s3.complete_multipart_upload(Bucket=bucket, Key="b", UploadId=upload, MultipartUpload=whole)
    absent(s3, bucket, "b")
    s3.delete_object(Bucket=bucket, Key="a")
    s3.complete_multipart_upload(Bucket=bucket, Key="b", UploadId=upload, MultipartUpload=whole)
    assert s3.head_object(Bucket=bucket, Key="b")["ContentLength"] == (5 << 20) + 1000


def test_versions_count(s3, make_bucket, server):
    bucket = make_bucket("versioned-quota")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    cli(server, "bucket", "quota", "set", bucket, "--objects", "2")
    first = s3.put_object(Bucket=bucket, Key="k", Body=b"1")["VersionId"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"2")
    with refused(403, "QuotaExceeded"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"3")
    # Deletions are allowed. A delete marker keeps the versions, and so their room.
    s3.delete_object(Bucket=bucket, Key="k")
    with refused(403, "QuotaExceeded"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"3")
    s3.delete_object(Bucket=bucket, Key="k", VersionId=first)
    s3.put_object(Bucket=bucket, Key="k", Body=b"3")
    # Tags add nothing.
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})


def test_many_writers_fill_the_quota_and_no_more(s3, bucket, limit):
    limit(objects=40)

    def put(number):
        try:
            s3.put_object(Bucket=bucket, Key=f"k{number}", Body=b"x")
        except ClientError as error:
            assert error.response["Error"]["Code"] in ("QuotaExceeded", "SlowDown"), error
            return 0
        return 1

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        done = sum(pool.map(put, range(80)))
    # One node is one replica, so the quota is exact.
    assert done == 40 and len(keys(s3, bucket)) == 40
