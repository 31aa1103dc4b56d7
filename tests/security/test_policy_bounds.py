"""The bounds of a policy: which holders of a name it means, and when a condition key is absent."""

from __future__ import annotations

import json

import pytest
from support.boto import boto
from support.expect import holds, refused

pytestmark = pytest.mark.process

SESSION = "arn:aws:sts::000000000000:assumed-role/nightly-backup/nightly"
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::000000000000:root"}, "Action": "sts:AssumeRole"}],
    }
)


@pytest.fixture
def make_session(iam, admin, server):
    """Makes the role of `SESSION` below a path, and begins the session."""

    def make(path: str):
        role = iam.create_role(RoleName="nightly-backup", Path=path, AssumeRolePolicyDocument=TRUST)["Role"]
        sts = boto("sts", server.endpoint, *admin)
        got = sts.assume_role(RoleArn=role["Arn"], RoleSessionName="nightly")["Credentials"]
        return boto("s3", server.endpoint, got["AccessKeyId"], got["SecretAccessKey"], token=got["SessionToken"])

    yield make
    iam.delete_role(RoleName="nightly-backup")


def test_policy_means_sessions_of_the_role_that_had_the_name(iam, make_session, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    statement = {"Effect": "Allow", "Principal": {"AWS": SESSION}, "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    with refused(400, "MalformedPolicy"):
        s3.put_bucket_policy(Bucket=bucket, Policy=policy)
    meant = make_session("/")
    s3.put_bucket_policy(Bucket=bucket, Policy=policy)
    holds(meant, bucket, "k", b"x")
    # A user who may make roles below another path takes the name. The ARN of a session has no path.
    iam.delete_role(RoleName="nightly-backup")
    taken = make_session("/dev/")
    with refused(403, "AccessDenied"):
        taken.get_object(Bucket=bucket, Key="k")
    s3.put_bucket_policy(Bucket=bucket, Policy=policy)
    holds(taken, bucket, "k", b"x")


def test_upload_with_an_empty_list_of_tags_has_no_tags(iam, server, s3, bucket):
    iam.create_user(UserName="tagger")
    key = iam.create_access_key(UserName="tagger")["AccessKey"]
    everything = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    untagged = {"Null": {"s3:RequestObjectTagKeys": "true"}}
    deny = {"Effect": "Deny", "Action": "s3:PutObject", "Resource": "*", "Condition": untagged}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [everything, deny]})
    iam.put_user_policy(UserName="tagger", PolicyName="p", PolicyDocument=policy)
    tagger = boto("s3", server.endpoint, key["AccessKeyId"], key["SecretAccessKey"])
    tagger.put_object(Bucket=bucket, Key="tagged", Body=b"x", Tagging="team=a")
    for tags in ({}, {"Tagging": ""}):
        with refused(403, "AccessDenied"):
            tagger.put_object(Bucket=bucket, Key="untagged", Body=b"x", **tags)
    iam.delete_user_policy(UserName="tagger", PolicyName="p")
    iam.delete_access_key(UserName="tagger", AccessKeyId=key["AccessKeyId"])
    iam.delete_user(UserName="tagger")
