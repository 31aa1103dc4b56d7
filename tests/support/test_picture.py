"""Pictures of the store and looks at its rows see each kind of change that a refusal must not make."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess

import pytest
from support.picture import Observer
from support.server import Demo, binary
from support.sigv4 import Credentials, object_path
from support.unchanged import unchanged

pytestmark = pytest.mark.process

BUCKET = "watched"
XML = "http://s3.amazonaws.com/doc/2006-03-01/"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A server of its own with a bucket that has versions and locks, and one plain object."""
    demo = Demo(tmp_path_factory.mktemp("picture") / "data")
    info = demo.start()
    observer = Observer(info, Credentials(info.access_key, info.secret_key, info.region))
    observer.client.keep_alive = False
    put(observer, "", (), b"", [("x-amz-bucket-object-lock-enabled", "true")])
    put(observer, "k", (), b"x")
    yield info, observer
    demo.stop()


def put(observer, key, query=(), body=b"", headers=(), method="PUT"):
    path = object_path(BUCKET, key) if key else f"/{BUCKET}"
    # Where objects are locked, a digest must come along.
    digest = base64.b64encode(hashlib.md5(body).digest()).decode()
    reply = observer.client.request(method, path, query, [*headers, ("Content-MD5", digest)], body)
    assert reply.status in (200, 204), reply.brief()


def setting(part: str, body: str):
    return lambda info, observer: put(observer, "", [(part, "")], body.encode())


def of_object(part: str, body: str):
    return lambda info, observer: put(observer, "k", [(part, "")], body.encode())


def operate(line: str, given: str | None = None):
    def change(info, observer):
        command = [str(binary()), *line.split(), "--socket", info.sockets()[0]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, input=given)
        assert done.returncode == 0, done.stderr

    return change


def insert_item(info, observer):
    reply = observer.k2v.request("PUT", f"/{BUCKET}/p", [("sort_key", "s")], body=b"v", service="k2v")
    assert reply.status == 204, reply.brief()


def begin_upload(info, observer):
    reply = observer.client.request("POST", f"/{BUCKET}/up", [("uploads", "")])
    assert reply.status == 200, reply.brief()


POLICY = {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{BUCKET}/none"}
ALLOW = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
RULE = "<Rule><ID>r</ID><Status>Enabled</Status><Filter/><Expiration><Days>9</Days></Expiration></Rule>"
SSE = "<Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule>"
CORS = "<CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin></CORSRule>"
BLOCK = "<BlockPublicAcls>false</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls>"
OWNER = "<Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule>"
DEFAULT = "<Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule>"
RETENTION = "<Mode>GOVERNANCE</Mode><RetainUntilDate>2100-01-01T00:00:00Z</RetainUntilDate>"
TAGS = "<TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet>"


def xml(name: str, inside: str) -> str:
    return f'<{name} xmlns="{XML}">{inside}</{name}>'


# The changes that are made, and how the picture names what differs.
CHANGES = {
    "a version": (lambda info, observer: put(observer, "k", (), b"y"), "Version "),
    "tags of an object": (of_object("tagging", xml("Tagging", TAGS)), "tagging-count"),
    "a retention": (of_object("retention", xml("Retention", RETENTION)), "object-lock-mode"),
    "a legal hold": (of_object("legal-hold", xml("LegalHold", "<Status>ON</Status>")), "legal-hold"),
    "a delete marker": (lambda info, observer: put(observer, "k", method="DELETE"), "DeleteMarker "),
    "an upload": (begin_upload, "upload "),
    "an item": (insert_item, "item 's' of 'p'"),
    "tags of a bucket": (setting("tagging", xml("Tagging", TAGS)), "tagging of"),
    "lifecycle": (setting("lifecycle", xml("LifecycleConfiguration", RULE)), "lifecycle of"),
    "encryption": (setting("encryption", xml("ServerSideEncryptionConfiguration", SSE)), "encryption of"),
    "CORS": (setting("cors", xml("CORSConfiguration", CORS)), "cors of"),
    "the public access block": (setting("publicAccessBlock", xml("PublicAccessBlockConfiguration", BLOCK)), "publicAccessBlock of"),
    "ownership": (setting("ownershipControls", xml("OwnershipControls", OWNER)), "ownershipControls of"),
    "a policy": (setting("policy", json.dumps({"Version": "2012-10-17", "Statement": [POLICY]})), "policy of"),
    "the default retention": (
        setting("object-lock", xml("ObjectLockConfiguration", f"<ObjectLockEnabled>Enabled</ObjectLockEnabled>{DEFAULT}")),
        "object-lock of",
    ),
    "a website": (setting("website", xml("WebsiteConfiguration", "<IndexDocument><Suffix>i.html</Suffix></IndexDocument>")), "website of"),
    "a quota": (operate(f"bucket quota set {BUCKET} --objects 900"), "quota of"),
    "an alias": (operate(f"bucket alias add {BUCKET} other-name"), "aliases"),
    "a key": (operate("key create spare"), "keys: "),
    "a user": (operate("user create ann"), "users: ann"),
    "a group": (operate("group create staff"), "groups: staff"),
    "a member": (operate("group add staff ann"), "staff"),
    "a token": (operate("token create robot --scope all:read"), "tokens: "),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(store, name):
    info, observer = store
    change, told = CHANGES[name]
    with pytest.raises(AssertionError) as seen:
        with observer.nothing_changes():
            change(info, observer)
    assert "a refused request changed the store" in str(seen.value) and told in str(seen.value), seen.value


def test_a_look_sees_rows_that_changed_and_is_quiet_else(store):
    info, observer = store
    with unchanged():
        observer.client.request("GET", f"/{BUCKET}/none")
    with pytest.raises(AssertionError, match="changed rows"):
        with unchanged():
            # To the same content: all that clients see is as before, but for a time.
            put(observer, "same", (), b"x")
    for change in (insert_item, operate("user create joe")):
        with pytest.raises(AssertionError, match="changed rows"):
            with unchanged():
                change(info, observer)
