"""Policies of the bucket and of users at K2V: they deny there what they deny, with all condition keys, and allow nothing."""

from __future__ import annotations

import json
import subprocess
import uuid

import pytest
from support.server import binary


def deny(bucket: str, resource: str, action: str, **condition) -> str:
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": action,
        "Resource": f"arn:aws:s3:::{bucket}{resource}",
        "Condition": condition,
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def status(call) -> int:
    try:
        call()
    except Exception as error:  # the example's own, which is loaded from a file
        return error.status
    return 200


@pytest.mark.parametrize(
    "matches, not_so",
    [
        ({"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}}, {"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}}),
        ({"Bool": {"aws:SecureTransport": "false"}}, {"Bool": {"aws:SecureTransport": "true"}}),
        ({"StringEquals": {"s3:signatureversion": "AWS4-HMAC-SHA256"}}, {"StringEquals": {"s3:signatureversion": "AWS"}}),
        ({"DateGreaterThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}}, {"DateLessThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}}),
    ],
    ids=["address", "transport", "signature", "time"],
)
def test_conditions_of_a_denial_hold(k2v, s3, matches, not_so):
    k2v.insert("p", "s", b"x")
    read, write = lambda: k2v.read("p", "s"), lambda: k2v.insert("p", "s2", b"y")
    for condition, expected in ((matches, 403), (not_so, 200)):
        s3.put_bucket_policy(Bucket=k2v.bucket, Policy=deny(k2v.bucket, "", "s3:Get*", **condition))
        assert (status(read), status(write)) == (expected, 200), condition
        s3.put_bucket_policy(Bucket=k2v.bucket, Policy=deny(k2v.bucket, "", "s3:Put*", **condition))
        assert (status(read), status(write)) == (200, expected), condition
    # Items are no objects.
    s3.put_bucket_policy(Bucket=k2v.bucket, Policy=deny(k2v.bucket, "/*", "s3:*", **matches))
    assert (status(read), status(write)) == (200, 200)
    s3.delete_bucket_policy(Bucket=k2v.bucket)


def test_no_policy_allows(k2v, s3, server, example, tmp_path):
    """A grant on the bucket has to."""
    def cli(*arguments):
        socket = server.nodes[0]["admin"]
        where = ["--socket", socket] if socket.startswith("/") else ["--admin", socket]
        done = subprocess.run([binary(), *arguments, *where, "--json"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    name = f"k2v-{uuid.uuid4().hex[:8]}"
    cli("user", "create", name, "--policy", "AdministratorAccess")
    key = cli("user", "key", name)
    other = example.K2V(server.k2v, k2v.bucket, key["id"], key["secret"], server.region)
    assert status(lambda: other.insert("p", "s", b"x")) == 403
    cli("key", "allow", key["id"], "--bucket", k2v.bucket, "--write")
    assert status(lambda: other.insert("p", "s", b"x")) == 200
    assert status(lambda: other.read("p", "s")) == 403
    # The grant does not allow what a policy of the user denies.
    denial = tmp_path / "deny.json"
    denial.write_text(
        json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "s3:PutObject", "Resource": "*"}]})
    )
    cli("user", "policy", "set", name, "no", str(denial))
    assert status(lambda: other.insert("p", "s", b"y")) == 403
    cli("user", "policy", "delete", name, "no")
    cli("key", "delete", key["id"])
    cli("user", "detach", name, "AdministratorAccess")
    cli("user", "delete", name)
