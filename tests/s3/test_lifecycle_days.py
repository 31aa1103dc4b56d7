"""Lifecycle rules at work: three nodes whose days last a few seconds."""

import datetime
import email.utils
import json
import re
import subprocess
import time

import pytest
from support.boto import boto_of
from support.expect import keys, refused
from support.unchanged import Admin
from support.server import Demo, binary, wait_until

DAY_S = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("days") / "data"
    demo = Demo(folder, env={"ARCHIPEL_LIMITS_LIFECYCLE_DAY_SECONDS": str(DAY_S)}, nodes=3)
    yield demo.start()
    demo.stop()


@pytest.fixture(scope="module")
def client(cluster):
    return boto_of(cluster, attempts=4)


@pytest.fixture
def place(client, request):
    name = "days-" + re.sub("[^a-z0-9]", "-", request.node.name)[:40].strip("-")
    client.create_bucket(Bucket=name)
    return name


def rule(name, prefix="", days=1, **more):
    made = {"ID": name, "Status": "Enabled", "Filter": {"Prefix": prefix}, "Expiration": {"Days": days}} | more
    return {key: value for key, value in made.items() if value is not None}


def put(client, place, *rules):
    client.put_bucket_lifecycle_configuration(Bucket=place, LifecycleConfiguration={"Rules": list(rules)})


def status(cluster):
    """Returns what all nodes did since they started."""
    shown = []
    for node in cluster.nodes:
        command = [binary(), "lifecycle", "status", "--json", "--socket", node["admin"]]
        shown.append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
    return shown


def total(cluster, name):
    return sum(node[name] for node in status(cluster))


def days(count):
    return count * DAY_S


def test_filters_choose_what_expires(cluster, client, place):
    small, large = b"x" * 100, b"y" * 100_000
    for n in range(30):
        client.put_object(Bucket=place, Key=f"logs/{n}", Body=small)
        client.put_object(Bucket=place, Key=f"kept/{n}", Body=small)
        client.put_object(Bucket=place, Key=f"tagged/{n}", Body=small, Tagging="temporary=yes" if n % 2 else "temporary=no")
        client.put_object(Bucket=place, Key=f"sized/{n}", Body=large if n % 2 else small)
    before = total(cluster, "expired_objects")
    size = {"And": {"Prefix": "sized/", "ObjectSizeGreaterThan": 1000}}
    put(
        client,
        place,
        rule("logs", "logs/"),
        rule("off", "kept/", Status="Disabled"),
        rule("late", "kept/", days=1000),
        rule("tags", Filter={"Tag": {"Key": "temporary", "Value": "yes"}}),
        rule("size", Filter=size),
    )
    wanted = {f"kept/{n}" for n in range(30)} | {f"{p}/{n}" for p in ("tagged", "sized") for n in range(0, 30, 2)}
    assert wait_until(lambda: set(keys(client, place)) == wanted, days(6), 0.3), set(keys(client, place)) ^ wanted
    time.sleep(days(2))
    assert set(keys(client, place)) == wanted
    assert total(cluster, "expired_objects") - before == 60
    assert all(node["expired_objects"] for node in status(cluster)), "the nodes share the work"
    assert total(cluster, "failed") == 0
    # Content that nothing refers to is dropped, and the stores agree with themselves.
    admins = [Admin(node["admin"]) for node in cluster.nodes]
    assert wait_until(lambda: not any(admin.has_garbage() for admin in admins), 60)
    info = admins[0].call("GET", f"/v1/buckets/{place}")
    assert (info["objects"], info["bytes"]) == (60, 6000)


