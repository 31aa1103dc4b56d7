"""The Python SDK against three real nodes, from nothing to a bucket that a key may use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError
from support.server import binary, wait_until

EXAMPLES = Path(__file__).resolve().parents[2] / "sdk/python/examples"


@pytest.fixture
def admin(three, sdk):
    with sdk.Archipel(socket=three.nodes[0]["admin"]) as admin:
        yield admin


def s3_of(three, key: str, secret: str, node: int = 0):
    endpoint = f"http://{three.nodes[node]['s3']}"
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=three.region,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
    )


def test_a_bucket_and_a_key_are_made_and_used_through_another_node(three, admin):
    key = admin.create_key("sdk")
    bucket = admin.create_bucket("sdk-photos", owner=key.id)
    assert (bucket.name, bucket.objects) == ("sdk-photos", 0)
    s3_of(three, key.id, key.secret, 1).put_object(Bucket="sdk-photos", Key="a", Body=b"hello")
    assert (admin.bucket("sdk-photos").objects, admin.bucket("sdk-photos").bytes_) == (1, 5)
    grant = admin.grant("sdk-photos", key.id, write=False)
    assert (grant.read, grant.write) == (True, False)
    with pytest.raises(ClientError) as refused:
        s3_of(three, key.id, key.secret).put_object(Bucket="sdk-photos", Key="b", Body=b"x")
    assert refused.value.response["Error"]["Code"] == "AccessDenied"


def test_lists_are_read_page_by_page(sdk, admin):
    from archipel_admin.api.buckets import list_buckets

    names = [f"sdk-page-{number}" for number in range(5)]
    for name in names:
        admin.create_bucket(name)
    found = [bucket.name for bucket in admin.pages(list_buckets, prefix="sdk-page-", limit=2)]
    assert found == names


def test_errors_have_codes(sdk, admin):
    with pytest.raises(sdk.ArchipelError) as refused:
        admin.bucket("sdk-none")
    assert (refused.value.status, refused.value.code) == (404, "NoSuchBucket")


def test_settings_of_a_bucket_are_set_and_read(sdk, admin):
    from archipel_admin.api.buckets import (
        delete_bucket_lifecycle,
        get_bucket_lifecycle,
        get_versioning,
        set_bucket_lifecycle,
        set_bucket_quota,
        set_bucket_tags,
        set_lock,
    )
    from archipel_admin.models import BucketLifecycle, BucketLockInfo, BucketRule, BucketTags, NameValue, Quota

    admin.create_bucket("sdk-settings")
    assert admin.call(get_versioning, "sdk-settings").state == "never"
    rules = BucketLifecycle(rules=[BucketRule(id="old", noncurrent_days=30, noncurrent_keep=3)])
    admin.call(set_bucket_lifecycle, "sdk-settings", body=rules)
    (rule,) = admin.call(get_bucket_lifecycle, "sdk-settings").rules
    assert (rule.id, rule.noncurrent_days, rule.noncurrent_keep) == ("old", 30, 3)
    admin.call(delete_bucket_lifecycle, "sdk-settings")
    assert admin.call(get_bucket_lifecycle, "sdk-settings").rules == []
    tags = BucketTags(tags=[NameValue(name="team", value="storage")])
    assert admin.call(set_bucket_tags, "sdk-settings", body=tags).tags[0].value == "storage"
    limited = admin.call(set_bucket_quota, "sdk-settings", body=Quota(objects=5))
    assert (limited.quota.objects, limited.objects) == (5, 0)
    with pytest.raises(sdk.ArchipelError) as refused:
        admin.call(set_lock, "sdk-settings", body=BucketLockInfo(enabled=True))
    assert (refused.value.status, refused.value.code) == (409, "LockNeedsVersions")


def test_a_node_leaves_the_layout_and_returns(three, sdk, admin):
    from archipel_admin.models import Assign, Redundancy

    nodes = {node.id for node in admin.nodes()}
    assert len(nodes) == 3
    before = admin.layout().version
    staged = admin.stage(redundancy=Redundancy(replicas=2)).staged
    assert staged.plan
    changed = admin.apply(wait_s=180)
    assert changed.version == before + 1 and changed.progress is None
    last = admin.layout().nodes[-1]
    admin.stage(remove=[last.id])
    assert len(admin.apply(wait_s=180).nodes) == 2
    admin.stage([Assign(node=last.id)], redundancy=Redundancy(replicas=3))
    assert len(admin.apply(wait_s=180).nodes) == 3


def test_operations_end(admin):
    from archipel_admin.api.maintenance import get_operation, start_verification
    from archipel_admin.models import StartVerify

    admin.call(start_verification, body=StartVerify())
    assert wait_until(lambda: admin.call(get_operation, "verification").state == "done", 60)
    assert admin.call(get_operation, "verification").problems == 0


def test_the_examples_run(three):
    program = [sys.executable, str(EXAMPLES / "bucket_and_key.py"), three.nodes[0]["admin"], "sdk-example"]
    folder = Path(sys.modules["archipel_admin"].__file__).parents[1]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, env={"PYTHONPATH": str(folder)})
    assert done.returncode == 0, done.stderr
    assert "AWS_SECRET_ACCESS_KEY=" in done.stdout
    listed = [str(binary()), "bucket", "list", "--socket", three.nodes[2]["admin"], "--json"]
    assert "sdk-example" in subprocess.run(listed, capture_output=True, text=True, timeout=60).stdout
