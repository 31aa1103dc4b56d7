"""Event notifications: what webhooks are told, in which order, and over crashes."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.boto import boto_of
from support.expect import refused
from support.hook import Hook
from support.server import Demo, Server, wait_until
from support.unchanged import Admin

TOKEN = "a-token-of-the-hook-that-nobody-guesses"


@pytest.fixture(scope="module")
def hook():
    hook = Hook()
    yield hook
    hook.shutdown()


def demo_in(folder, hook):
    """Nodes that tell events to the hook."""
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    target = f'{{name = "hook", url = "http://127.0.0.1:{hook.server_port}/in", token_file = "{token}"}}'
    return Demo(folder / "data", env={"ARCHIPEL_EVENT_TARGETS": f"[{target}]"}, nodes=3)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, hook):
    demo = demo_in(tmp_path_factory.mktemp("events"), hook)
    yield demo.start()
    demo.stop()


@pytest.fixture
def own_cluster(tmp_path, hook):
    """Nodes that no other test uses."""
    demo = demo_in(tmp_path, hook)
    yield demo.start()
    demo.stop()


@pytest.fixture(scope="module")
def client(cluster):
    return boto_of(cluster, attempts=4)


ARN = "arn:archipel:events::hook:webhook"


def rule(*events, name="all", arn=ARN, **filters):
    made = {"Id": name, "QueueArn": arn, "Events": list(events) or ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]}
    rules = [{"Name": name, "Value": value} for name, value in filters.items()]
    return made | ({"Filter": {"Key": {"FilterRules": rules}}} if rules else {})


def notify(client, bucket, *rules, **more):
    configuration = {"QueueConfigurations": list(rules)}
    client.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=configuration, **more)


@pytest.fixture
def place(client, request):
    name = "events-" + request.node.name.removeprefix("test_").replace("_", "-")[:40].strip("-")
    client.create_bucket(Bucket=name)
    return name


def test_what_happens_is_told(client, hook, place, cluster):
    notify(client, place, rule("s3:ObjectCreated:*", "s3:ObjectRemoved:*", "s3:ObjectTagging:*"))
    assert hook.messages[-1]["Event"] == "s3:TestEvent" and hook.messages[-1]["Bucket"] == place
    shown = client.get_bucket_notification_configuration(Bucket=place)["QueueConfigurations"]
    assert [(r["Id"], r["QueueArn"]) for r in shown] == [("all", ARN)]
    put = client.put_object(Bucket=place, Key="a b/ü+", Body=b"12345")
    copied = client.copy_object(Bucket=place, Key="copy", CopySource={"Bucket": place, "Key": "a b/ü+"})
    upload = client.create_multipart_upload(Bucket=place, Key="parts")["UploadId"]
    part = client.upload_part(Bucket=place, Key="parts", UploadId=upload, PartNumber=1, Body=b"x")
    done = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    client.complete_multipart_upload(Bucket=place, Key="parts", UploadId=upload, MultipartUpload=done)
    client.put_object_tagging(Bucket=place, Key="copy", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    client.delete_object_tagging(Bucket=place, Key="copy")
    client.delete_object(Bucket=place, Key="a b/ü+")
    client.delete_objects(Bucket=place, Delete={"Objects": [{"Key": "copy"}, {"Key": "never"}]})
    expected = {
        ("ObjectCreated:Put", "a b/ü+"),
        ("ObjectCreated:Copy", "copy"),
        ("ObjectCreated:CompleteMultipartUpload", "parts"),
        ("ObjectTagging:Put", "copy"),
        ("ObjectTagging:Delete", "copy"),
        ("ObjectRemoved:Delete", "a b/ü+"),
        ("ObjectRemoved:Delete", "copy"),
    }
    assert wait_until(lambda: expected <= set(hook.told(place)), 60)
    assert set(hook.told(place)) - expected <= {("ObjectRemoved:Delete", "never")}
    record = next(r for r in hook.records(place) if r["eventName"] == "ObjectCreated:Put")
    assert record["eventSource"] == "aws:s3" and record["awsRegion"] == cluster.region
    assert record["s3"]["configurationId"] == "all"
    owner = client.get_bucket_acl(Bucket=place)["Owner"]["ID"]
    assert record["s3"]["bucket"]["ownerIdentity"] == {"principalId": owner}
    assert record["s3"]["object"]["size"] == 5
    assert record["s3"]["object"]["eTag"] == put["ETag"].strip('"')
    assert record["responseElements"]["x-amz-request-id"] == put["ResponseMetadata"]["RequestId"]
    assert record["responseElements"]["x-amz-id-2"] == put["ResponseMetadata"]["HostId"] != ""
    tagged = [r for r in hook.records(place) if r["eventName"].startswith("ObjectTagging:")]
    assert {r["s3"]["object"]["eTag"] for r in tagged} == {copied["CopyObjectResult"]["ETag"].strip('"')}
    assert record["requestParameters"]["sourceIPAddress"] == "127.0.0.1"
    assert record["userIdentity"]["principalId"] != "anonymous"
    assert hook.tokens == {f"Bearer {TOKEN}"}


def test_filters_choose_keys(client, hook, place):
    notify(
        client,
        place,
        rule("s3:ObjectCreated:Put", name="jpg", prefix="images/", suffix=".jpg"),
        rule("s3:ObjectRemoved:*", name="gone"),
    )
    for key in ("images/a.jpg", "images/a.png", "a.jpg"):
        client.put_object(Bucket=place, Key=key, Body=b"")
    client.delete_object(Bucket=place, Key="a.jpg")
    assert wait_until(lambda: len(hook.told(place)) == 2, 60)
    assert set(hook.told(place)) == {("ObjectCreated:Put", "images/a.jpg"), ("ObjectRemoved:Delete", "a.jpg")}


def test_versions_are_named(client, hook, place):
    client.put_bucket_versioning(Bucket=place, VersioningConfiguration={"Status": "Enabled"})
    notify(client, place, rule())
    first = client.put_object(Bucket=place, Key="k", Body=b"1")["VersionId"]
    marker = client.delete_object(Bucket=place, Key="k")["VersionId"]
    client.delete_object(Bucket=place, Key="k", VersionId=first)
    assert wait_until(lambda: len(hook.told(place)) == 3, 60)
    seen = [(r["eventName"], r["s3"]["object"]["versionId"]) for r in hook.records(place)]
    assert list(dict.fromkeys(seen)) == [
        ("ObjectCreated:Put", first),
        ("ObjectRemoved:DeleteMarkerCreated", marker),
        ("ObjectRemoved:Delete", first),
    ]


def test_refused_writes_are_not_told(client, hook, place, cluster):
    notify(client, place, rule())
    client.put_object(Bucket=place, Key="k", Body=b"1")
    # The event's row goes once the target took it.
    assert wait_until(lambda: len(hook.told(place)) == 1 and waiting(cluster) == 0, 60)
    with refused(412, "PreconditionFailed"):
        client.put_object(Bucket=place, Key="k", Body=b"2", IfNoneMatch="*")
    client.put_object(Bucket=place, Key="last", Body=b"")
    assert wait_until(lambda: len(hook.told(place)) == 2, 60)
    assert [r["s3"]["object"]["size"] for r in hook.records(place) if r["s3"]["object"]["key"] == "k"] == [1]


def test_wrong_configurations_change_nothing(client, hook, place):
    notify(client, place, rule(name="kept"))
    for wrong in (
        [rule(arn="arn:archipel:events::other:webhook")],
        [rule(arn="arn:aws:sqs:us-east-1:1:queue")],
        [rule("s3:ObjectCreated:Nothing")],
        [rule(name="a"), rule("s3:ObjectCreated:Put", name="b")],
        [rule(name="a", prefix="a/"), rule(name="a", prefix="b/")],
    ):
        with refused(400, "InvalidArgument"):
            notify(client, place, *wrong)
    hook.is_down = True
    try:
        with refused(400, "InvalidArgument"):
            notify(client, place, rule(name="new"))
        shown = client.get_bucket_notification_configuration(Bucket=place)["QueueConfigurations"]
        assert [r["Id"] for r in shown] == ["kept"]
        notify(client, place, rule(name="new"), SkipDestinationValidation=True)
    finally:
        hook.is_down = False
    shown = client.get_bucket_notification_configuration(Bucket=place)["QueueConfigurations"]
    assert [r["Id"] for r in shown] == ["new"]
    notify(client, place)
    assert "QueueConfigurations" not in client.get_bucket_notification_configuration(Bucket=place)


def waiting(cluster) -> int:
    """The events that wait, as all nodes together count them."""
    return int(sum(Admin(node["admin"]).metric("archipel_events_waiting") for node in cluster.nodes))


def targets(cluster) -> list[dict]:
    """The targets of events, as each node shows them."""
    return [one for node in cluster.nodes for one in Admin(node["admin"]).call("GET", "/v1/event-targets")["items"]]


@pytest.mark.long
def test_events_wait_while_the_target_is_down(client, hook, place, cluster):
    notify(client, place, rule())
    hook.is_down = True
    try:
        for n in range(20):
            client.put_object(Bucket=place, Key=f"k{n}", Body=b"")
        assert wait_until(lambda: waiting(cluster) == 20, 60)
        assert not hook.records(place)
        shown = [one for one in targets(cluster) if one["state"] == "failing"]
        assert shown and all(one["error"] == "it answered 503 Service Unavailable" for one in shown), shown
        assert {(one["name"], one["kind"]) for one in targets(cluster)} == {("hook", "webhook")}
    finally:
        hook.is_down = False
    assert wait_until(lambda: len(hook.told(place)) == 20 and waiting(cluster) == 0, 180)
    assert wait_until(lambda: all(one["state"] == "idle" and "error" not in one for one in targets(cluster)), 60)


def test_unknown_settings_are_named(tmp_path):
    text = f'data_dir = "{tmp_path}"\n[[event_targets]]\nname = "A b"\nurl = "ftp://x"\nwhen_full = "wait"\nbacklog = 0\n'
    shown = Server.check(tmp_path, text)
    for key in ("name", "url", "when_full", "backlog"):
        assert f"event_targets[0].{key}" in shown
    assert "fix: " in shown
    text = f'data_dir = "{tmp_path}"\n[[event_targets]]\nname = "a"\nurl = "https://ann:pass-word@host/in"\n'
    shown = Server.check(tmp_path, text)
    assert "event_targets[0].url" in shown and "https://...@host/in" in shown
    assert "pass-word" not in shown


def test_acknowledged_writes_are_told_in_order_when_a_node_is_killed(hook, own_cluster):
    cluster, client, place = own_cluster, boto_of(own_cluster, attempts=4), "events-of-a-killed-node"
    client.create_bucket(Bucket=place)
    notify(client, place, rule())
    endpoints = [f"http://{node['s3']}" for node in cluster.nodes[:2]]
    clients = [boto_of(cluster, endpoint) for endpoint in endpoints]
    acknowledged: dict[str, list[int]] = {f"key-{number}": [] for number in range(4)}
    stop = threading.Event()

    def write(number: int) -> None:
        key, size = f"key-{number}", 0
        while not stop.is_set():
            size += 1
            try:
                clients[number % 2].put_object(Bucket=place, Key=key, Body=bytes(size))
            except Exception:  # noqa: BLE001 - only what was acknowledged counts
                continue
            acknowledged[key].append(size)

    def go_on() -> None:
        """Waits until more writes of each key were acknowledged."""
        before = {key: len(sizes) for key, sizes in acknowledged.items()}
        assert wait_until(lambda: all(len(acknowledged[key]) >= count + 20 for key, count in before.items()), 120)

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write, n) for n in range(4)]
        try:
            go_on()
            os.kill(int(cluster.nodes[2]["pid"]), signal.SIGKILL)
            go_on()
        finally:
            stop.set()
        for writer in writers:
            writer.result()

    def sizes(key: str) -> list[int]:
        told = [r["s3"]["object"]["size"] for r in hook.records(place) if r["s3"]["object"]["key"] == key]
        return list(dict.fromkeys(told))

    assert wait_until(lambda: all(set(sizes_acked) <= set(sizes(key)) for key, sizes_acked in acknowledged.items()), 180)
    for key, acked in acknowledged.items():
        assert len(acked) > 3
        told = [size for size in sizes(key) if size in acked]
        assert told == acked