def test_objects_live_until_the_date_that_was_told(client, place):
    put(client, place, rule("two", days=2))
    told = client.put_object(Bucket=place, Key="k", Body=b"x")["Expiration"]
    date = email.utils.parsedate_to_datetime(re.search('expiry-date="(.*?)"', told)[1])
    left = (date - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
    assert days(1.5) < left <= days(3)
    end = time.monotonic() + left - 1
    while time.monotonic() < end:
        client.head_object(Bucket=place, Key="k")
        time.sleep(0.2)
    assert wait_until(lambda: keys(client, place) == [], days(3), 0.2)


def test_what_is_written_again_lives_on(client, place):
    put(client, place, rule("one"))
    end = time.monotonic() + days(5)
    client.put_object(Bucket=place, Key="gone", Body=b"x")
    while time.monotonic() < end:
        client.put_object(Bucket=place, Key="k", Body=b"x")
        time.sleep(0.3)
        assert client.get_object(Bucket=place, Key="k")["Body"].read() == b"x"
    assert keys(client, place) == ["k"]


def test_incomplete_uploads_are_aborted(client, place):
    put(
        client,
        place,
        rule("up", "up/", Expiration=None, AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1}),
    )

    def begin(key):
        upload = client.create_multipart_upload(Bucket=place, Key=key)["UploadId"]
        client.upload_part(Bucket=place, Key=key, UploadId=upload, PartNumber=1, Body=b"x" * 100_000)
        return upload

    client.put_object(Bucket=place, Key="up/object", Body=b"x")
    gone, kept = begin("up/1"), begin("other/1")
    listed = lambda: [u["Key"] for u in client.list_multipart_uploads(Bucket=place).get("Uploads", [])]
    assert wait_until(lambda: listed() == ["other/1"], days(5), 0.2), listed()
    with refused(404, "NoSuchUpload"):
        client.upload_part(Bucket=place, Key="up/1", UploadId=gone, PartNumber=2, Body=b"x")
    client.upload_part(Bucket=place, Key="other/1", UploadId=kept, PartNumber=2, Body=b"x")
    assert keys(client, place) == ["up/object"]
    client.abort_multipart_upload(Bucket=place, Key="other/1", UploadId=kept)


@pytest.mark.long
def test_rules_change_while_they_run(client, place):
    for n in range(40):
        client.put_object(Bucket=place, Key=f"a/{n:02}", Body=b"x")
        client.put_object(Bucket=place, Key=f"b/{n:02}", Body=b"x")
    # Later than the test takes, also on a busy machine.
    put(client, place, rule("a", "a/", days=50))
    time.sleep(days(0.5))
    put(client, place, rule("b", "b/", days=1))
    wanted = [f"a/{n:02}" for n in range(40)]
    assert wait_until(lambda: keys(client, place) == wanted, days(6), 0.2)
    time.sleep(days(3))
    assert keys(client, place) == wanted
    # A rule that comes later finds them at once: they are old already.
    put(client, place, rule("a", "a/", days=1))
    assert wait_until(lambda: keys(client, place) == [], days(3), 0.2)
    client.delete_bucket_lifecycle(Bucket=place)
    client.put_object(Bucket=place, Key="a/new", Body=b"x")
    time.sleep(days(3))
    assert keys(client, place) == ["a/new"]


def test_a_date_that_has_passed(client, place):
    client.put_object(Bucket=place, Key="k", Body=b"x")
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
    put(client, place, rule("date", Expiration={"Date": past}))
    assert wait_until(lambda: keys(client, place) == [], days(3), 0.2)


def test_status_and_metrics(cluster, client, place):
    put(client, place, rule("one"))
    client.put_object(Bucket=place, Key="k", Body=b"x")
    assert wait_until(lambda: keys(client, place) == [], days(5), 0.2)
    for node in status(cluster):
        assert node["day_seconds"] == DAY_S and node["buckets"] >= 1
        assert wait_until(lambda: not Admin(cluster.nodes[0]["admin"]).call("GET", "/v1/lifecycle")["running"], 20)
        assert node["ended_ms"] and node["next_ms"]
    command = [binary(), "lifecycle", "status", "--socket", cluster.nodes[0]["admin"]]
    shown = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    assert "the next starts in" in shown and "for tests only" in shown


@pytest.fixture
def versioned(client, place):
    client.put_bucket_versioning(Bucket=place, VersioningConfiguration={"Status": "Enabled"})
    return place


def versions(client, place):
    """The versions and delete markers: key, id, and whether it is a marker."""
    found = []
    for page in client.get_paginator("list_object_versions").paginate(Bucket=place):
        for kind, is_marker in (("Versions", False), ("DeleteMarkers", True)):
            found += [(v["Key"], v["VersionId"], is_marker) for v in page.get(kind, [])]
    return found


