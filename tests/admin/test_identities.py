"""Users, groups, roles and policies by the command line, and what S3 clients may do then."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError
from support.boto import boto
from support.cli import run
from support.expect import refusal
from support.server import wait_until
from support.unchanged import unchanged

ACCOUNT = "000000000000"


def statement(action, resource, **more) -> dict:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def document(*statements: dict) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


@pytest.fixture
def policy(tmp_path):
    """Writes a policy to a file and returns the file."""

    def write(name: str, *statements: dict) -> str:
        file = tmp_path / f"{name}.json"
        file.write_text(document(*statements))
        return str(file)

    return write


def told(three, line: str, *more: str) -> dict:
    done = run(three, line, *more, "--json")
    assert (done.returncode, done.stderr) == (0, ""), (line, done.stderr)
    return json.loads(done.stdout)


def client(three, service: str, key_id: str, secret: str, token: str | None = None, node: int = 1):
    return boto(service, "http://" + three.nodes[node]["s3"], key_id, secret, token=token)


def test_a_group_gives_its_users_what_its_policy_allows(three, policy):
    run(three, "bucket create cli-family")
    run(three, "user create cli-bob")
    key = told(three, "user key cli-bob")
    s3 = client(three, "s3", key["id"], key["secret"])
    assert refusal(s3.put_object, Bucket="cli-family", Key="a", Body=b"") == "AccessDenied"
    told(three, "group create cli-family")
    told(three, "policy create cli-photos", policy("photos", statement("s3:PutObject", "arn:aws:s3:::cli-family/*")))
    group = told(three, "group attach cli-family cli-photos")
    assert group["policies"] == [f"arn:aws:iam::{ACCOUNT}:policy/cli-photos"]
    assert told(three, "group add cli-family cli-bob")["users"] == ["cli-bob"]
    s3.put_object(Bucket="cli-family", Key="a", Body=b"")
    # The new version counts at once.
    told(three, "policy set cli-photos", policy("photos", statement("s3:GetObject", "arn:aws:s3:::cli-family/*")))
    assert refusal(s3.put_object, Bucket="cli-family", Key="b", Body=b"") == "AccessDenied"
    assert s3.get_object(Bucket="cli-family", Key="a")["Body"].read() == b""
    shown = run(three, "policy show cli-photos").stdout
    assert "cli-family" in shown and "s3:GetObject" in shown
    with unchanged():
        assert "detach policy from all entities" in run(three, "policy delete cli-photos").stderr
    told(three, "group remove cli-family cli-bob")
    assert refusal(s3.get_object, Bucket="cli-family", Key="a") == "AccessDenied"
    told(three, "group detach cli-family cli-photos")
    for line in ("group delete cli-family", "policy delete cli-photos"):
        assert run(three, line).returncode == 0


def test_a_policy_of_one_user_limits_it_to_a_prefix(three, policy):
    run(three, "bucket create cli-homes")
    run(three, "user create cli-alice")
    home = policy("home", statement("s3:*Object", "arn:aws:s3:::cli-homes/${aws:username}/*"))
    told(three, "user policy set cli-alice home", home)
    with open(home) as file:
        assert run(three, "user policy show cli-alice home").stdout.rstrip("\n") == file.read()
    key = told(three, "user key cli-alice")
    s3 = client(three, "s3", key["id"], key["secret"])
    s3.put_object(Bucket="cli-homes", Key="cli-alice/a", Body=b"")
    assert refusal(s3.put_object, Bucket="cli-homes", Key="cli-bob/a", Body=b"") == "AccessDenied"
    assert run(three, "user policy delete cli-alice home").returncode == 0
    assert refusal(s3.put_object, Bucket="cli-homes", Key="cli-alice/a", Body=b"") == "AccessDenied"


def test_a_role_is_assumed_by_whom_it_trusts(three, policy):
    run(three, "bucket create cli-backups")
    run(three, "user create cli-nightly")
    key = told(three, "user key cli-nightly")
    arn = f"arn:aws:iam::{ACCOUNT}:user/cli-nightly"
    trust = policy("trust", {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": arn}})
    role = told(three, "role create cli-backup --max-session 2h --trust", trust)
    assert (role["max_session_seconds"], role["arn"]) == (7200, f"arn:aws:iam::{ACCOUNT}:role/cli-backup")
    put = policy("put", statement("s3:PutObject", "arn:aws:s3:::cli-backups/*"))
    told(three, "role policy set cli-backup put", put)
    sts = client(three, "sts", key["id"], key["secret"])
    given = sts.assume_role(RoleArn=role["arn"], RoleSessionName="night", DurationSeconds=7200)["Credentials"]
    session = client(three, "s3", given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])
    session.put_object(Bucket="cli-backups", Key="a", Body=b"")
    nobody = policy("nobody", {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": f"{arn}-2"}})
    with unchanged():
        assert "there is no" in run(three, "role set cli-backup --trust", nobody).stderr
    assert told(three, "role info cli-backup") == {**role, "inline_policies": ["put"]}


def test_the_policy_of_a_bucket_is_set_shown_and_deleted(three, policy):
    run(three, "bucket create cli-shared")
    key = told(three, "key create cli-reader")
    s3 = client(three, "s3", key["id"], key["secret"])
    principal = {"AWS": f"arn:aws:iam::{ACCOUNT}:user/{key['id']}"}
    shared = statement("s3:PutObject", "arn:aws:s3:::cli-shared/*", Principal=principal)
    told(three, "bucket policy set cli-shared", policy("shared", shared))
    s3.put_object(Bucket="cli-shared", Key="a", Body=b"")
    assert json.loads(run(three, "bucket policy show cli-shared").stdout)["Statement"] == [shared]
    other = statement("s3:PutObject", "arn:aws:s3:::cli-homes/*", Principal=principal)
    with unchanged():
        refused = run(three, "bucket policy set cli-shared", policy("other", other))
    assert refused.returncode == 1 and "Policy" in refused.stderr, refused.stderr
    assert run(three, "bucket policy delete cli-shared").returncode == 0
    assert refusal(s3.put_object, Bucket="cli-shared", Key="b", Body=b"") == "AccessDenied"
    assert "the bucket has no policy" in run(three, "bucket policy show cli-shared").stderr


def test_a_key_expires(three):
    key = told(three, "key create cli-phone --create-bucket --expires 3s")
    s3 = client(three, "s3", key["id"], key["secret"])

    def is_over() -> bool:
        try:
            s3.list_buckets()
        except ClientError as error:
            assert error.response["Error"]["Code"] == "InvalidAccessKeyId"
            return True
        return False

    assert wait_until(is_over, 30)
    assert "ago" in run(three, f"key info {key['id']}").stdout
    assert "expires_ms" not in told(three, f"key expire {key['id']} never")
    s3.list_buckets()
