"""The Python SDK against three real nodes, from nothing to a bucket that a key may use."""

from __future__ import annotations

import contextlib
import select
import socket
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from support.boto import boto
from support.unchanged import unchanged

EXAMPLES = Path(__file__).resolve().parents[2] / "sdk/python/examples"


@pytest.fixture
def admin(three, sdk):
    with sdk.Archipel(socket=three.nodes[0]["admin"]) as admin:
        yield admin


def s3_of(three, key: str, secret: str, node: int = 0):
    return boto("s3", f"http://{three.nodes[node]['s3']}", key, secret)


def test_a_bucket_and_a_key_are_made_and_used_through_another_node(three, admin):
    key = admin.create_key("sdk")
    bucket = admin.create_bucket("sdk-photos", owner=key.id)
    assert (bucket.name, bucket.objects) == ("sdk-photos", 0)
    s3_of(three, key.id, key.secret, 1).put_object(Bucket="sdk-photos", Key="a", Body=b"hello")
    assert (admin.bucket("sdk-photos").objects, admin.bucket("sdk-photos").bytes_) == (1, 5)
    grant = admin.grant("sdk-photos", key.id, write=False)
    assert (grant.read, grant.write) == (True, False)
    with pytest.raises(ClientError) as refused, unchanged():
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
    with pytest.raises(sdk.ArchipelError) as refused, unchanged():
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
    with pytest.raises(sdk.ArchipelError) as refused, unchanged():
        admin.call(set_lock, "sdk-settings", body=BucketLockInfo(enabled=True))
    assert (refused.value.status, refused.value.code) == (409, "LockNeedsVersions")


def test_a_document_is_changed_only_if_it_is_the_one_that_was_seen(sdk, admin):
    from archipel_admin.api.buckets import get_bucket_tags, set_bucket_tags
    from archipel_admin.models import BucketTags, NameValue

    admin.create_bucket("sdk-tagged")
    assert admin.tagged(get_bucket_tags, "sdk-tagged")[1] is None
    tags = [BucketTags(tags=[NameValue(name="team", value=team)]) for team in ("a", "b")]
    admin.set_tags("sdk-tagged", {"team": "0"})
    _, seen = admin.tagged(get_bucket_tags, "sdk-tagged")
    changed, now = admin.tagged(set_bucket_tags, "sdk-tagged", body=tags[0], if_match=seen)
    assert changed.tags[0].value == "a"
    with pytest.raises(sdk.ArchipelError) as refused, unchanged():
        admin.call(set_bucket_tags, "sdk-tagged", body=tags[1], if_match=seen)
    assert (refused.value.status, refused.value.code) == (412, "Changed")
    assert admin.tagged(get_bucket_tags, "sdk-tagged")[1] == now


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
    told = admin.verify(timeout_s=60)
    assert (told.id, told.state.value, told.problems) == ("verification", "done", 0)
    assert told.id in {operation.id for operation in admin.operations()}