def noncurrent(name, prefix="", **more):
    action = {"NoncurrentDays": 1} | more
    return rule(name, prefix, Expiration=None, NoncurrentVersionExpiration=action)


def test_versions_expire_below_the_current_one(cluster, client, versioned):
    write = lambda key: client.put_object(Bucket=versioned, Key=key, Body=b"x" * 50)["VersionId"]
    all_of = {prefix: [write(f"{prefix}/k") for _ in range(6)] for prefix in ("all", "three", "none")}
    before = total(cluster, "expired_versions")
    put(client, versioned, noncurrent("all", "all/"), noncurrent("three", "three/", NewerNoncurrentVersions=3))
    left = lambda prefix: {v for key, v, _ in versions(client, versioned) if key.startswith(prefix)}
    wanted = {"all": set(all_of["all"][5:]), "three": set(all_of["three"][2:]), "none": set(all_of["none"])}
    assert wait_until(lambda: {prefix: left(prefix) for prefix in wanted} == wanted, days(6), 0.3)
    time.sleep(days(2))
    assert {prefix: left(prefix) for prefix in wanted} == wanted
    assert total(cluster, "expired_versions") - before == 7
    with refused(404, "NoSuchVersion"):
        client.get_object(Bucket=versioned, Key="all/k", VersionId=all_of["all"][0])
    # One more write pushes one more out.
    new = write("three/k")
    wanted["three"] = {*all_of["three"][3:], new}
    assert wait_until(lambda: left("three") == wanted["three"], days(6), 0.3)
    assert client.get_object(Bucket=versioned, Key="three/k")["VersionId"] == new


def test_a_deleted_object_goes_for_good(cluster, client, versioned):
    told = client.put_object(Bucket=versioned, Key="k", Body=b"x")
    put(client, versioned, rule("days"), noncurrent("old"))
    shown = client.head_object(Bucket=versioned, Key="k")["Expiration"]
    assert 'rule-id="days"' in shown
    # First the object gets a delete marker, then its version goes, then the marker.
    seen = []

    def is_gone():
        now = versions(client, versioned)
        seen.append(now)
        return not now

    assert wait_until(is_gone, days(10), 0.2)
    mine = ("k", told["VersionId"], False)
    assert any(mine in now and any(marker for *_, marker in now) for now in seen)
    assert keys(client, versioned) == []


def test_suspended_versions_expire(client, versioned):
    kept = client.put_object(Bucket=versioned, Key="k", Body=b"kept")["VersionId"]
    client.put_bucket_versioning(Bucket=versioned, VersioningConfiguration={"Status": "Suspended"})
    client.put_object(Bucket=versioned, Key="k", Body=b"null")
    put(client, versioned, rule("days", days=2))
    wanted = {("k", kept, False), ("k", "null", True)}
    assert wait_until(lambda: set(versions(client, versioned)) == wanted, days(8), 0.3)
    client.put_bucket_lifecycle_configuration(
        Bucket=versioned, LifecycleConfiguration={"Rules": [rule("off", Status="Disabled")]}
    )
    assert client.get_object(Bucket=versioned, Key="k", VersionId=kept)["Body"].read() == b"kept"


def test_what_is_locked_stays(cluster, client, place):
    name = f"{place}-locked"
    client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    held = client.put_object(Bucket=name, Key="k", Body=b"x", ObjectLockLegalHoldStatus="ON")["VersionId"]
    free = client.put_object(Bucket=name, Key="k", Body=b"x")["VersionId"]
    last = client.put_object(Bucket=name, Key="k", Body=b"x")["VersionId"]
    put(client, name, noncurrent("old"))
    left = lambda: {v for _, v, _ in versions(client, name)}
    assert wait_until(lambda: left() == {held, last}, days(6), 0.3), (left(), free)
    time.sleep(days(2))
    assert left() == {held, last}
    client.put_object_legal_hold(Bucket=name, Key="k", VersionId=held, LegalHold={"Status": "OFF"})
    assert wait_until(lambda: left() == {last}, days(4), 0.3)
    assert total(cluster, "failed") == 0
