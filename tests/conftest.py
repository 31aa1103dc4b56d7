"""One server for the whole run, and buckets in it.

The server is $ARCHIPEL_DEMO_JSON (the line that `archipel demo --json` printed) if set;
else a fresh `archipel demo` in a temporary folder, stopped at the end.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import uuid

import pytest
from support.boto import boto_of
from support.client import Client
from support.picture import Observer
from support.server import Demo, Endpoint
from support.sigv4 import Credentials
from support.unchanged import watched


for _name in [n for n in os.environ if n.startswith("AWS_") or n.lower().endswith("_proxy")]:
    del os.environ[_name]  # nothing of this machine may steer a client elsewhere


# By default a node keeps more free than some test machines have. Tests of full disks say their own reserve.
os.environ.setdefault("ARCHIPEL_LIMITS_DISK_RESERVE", "16MiB")


def pytest_collection_modifyitems(items):
    """Long tests begin first: a process that began one last would end minutes after the others."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The endpoint under test."""
    given = os.environ.get("ARCHIPEL_DEMO_JSON")
    if given:
        endpoint = Endpoint.parse(given)
        watched.add(endpoint.sockets())
        yield shared(endpoint, "server")
        return
    demo = Demo(tmp_path_factory.mktemp("server") / "data")
    yield shared(demo.start(), "server")
    demo.stop()


def shared(endpoint: Endpoint, fixture: str) -> Endpoint:
    """A server of many tests: refusals of others need not look at it."""
    watched.share(endpoint.sockets(), fixture)
    return endpoint


@pytest.fixture(autouse=True)
def fixtures_of_this_test(request):
    """For each refusal's look whether it changed a row: which servers concern the test."""
    watched.fixtures = request.fixturenames


@pytest.fixture(scope="session")
def credentials(server) -> Credentials:
    return Credentials(server.access_key, server.secret_key, server.region)


@pytest.fixture(scope="session")
def raw(server, credentials) -> Client:
    """Single requests, each on its own connection, with every detail in the test's hand."""
    return Client(server.endpoint, credentials)


@pytest.fixture(scope="session")
def s3(server):
    return boto_of(server)


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def observer(server, credentials) -> Observer:
    """Sees the whole store."""
    return Observer(server, credentials)


@pytest.fixture(scope="session")
def nothing_changes(observer):
    """`with nothing_changes():` around requests that must be refused, and do nothing."""
    return observer.nothing_changes


@pytest.fixture(scope="session")
def spare_buckets(s3):
    """Empty buckets of earlier tests. To delete one makes garbage, for which each picture of the store would wait."""
    names: list[str] = []
    yield names
    for name in names:
        s3.delete_bucket(Bucket=name)


@pytest.fixture
def make_bucket(s3, spare_buckets):
    """Makes buckets, or takes empty ones; when the test is over they are emptied, or removed if they have a special name or versions."""
    made, plain = [], set()

    def make(prefix: str | None = None) -> str:
        if prefix is None and spare_buckets:
            name = spare_buckets.pop()
        else:
            name = f"{prefix or 't'}-{next(_numbers)}-{uuid.uuid4().hex[:8]}"
            s3.create_bucket(Bucket=name)
        if prefix is None:
            plain.add(name)
        made.append(name)
        return name

    yield make
    for name in made:
        with contextlib.suppress(s3.exceptions.NoSuchBucket):
            empty(s3, name)
            # Versioning can be suspended, but not turned off.
            if name in plain and not s3.get_bucket_versioning(Bucket=name).get("Status"):
                spare_buckets.append(name)
            else:
                s3.delete_bucket(Bucket=name)


@pytest.fixture
def bucket(make_bucket) -> str:
    """A new bucket."""
    return make_bucket()


BLOCKS = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")


def empty(s3, name: str) -> None:
    """Removes all that a bucket holds, and its settings."""
    for upload in s3.list_multipart_uploads(Bucket=name).get("Uploads", []):
        s3.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
    if s3.get_bucket_versioning(Bucket=name).get("Status"):
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=name):
            for v in page.get("Versions", []) + page.get("DeleteMarkers", []):
                s3.delete_object(Bucket=name, Key=v["Key"], VersionId=v["VersionId"])
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
        keys = [o["Key"] for o in page.get("Contents", [])]
        plain = [{"Key": k} for k in keys if k.isprintable()]
        if plain:
            s3.delete_objects(Bucket=name, Delete={"Objects": plain, "Quiet": True})
        for key in keys:
            if not key.isprintable():  # the XML of DeleteObjects cannot name it
                s3.delete_object(Bucket=name, Key=key)
    s3.delete_bucket_cors(Bucket=name)
    s3.delete_bucket_tagging(Bucket=name)
    s3.delete_bucket_lifecycle(Bucket=name)
    s3.delete_bucket_policy(Bucket=name)
    s3.put_bucket_acl(Bucket=name, ACL="private")
    enforced = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    s3.put_bucket_ownership_controls(Bucket=name, OwnershipControls=enforced)
    s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=dict.fromkeys(BLOCKS, True))
