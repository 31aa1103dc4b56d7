"""minio-py."""

import io
from datetime import timedelta

import pytest
import urllib3
from minio import Minio
from minio.commonconfig import ComposeSource, CopySource
from minio.deleteobjects import DeleteObject
from minio.error import S3Error
from minio.versioningconfig import ENABLED, VersioningConfig
from support.data import MIB, content


@pytest.fixture
def client(server):
    return Minio(
        server.endpoint.split("://")[1],
        access_key=server.access_key,
        secret_key=server.secret_key,
        region=server.region,
        secure=False,
        http_client=urllib3.PoolManager(retries=False),
    )


def test_put_stat_get_remove(client, bucket):
    data = content(100_000, "minio")
    client.put_object(bucket, "a/b c", io.BytesIO(data), len(data), content_type="text/x", metadata={"k": "v"})
    stat = client.stat_object(bucket, "a/b c")
    assert stat.size == len(data) and stat.content_type == "text/x"
    assert client.get_object(bucket, "a/b c").read() == data
    assert client.get_object(bucket, "a/b c", offset=10, length=20).read() == data[10:30]
    client.remove_object(bucket, "a/b c")
    with pytest.raises(S3Error) as error:
        client.stat_object(bucket, "a/b c")
    assert error.value.code in ("NoSuchKey", "ResourceNotFound")


def test_multipart_of_unknown_length(client, bucket):
    data = content(17 * MIB, "minio multipart")
    client.put_object(bucket, "k", io.BytesIO(data), -1, part_size=5 * MIB)
    assert client.get_object(bucket, "k").read() == data


def test_copy_and_compose(client, bucket):
    data = content(5 * MIB, "compose")
    client.put_object(bucket, "a", io.BytesIO(data), len(data))
    client.copy_object(bucket, "b", CopySource(bucket, "a"))
    client.compose_object(bucket, "c", [ComposeSource(bucket, "a"), ComposeSource(bucket, "b")])
    assert client.get_object(bucket, "c").read() == data * 2


def test_list_and_bulk_remove(client, bucket):
    for n in range(5):
        client.put_object(bucket, f"d/k{n}", io.BytesIO(b"x"), 1)
    assert [o.object_name for o in client.list_objects(bucket)] == ["d/"]
    names = [o.object_name for o in client.list_objects(bucket, recursive=True)]
    assert names == [f"d/k{n}" for n in range(5)]
    assert list(client.remove_objects(bucket, [DeleteObject(n) for n in names])) == []
    assert list(client.list_objects(bucket, recursive=True)) == []


def test_presigned(client, bucket):
    pool = urllib3.PoolManager()
    put = client.presigned_put_object(bucket, "k", expires=timedelta(minutes=1))
    assert pool.request("PUT", put, body=b"presigned").status == 200
    got = pool.request("GET", client.presigned_get_object(bucket, "k", expires=timedelta(minutes=1)))
    assert got.data == b"presigned"


def test_buckets(client, bucket):
    assert client.bucket_exists(bucket) and not client.bucket_exists("never-made-bucket")
    assert bucket in [b.name for b in client.list_buckets()]


def test_versions(client, make_bucket):
    bucket = make_bucket("v")
    client.set_bucket_versioning(bucket, VersioningConfig(ENABLED))
    assert client.get_bucket_versioning(bucket).status == ENABLED
    ids = [client.put_object(bucket, "k", io.BytesIO(b"%d" % n), 1).version_id for n in range(3)]
    client.remove_object(bucket, "k")
    listed = list(client.list_objects(bucket, include_version=True, recursive=True))
    assert [v.version_id for v in listed if not v.is_delete_marker] == ids[::-1]
    assert [v.is_latest for v in listed if v.is_delete_marker] == ["true"]
    assert client.get_object(bucket, "k", version_id=ids[0]).read() == b"0"
    gone = [DeleteObject("k", v.version_id) for v in listed]
    assert list(client.remove_objects(bucket, gone)) == []
    assert list(client.list_objects(bucket, include_version=True)) == []
    client.remove_bucket(bucket)
