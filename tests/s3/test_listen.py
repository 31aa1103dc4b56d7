"""ListenBucketNotification and ListenNotification, extensions of MinIO: events as they happen, at any node."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
import uuid

import pytest
import urllib3
from minio import Minio
from support import sigv4
from support.boto import boto_of
from support.cli import run
from support.expect import refused
from support.listener import ALL, Listener
from support.server import Demo, wait_until
from support.sigv4 import Credentials
from support.unchanged import Admin

DAY_S = 2
PUT, COPY = "s3:ObjectCreated:Put", "s3:ObjectCreated:Copy"
DELETE, MARKED = "s3:ObjectRemoved:Delete", "s3:ObjectRemoved:DeleteMarkerCreated"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("listen") / "data"
    demo = Demo(folder, env={"ARCHIPEL_LIMITS_LIFECYCLE_DAY_SECONDS": str(DAY_S)}, nodes=3)
    yield demo.start()
    demo.stop()


@pytest.fixture(scope="module")
def endpoints(cluster):
    return [f"http://{node['s3']}" for node in cluster.nodes]


@pytest.fixture(scope="module")
def owner(cluster):
    return Credentials(cluster.access_key, cluster.secret_key, cluster.region)


@pytest.fixture(scope="module")
def client(cluster, endpoints):
    """A client of the second node. The tests listen at the first one."""
    return boto_of(cluster, endpoints[1], attempts=4)


@pytest.fixture
def place(client):
    name = f"listen-{uuid.uuid4().hex[:8]}"
    client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def key(cluster):
    """Makes access keys."""

    def make(*grants: str, bucket: str | None = None) -> Credentials:
        made = json.loads(run(cluster, "key create listener --json").stdout)
        if grants:
            run(cluster, "key allow", made["id"], "--bucket", bucket, *grants).check_returncode()
        return Credentials(made["id"], made["secret"], cluster.region)

    return make


@pytest.fixture
def listen(endpoints, owner):
    """Begins to listen, at the first node by default; ends it with the test."""
    with contextlib.ExitStack() as stack:

        def begin(bucket, *events, node=0, credentials=owner, **more) -> Listener:
            return stack.enter_context(Listener(endpoints[node], credentials, bucket, *events, **more))

        yield begin


def test_changes_at_every_node_are_heard_at_any(listen, cluster, endpoints, place, client):
    listeners = [listen(place, node=node) for node in range(3)]
    head = listeners[0].headers
    assert head["content-type"] == "text/event-stream" and "content-length" not in head
    put = None
    for node, endpoint in enumerate(endpoints):
        put = boto_of(cluster, endpoint).put_object(Bucket=place, Key=f"a b/ü{node}", Body=bytes(node))
    for listener in listeners:
        listener.hears(*((PUT, f"a b/ü{node}") for node in range(3)))
        record = next(r for r in listener.records if r["s3"]["object"]["size"] == 2)
        assert record["s3"]["bucket"] == {
            "name": place,
            "ownerIdentity": {"principalId": client.get_bucket_acl(Bucket=place)["Owner"]["ID"]},
            "arn": f"arn:aws:s3:::{place}",
        }
        assert record["s3"]["object"]["eTag"] == put["ETag"].strip('"')
        assert record["s3"]["object"]["key"] == "a+b%2F%C3%BC2"
        assert record["responseElements"]["x-amz-request-id"] == put["ResponseMetadata"]["RequestId"]
        # Readers learn neither addresses of clients nor ids of keys.
        assert record["requestParameters"] == {"sourceIPAddress": ""}
        assert record["userIdentity"]["principalId"] == client.list_buckets()["Owner"]["ID"]
        assert not any(cluster.access_key.encode() in line for line in listener.lines)
        assert record["awsRegion"] == cluster.region and record["eventSource"] == "aws:s3"
    listening = [Admin(node["admin"]).metric("archipel_event_listeners") for node in cluster.nodes]
    assert listening == [1, 1, 1]


def test_every_way_to_change_objects_is_told(listen, client, place, cluster):
    listener = listen(place)
    client.put_object(Bucket=place, Key="a", Body=b"12345")
    client.copy_object(Bucket=place, Key="copy", CopySource={"Bucket": place, "Key": "a"})
    upload = client.create_multipart_upload(Bucket=place, Key="parts")["UploadId"]
    part = client.upload_part(Bucket=place, Key="parts", UploadId=upload, PartNumber=1, Body=b"x")
    done = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    client.complete_multipart_upload(Bucket=place, Key="parts", UploadId=upload, MultipartUpload=done)
    form = client.generate_presigned_post(place, "form")
    posted = urllib3.PoolManager().request("POST", form["url"], fields={**form["fields"], "file": ("f", b"1")})
    assert posted.status == 204
    client.put_object_tagging(Bucket=place, Key="a", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    client.delete_object_tagging(Bucket=place, Key="a")
    with refused(412, "PreconditionFailed"):
        client.put_object(Bucket=place, Key="a", Body=b"2", IfNoneMatch="*")
    client.put_object(Bucket=place, Key="new", Body=b"2", IfNoneMatch="*")
    client.delete_object(Bucket=place, Key="a")
    client.delete_objects(Bucket=place, Delete={"Objects": [{"Key": "copy"}]})
    listener.hears(
        (PUT, "a"),
        (COPY, "copy"),
        ("s3:ObjectCreated:CompleteMultipartUpload", "parts"),
        ("s3:ObjectCreated:Post", "form"),
        ("s3:ObjectTagging:Put", "a"),
        ("s3:ObjectTagging:Delete", "a"),
        (PUT, "new"),
        (DELETE, "a"),
        (DELETE, "copy"),
    )
    sequencers = [r["s3"]["object"]["sequencer"] for r in listener.records if r["s3"]["object"]["key"] == "a"]
    assert sequencers == sorted(sequencers) and len({len(one) for one in sequencers}) == 1


def test_filters_choose_events_and_keys(listen, client, place):
    images = listen(place, PUT, prefix="images/", suffix=".jpg", ping="1")
    gone = listen(place, "s3:ObjectRemoved:*", "s3:ObjectAccessed:*")
    for name in ("images/a.jpg", "images/a.png", "a.jpg", "images/ü/+ .jpg"):
        client.put_object(Bucket=place, Key=name, Body=b"")
    client.copy_object(Bucket=place, Key="images/copy.jpg", CopySource={"Bucket": place, "Key": "a.jpg"})
    client.get_object(Bucket=place, Key="a.jpg")
    client.delete_object(Bucket=place, Key="a.jpg")
    images.hears((PUT, "images/a.jpg"), (PUT, "images/ü/+ .jpg"))
    gone.hears((DELETE, "a.jpg"))


def test_versions_are_named(listen, client, place):
    client.put_bucket_versioning(Bucket=place, VersioningConfiguration={"Status": "Enabled"})
    listener = listen(place)
    first = client.put_object(Bucket=place, Key="k", Body=b"1")["VersionId"]
    second = client.put_object(Bucket=place, Key="k", Body=b"2", IfMatch="*")["VersionId"]
    marker = client.delete_object(Bucket=place, Key="k")["VersionId"]
    client.delete_object(Bucket=place, Key="k", VersionId=first)
    client.delete_object(Bucket=place, Key="k", VersionId=marker)
    listener.hears((PUT, "k"), (PUT, "k"), (MARKED, "k"), (DELETE, "k"), (DELETE, "k"))
    seen = [(r["eventName"], r["s3"]["object"]["versionId"]) for r in listener.records]
    assert seen == [(PUT, first), (PUT, second), (MARKED, marker), (DELETE, first), (DELETE, marker)]


def test_what_lifecycle_rules_do_is_told(listen, client, place, cluster):
    client.put_object(Bucket=place, Key="old", Body=b"1")
    listener = listen(place, "s3:LifecycleExpiration:*")
    rule = {"ID": "r", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}
    client.put_bucket_lifecycle_configuration(Bucket=place, LifecycleConfiguration={"Rules": [rule]})
    listener.hears(("s3:LifecycleExpiration:Delete", "old"))


def test_pings_fill_the_time(listen, client, place):
    asked, unasked = listen(place, ping="1"), listen(place)
    assert wait_until(lambda: asked.lines.count(b'{"Records":null}\n') >= 2, 30)
    client.put_object(Bucket=place, Key="k", Body=b"")
    unasked.hears((PUT, "k"))
    # White space came first, on the same line.
    assert unasked.lines[0].startswith(b"  ")


def test_new_document_follows_each_event_on_a_line(listen, client, place):
    listener = listen(place, ping="10")
    for n in range(300):
        client.put_object(Bucket=place, Key=f"k{n}", Body=b"")
    listener.hears(*((PUT, f"k{n}") for n in range(300)))
    for line in listener.lines:
        assert line.endswith(b"\n") and len(json.loads(line)["Records"] or [1]) == 1


@pytest.mark.parametrize(
    "query",
    [
        {"events": ["s3:ObjectCreated"]},
        {"events": [""]},
        {"events": ["s3:ObjectCreated:*", "put"]},
        {"ping": "0"},
        {"ping": "soon"},
        {"prefix": "x" * 1025},
    ],
)
def test_wrong_questions_are_refused(endpoints, owner, place, query):
    query = dict(query)
    wrong = Listener(endpoints[0], owner, place, *query.pop("events", ALL), **query)
    assert (wrong.status, wrong.code) == (400, "InvalidArgument")
    of_all = Listener(endpoints[0], owner, None, "s3:Nothing")
    assert (of_all.status, of_all.code) == (400, "InvalidArgument")


def test_bucket_must_exist(endpoints, owner):
    lost = Listener(endpoints[0], owner, "never-made-bucket")
    assert (lost.status, lost.code) == (404, "NoSuchBucket")


def test_right_to_listen_is_that_to_read_unless_policies_say_otherwise(endpoints, client, place, key, listen):
    for grants, status in (((), 403), (("--write",), 403), (("--read",), 200), (("--owner",), 403)):
        listener = Listener(endpoints[0], key(*grants, bucket=place), place)
        assert listener.status == status, grants
        listener.close()
    reader, other = key("--read", bucket=place), key()

    def policy(effect: str, principal: str, **more) -> dict:
        what = {"Action": "s3:ListenBucketNotification", "Resource": f"arn:aws:s3:::{place}"}
        return {"Effect": effect, "Principal": {"AWS": principal}, **what, **more}

    only_team = {"Condition": {"StringLike": {"s3:prefix": "team/*"}}}
    document = {
        "Version": "2012-10-17",
        "Statement": [policy("Deny", reader.access_key), policy("Allow", other.access_key, **only_team)],
    }
    client.put_bucket_policy(Bucket=place, Policy=json.dumps(document))
    assert Listener(endpoints[0], reader, place).status == 403
    assert Listener(endpoints[0], other, place).status == 403
    allowed = listen(place, credentials=other, prefix="team/a")
    client.put_object(Bucket=place, Key="team/a1", Body=b"")
    client.put_object(Bucket=place, Key="other", Body=b"")
    allowed.hears((PUT, "team/a1"))


def test_anonymous_client_learns_nothing(endpoints, place):
    for path in ("", place, "never-made-bucket"):
        reply = urllib3.PoolManager().request("GET", f"{endpoints[0]}/{path}?events=s3:ObjectCreated:*")
        assert reply.status == 403 and b"AccessDenied" in reply.data


def test_listening_to_all_shows_only_buckets_of_the_key(listen, client, key, place, owner):
    hidden = f"hidden-{uuid.uuid4().hex[:8]}"
    client.create_bucket(Bucket=hidden)
    reader = key("--read", bucket=place)
    some = listen(None, credentials=reader, ping="1", prefix="seen/")
    nothing = listen(None, credentials=key(), ping="1")
    every = listen(None, credentials=owner, ping="1")
    for bucket in (hidden, place):
        client.put_object(Bucket=bucket, Key="seen/1", Body=b"")
        client.put_object(Bucket=bucket, Key="2", Body=b"")
    every.hears((PUT, "seen/1"), (PUT, "seen/1"), (PUT, "2"), (PUT, "2"))
    some.hears((PUT, "seen/1"))
    assert {record["s3"]["bucket"]["name"] for record in some.records} == {place}
    assert wait_until(lambda: nothing.lines) and nothing.told == []


def test_revoked_key_hears_no_more(listen, client, key, place, cluster):
    keys = [key("--read", bucket=place) for _ in range(4)]
    listeners = [listen(place, credentials=one) for one in keys]
    of_all = listen(None, credentials=keys[0])
    stays = listen(place)
    run(cluster, "key delete", keys[0].access_key, node=2).check_returncode()
    run(cluster, "key disable", keys[1].access_key, node=2).check_returncode()
    run(cluster, "key deny", keys[2].access_key, "--bucket", place, "--read", node=2).check_returncode()
    client.put_object(Bucket=place, Key="k", Body=b"")
    listeners[3].hears((PUT, "k"))
    stays.hears((PUT, "k"))
    for listener in (*listeners[:3], of_all):
        assert listener.ended.wait(30) and listener.told == []
    assert not listeners[3].ended.is_set()


def test_deletion_of_the_bucket_ends_it(listen, client, place):
    listener = listen(place)
    client.delete_bucket(Bucket=place)
    client.create_bucket(Bucket=place)
    client.put_object(Bucket=place, Key="of another bucket", Body=b"")
    assert listener.ended.wait(30) and listener.told == []


def test_slow_client_loses_the_connection_and_takes_no_memory(endpoints, owner, client, place, cluster):
    """It reads nothing. A thousand events wait for it beside those in buffers of the system; then it gets no more."""
    address = endpoints[0].removeprefix("http://").split(":")
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect((address[0], int(address[1])))
    query = [("events", "s3:ObjectRemoved:*"), ("ping", "10")]
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    headers = sigv4.sign_headers(owner, "GET", f"/{place}", query, [("Host", ":".join(address))], empty)
    lines = [f"GET /{place}?{sigv4.query_string(query)} HTTP/1.1", *(f"{n}: {v}" for n, v in headers), "", ""]
    slow.sendall("\r\n".join(lines).encode())
    assert slow.recv(12) == b"HTTP/1.1 200"
    names = [{"Key": f"{n:04}" + "x" * 1000} for n in range(1000)]
    writers = [threading.Thread(target=delete_all, args=(client, place, names)) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    # It reads again: what was kept, and then the end.
    slow.settimeout(60)
    got = b""
    while piece := slow.recv(1 << 20):
        got += piece
    assert 1000 <= got.count(b"s3:ObjectRemoved:Delete") < 8000
    slow.close()


def delete_all(client, place: str, names: list[dict]) -> None:
    """Deletions of what is not there are told, too."""
    client.delete_objects(Bucket=place, Delete={"Objects": names, "Quiet": True})


def test_places_are_bounded_and_freed(endpoints, owner, key, place, cluster):
    with contextlib.ExitStack() as stack:
        for _ in range(64):
            stack.enter_context(Listener(endpoints[2], owner, place, ping="1"))
        more = Listener(endpoints[2], owner, place)
        assert (more.status, more.code) == (503, "SlowDown")
        stack.enter_context(Listener(endpoints[2], key("--read", bucket=place), place))
        stack.enter_context(Listener(endpoints[1], owner, place))
    # A client that is gone is noticed by the second ping.
    admins = [Admin(node["admin"]) for node in cluster.nodes]
    assert wait_until(lambda: not any(admin.metric("archipel_event_listeners") for admin in admins), 60)


def test_minio_py_hears_through_another_node(cluster, endpoints, client, place):
    listening = Minio(
        endpoints[2].removeprefix("http://"), cluster.access_key, cluster.secret_key, region=cluster.region, secure=False
    )
    stop = threading.Event()

    def write() -> None:
        while not stop.wait(0.2):
            client.put_object(Bucket=place, Key="pictures/ü.jpg", Body=b"12")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with listening.listen_bucket_notification(place, prefix="pictures/", suffix=".jpg") as events:
            record = next(iter(events))["Records"][0]
    finally:
        stop.set()
        writer.join()
    assert record["eventName"] == PUT and record["s3"]["object"]["size"] == 2


def test_shutdown_ends_it(tmp_path):
    """The server would wait 30 s for answers under way."""
    demo = Demo(tmp_path / "data", nodes=3)
    info = demo.start()
    try:
        endpoints = [f"http://{node['s3']}" for node in info.nodes]
        owner = Credentials(info.access_key, info.secret_key, info.region)
        listeners = [Listener(endpoint, owner, info.bucket) for endpoint in endpoints]
        assert demo.stop(wait_s=15) == 0
        assert all(listener.ended.wait(5) for listener in listeners)
    finally:
        demo.stop()
