"""minio-py."""

import io
import uuid
from datetime import datetime, timedelta, timezone

import pytest
import urllib3
from minio import Minio
from minio.commonconfig import DISABLED, GOVERNANCE, ComposeSource, CopySource, Filter, Tags
from minio.commonconfig import ENABLED as ON
from minio.deleteobjects import DeleteObject
from minio.error import S3Error
from minio.lifecycleconfig import AbortIncompleteMultipartUpload, Expiration, LifecycleConfig, NoncurrentVersionExpiration, Rule
from minio.objectlockconfig import DAYS, ObjectLockConfig
from minio.retention import Retention
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


def test_tags(client, bucket):
    tags = Tags.new_object_tags()
    tags["Project"], tags["User"] = "Project One", "jsmith"
    client.put_object(bucket, "k", io.BytesIO(b"x"), 1, tags=tags)
    assert client.get_object_tags(bucket, "k") == tags
    tags["User"] = "other"
    client.set_object_tags(bucket, "k", tags)
    assert client.get_object_tags(bucket, "k")["User"] == "other"
    client.delete_object_tags(bucket, "k")
    assert client.get_object_tags(bucket, "k") is None
    assert client.get_bucket_tags(bucket) is None
    tags = Tags.new_bucket_tags()
    tags["Project"] = "Project One"
    client.set_bucket_tags(bucket, tags)
    assert client.get_bucket_tags(bucket) == tags
    client.delete_bucket_tags(bucket)
    assert client.get_bucket_tags(bucket) is None


def test_lifecycle(client, bucket):
    assert client.get_bucket_lifecycle(bucket) is None
    rules = [
        Rule(ON, rule_filter=Filter(prefix="logs/"), rule_id="logs", expiration=Expiration(days=365)),
        Rule(
            ON,
            rule_filter=Filter(prefix="old/"),
            rule_id="old",
            noncurrent_version_expiration=NoncurrentVersionExpiration(noncurrent_days=10),
        ),
        Rule(
            DISABLED,
            rule_filter=Filter(prefix=""),
            rule_id="uploads",
            abort_incomplete_multipart_upload=AbortIncompleteMultipartUpload(days_after_initiation=3),
        ),
    ]
    client.set_bucket_lifecycle(bucket, LifecycleConfig(rules))
    got = {rule.rule_id: rule for rule in client.get_bucket_lifecycle(bucket).rules}
    assert got.keys() == {"logs", "old", "uploads"}
    assert (got["logs"].expiration.days, got["logs"].rule_filter.prefix) == (365, "logs/")
    assert got["old"].noncurrent_version_expiration.noncurrent_days == 10
    assert got["uploads"].status == DISABLED
    client.delete_bucket_lifecycle(bucket)
    assert client.get_bucket_lifecycle(bucket) is None


def test_object_lock(client):
    bucket = f"minio-lock-{uuid.uuid4().hex[:8]}"
    client.make_bucket(bucket, object_lock=True)
    client.set_object_lock_config(bucket, ObjectLockConfig(GOVERNANCE, 15, DAYS))
    config = client.get_object_lock_config(bucket)
    assert (config.mode, config.duration, config.duration_unit) == (GOVERNANCE, 15, DAYS)
    client.delete_object_lock_config(bucket)
    assert client.get_object_lock_config(bucket).mode is None

    until = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=2)
    # Over plain HTTP it sends no Content-MD5, without which a protection is refused in a PUT, as on AWS.
    with pytest.raises(S3Error) as error:
        client.put_object(bucket, "k", io.BytesIO(b"x"), 1, retention=Retention(GOVERNANCE, until), legal_hold=True)
    assert error.value.code == "InvalidRequest"
    put = client.put_object(bucket, "k", io.BytesIO(b"x"), 1)
    held = {"bucket_name": bucket, "object_name": "k", "version_id": put.version_id}
    client.set_object_retention(**held, config=Retention(GOVERNANCE, until))
    client.enable_object_legal_hold(**held)
    assert client.is_object_legal_hold_enabled(**held)
    kept = client.get_object_retention(**held)
    assert (kept.mode, kept.retain_until_date) == (GOVERNANCE, until)
    for _ in ("while the hold is on", "while it is retained"):
        with pytest.raises(S3Error) as error:
            client.remove_object(**held)
        assert error.value.code == "AccessDenied"
        client.disable_object_legal_hold(**held)
        assert not client.is_object_legal_hold_enabled(**held)
    client.set_object_retention(**held, config=Retention(GOVERNANCE, until + timedelta(days=1)))
    assert client.get_object_retention(**held).retain_until_date == until + timedelta(days=1)
    client.enable_object_legal_hold(**held)
    assert client.is_object_legal_hold_enabled(**held)
    client.disable_object_legal_hold(**held)
    gone = client.remove_objects(bucket, [DeleteObject("k", put.version_id)], bypass_governance_mode=True)
    assert list(gone) == []
    client.remove_bucket(bucket)