def test_users_have_what_their_policies_allow(three, sdk, admin):
    document = {"Effect": "Allow", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::sdk-family/*"}
    admin.create_bucket("sdk-family")
    admin.create_policy("sdk-writers", {"Version": "2012-10-17", "Statement": [document]}, "may write")
    assert admin.create_user("sdk-bob").policies == []
    key = admin.create_user_key("sdk-bob")
    s3 = s3_of(three, key.id, key.secret, 2)

    def is_allowed() -> bool:
        try:
            s3.put_object(Bucket="sdk-family", Key="a", Body=b"x")
        except ClientError as refused:
            assert refused.response["Error"]["Code"] == "AccessDenied"
            return False
        return True

    assert not is_allowed()
    admin.attach("sdk-writers", user="sdk-bob")
    assert is_allowed()
    admin.detach("sdk-writers", user="sdk-bob")
    assert not is_allowed()
    assert admin.create_group("sdk-writers", "sdk-bob").users == ["sdk-bob"]
    admin.attach("sdk-writers", group="sdk-writers")
    assert is_allowed()
    admin.replace_policy("sdk-writers", {"Version": "2012-10-17", "Statement": [{**document, "Effect": "Deny"}]})
    assert not is_allowed()
    assert "sdk-bob" in {user.name for user in admin.users()}
    assert "sdk-writers" in {group.name for group in admin.groups()} & {policy.name for policy in admin.policies()}
    with pytest.raises(ValueError):
        admin.attach("sdk-writers", user="sdk-bob", group="sdk-writers")


def test_the_front_sets_what_buckets_have(sdk, admin):
    from archipel_admin.models import BucketRule

    admin.create_bucket("sdk-front")
    assert admin.set_versioning("sdk-front").state.value == "enabled"
    assert admin.set_versioning("sdk-front", enabled=False).state.value == "suspended"
    assert admin.set_quota("sdk-front", size=1000).quota.bytes_ == 1000
    assert [(tag.name, tag.value) for tag in admin.set_tags("sdk-front", {"team": "storage"}).tags] == [("team", "storage")]
    assert admin.set_lifecycle("sdk-front", BucketRule(id="old", expire_days=30)).rules[0].expire_days == 30
    assert admin.set_website("sdk-front").index == "index.html"
    admin.publish("sdk-front")
    admin.delete_bucket("sdk-front")
    assert "sdk-front" not in {bucket.name for bucket in admin.buckets("sdk-")}


# The arguments of each example, and the beginning of its output. test_getting_started.py runs from_nothing.py.
EXAMPLE_CALLS = {
    "bucket_and_key.py": (["{socket}", "sdk-example"], "AWS_ACCESS_KEY_ID="),
    "user_and_policy.py": (["{socket}", "sdk-alice-photos", "sdk-alice"], "AWS_ACCESS_KEY_ID="),
    "verify.py": (["{socket}"], "done: 0 problems"),
    "layout.py": (["{url}", "{token}", "10000000000"], "all nodes with a zone are in the layout"),
}


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*EXAMPLE_CALLS, "from_nothing.py"}


@pytest.mark.parametrize("name", EXAMPLE_CALLS)
def test_an_example_runs(three, sdk, name, tcp):
    arguments, begin = EXAMPLE_CALLS[name]
    names = {"socket": three.nodes[0]["admin"], **tcp}
    program = [sys.executable, str(EXAMPLES / name), *(argument.format(**names) for argument in arguments)]
    folder = Path(sdk.__file__).parents[1]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, env={"PYTHONPATH": str(folder)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(begin), done.stdout


@pytest.fixture
def tcp(three, admin, tmp_path):
    """The address of an admin API over TCP with a token: the demo has only sockets, so a proxy is before one."""
    token = admin.create_token("sdk-example", "all:write").secret
    with proxy(three.nodes[0]["admin"]) as port:
        yield {"url": f"http://127.0.0.1:{port}", "token": token}


@contextlib.contextmanager
def proxy(path: str):
    """Forwards connections of a port to a local socket."""

    class Forward(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as behind:
                behind.connect(path)
                sides = {self.request: behind, behind: self.request}
                while True:
                    for side in select.select(list(sides), [], [])[0]:
                        part = side.recv(65536)
                        if not part:
                            return
                        sides[side].sendall(part)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Forward) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def test_the_front_and_the_examples_have_the_types_of_the_document(sdk, tmp_path):
    # Beside the package there is what it needs; mypy refuses one of that, which it has itself.
    folder = Path(sdk.__file__).parents[1]
    for path in folder.iterdir():
        if path.name not in ("typing_extensions.py", "bin"):
            (tmp_path / path.name).symlink_to(path)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache")]
    command += [str(tmp_path / "archipel_admin/__init__.py"), *map(str, EXAMPLES.glob("*.py"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    # It also tells what is wrong with the stubs of others.
    ours = [line for line in done.stdout.splitlines() if "archipel_admin/" in line or str(EXAMPLES) in line]
    assert done.returncode in (0, 1) and ours == [], done.stdout + done.stderr
