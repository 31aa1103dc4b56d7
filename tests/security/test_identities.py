"""Users, policies and temporary credentials, driven by boto3 and the AWS command line, over three nodes."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request

import pytest
from botocore.exceptions import ClientError
from support.boto import boto
from support.expect import holds, refused
from support.tools import run
from support.unchanged import unchanged

pytestmark = pytest.mark.process


def policy(action, resource) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": action, "Resource": resource}]})


def test_the_account(iam):
    before = iam.get_account_summary()["SummaryMap"]
    iam.create_group(GroupName="counted")
    assert iam.get_account_summary()["SummaryMap"] == before | {"Groups": before["Groups"] + 1}
    iam.delete_group(GroupName="counted")
    assert before["Users"] >= 1
    assert iam.list_account_aliases()["AccountAliases"] == []


def test_the_life_of_a_user(iam, server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="home/alice/x", Body=b"x")
    user = iam.create_user(UserName="alice", Path="/team/", Tags=[{"Key": "who", "Value": "a person"}])["User"]
    assert user["Arn"] == "arn:aws:iam::000000000000:user/team/alice"
    with pytest.raises(iam.exceptions.EntityAlreadyExistsException), unchanged():
        iam.create_user(UserName="alice")
    key = iam.create_access_key(UserName="alice")["AccessKey"]
    alice = boto("s3", server.endpoint, key["AccessKeyId"], key["SecretAccessKey"])
    with refused(403, "AccessDenied"):
        alice.get_object(Bucket=bucket, Key="home/alice/x")
    home = policy(["s3:GetObject", "s3:PutObject"], f"arn:aws:s3:::{bucket}/home/${{aws:username}}/*")
    iam.put_user_policy(UserName="alice", PolicyName="home", PolicyDocument=home)
    assert iam.get_user_policy(UserName="alice", PolicyName="home")["PolicyDocument"] == json.loads(home)
    holds(alice, bucket, "home/alice/x", b"x")
    with refused(403, "AccessDenied"):
        alice.put_object(Bucket=bucket, Key="home/bob/x", Body=b"")

    second = iam.create_access_key(UserName="alice")["AccessKey"]
    iam.update_access_key(UserName="alice", AccessKeyId=key["AccessKeyId"], Status="Inactive")
    with refused(403, "InvalidAccessKeyId"):
        alice.get_object(Bucket=bucket, Key="home/alice/x")
    rotated = boto("s3", server.endpoint, second["AccessKeyId"], second["SecretAccessKey"])
    holds(rotated, bucket, "home/alice/x", b"x")
    states = {k["AccessKeyId"]: k["Status"] for k in iam.list_access_keys(UserName="alice")["AccessKeyMetadata"]}
    assert states == {key["AccessKeyId"]: "Inactive", second["AccessKeyId"]: "Active"}

    with pytest.raises(iam.exceptions.DeleteConflictException), unchanged():
        iam.delete_user(UserName="alice")
    for one in states:
        iam.delete_access_key(UserName="alice", AccessKeyId=one)
    iam.delete_user_policy(UserName="alice", PolicyName="home")
    iam.delete_user(UserName="alice")
    with pytest.raises(iam.exceptions.NoSuchEntityException), unchanged():
        iam.get_user(UserName="alice")
    with pytest.raises(iam.exceptions.MalformedPolicyDocumentException), unchanged():
        iam.create_policy(PolicyName="bad", PolicyDocument="{}")


def test_create_bucket_does_not_set_what_a_policy_denies(iam, server, s3, make_bucket):
    """As AWS: what CreateBucket sets beside the bucket needs the action of the operation that sets it."""
    name = make_bucket() + "-created"
    asked = {
        "s3:TagResource": {"CreateBucketConfiguration": {"Tags": [{"Key": "a", "Value": "1"}]}},
        "s3:PutBucketOwnershipControls": {"ObjectOwnership": "ObjectWriter"},
        "s3:PutBucketObjectLockConfiguration": {"ObjectLockEnabledForBucket": True},
        "s3:PutBucketVersioning": {"ObjectLockEnabledForBucket": True},
    }
    iam.create_user(UserName="carol")
    key = iam.create_access_key(UserName="carol")["AccessKey"]
    carol = boto("s3", server.endpoint, key["AccessKeyId"], key["SecretAccessKey"])
    allow = {"Effect": "Allow", "Action": "s3:CreateBucket", "Resource": "*"}
    for action, settings in asked.items():
        deny = {"Effect": "Deny", "Action": action, "Resource": "*"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [allow, deny]})
        iam.put_user_policy(UserName="carol", PolicyName="p", PolicyDocument=document)
        with refused(403, "AccessDenied"):
            carol.create_bucket(Bucket=name, **settings)
        with refused(404):
            s3.head_bucket(Bucket=name)
    iam.put_user_policy(UserName="carol", PolicyName="p", PolicyDocument=policy("s3:CreateBucket", "*"))
    for settings in asked.values():
        carol.create_bucket(Bucket=name, **settings)
        carol.delete_bucket(Bucket=name)
    iam.delete_user_policy(UserName="carol", PolicyName="p")
    iam.delete_access_key(UserName="carol", AccessKeyId=key["AccessKeyId"])
    iam.delete_user(UserName="carol")


def test_groups_and_managed_policies_in_terraforms_order(iam, server, s3, bucket):
    """Calls as Terraform's provider makes them to create, refresh and destroy."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    made = iam.create_policy(PolicyName="read", PolicyDocument=policy("s3:GetObject", f"arn:aws:s3:::{bucket}/*"))["Policy"]
    arn = made["Arn"]
    version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
    assert iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["IsDefaultVersion"]
    iam.create_user(UserName="bob")
    iam.create_group(GroupName="readers")
    iam.add_user_to_group(GroupName="readers", UserName="bob")
    assert [u["UserName"] for u in iam.get_group(GroupName="readers")["Users"]] == ["bob"]
    iam.attach_group_policy(GroupName="readers", PolicyArn=arn)
    assert iam.list_attached_group_policies(GroupName="readers")["AttachedPolicies"] == [{"PolicyName": "read", "PolicyArn": arn}]
    key = iam.create_access_key(UserName="bob")["AccessKey"]
    bob = boto("s3", server.endpoint, key["AccessKeyId"], key["SecretAccessKey"])
    holds(bob, bucket, "k", b"x")

    for list_of_nothing in ("list_mfa_devices", "list_signing_certificates", "list_ssh_public_keys"):
        getattr(iam, list_of_nothing)(UserName="bob")
    with pytest.raises(iam.exceptions.NoSuchEntityException), unchanged():
        iam.delete_login_profile(UserName="bob")
    iam.delete_access_key(UserName="bob", AccessKeyId=key["AccessKeyId"])
    iam.remove_user_from_group(GroupName="readers", UserName="bob")
    iam.delete_user(UserName="bob")
    iam.detach_group_policy(GroupName="readers", PolicyArn=arn)
    iam.delete_group(GroupName="readers")
    assert len(iam.list_policy_versions(PolicyArn=arn)["Versions"]) == 1
    iam.delete_policy(PolicyArn=arn)
    assert arn not in [p["Arn"] for p in iam.list_policies(Scope="Local")["Policies"]]


def test_a_role_and_its_sessions(iam, admin, server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a/k", Body=b"x")
    trust = json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::000000000000:root"}, "Action": "sts:AssumeRole"}],
        }
    )
    role = iam.create_role(RoleName="worker", AssumeRolePolicyDocument=trust)["Role"]
    iam.attach_role_policy(RoleName="worker", PolicyArn="arn:aws:iam::aws:policy/AmazonS3FullAccess")
    sts = boto("sts", server.endpoint, *admin)
    assert sts.get_caller_identity()["Arn"] == "arn:aws:iam::000000000000:user/admin"
    only = policy("s3:GetObject", f"arn:aws:s3:::{bucket}/a/*")
    got = sts.assume_role(RoleArn=role["Arn"], RoleSessionName="job", Policy=only)["Credentials"]
    keys, token = (got["AccessKeyId"], got["SecretAccessKey"]), got["SessionToken"]
    worker = boto("s3", server.endpoint, *keys, token=token)
    holds(worker, bucket, "a/k", b"x")
    with refused(403, "AccessDenied"):
        worker.put_object(Bucket=bucket, Key="a/k", Body=b"y")
    who = boto("sts", server.endpoint, *keys, token=token).get_caller_identity()
    assert who["Arn"] == "arn:aws:sts::000000000000:assumed-role/worker/job"
    url = worker.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a/k"})
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.read() == b"x"
    # The session ends when the key that asked for it is disabled.
    admin_iam = iam
    second = admin_iam.create_access_key(UserName="admin")["AccessKey"]
    other = boto("sts", server.endpoint, second["AccessKeyId"], second["SecretAccessKey"])
    got = other.get_session_token()["Credentials"]
    session = boto("s3", server.endpoint, got["AccessKeyId"], got["SecretAccessKey"], token=got["SessionToken"])
    holds(session, bucket, "a/k", b"x")
    admin_iam.update_access_key(UserName="admin", AccessKeyId=second["AccessKeyId"], Status="Inactive")
    with refused(403, "InvalidAccessKeyId"):
        session.get_object(Bucket=bucket, Key="a/k")
    assert iam.list_instance_profiles_for_role(RoleName="worker")["InstanceProfiles"] == []
    iam.detach_role_policy(RoleName="worker", PolicyArn="arn:aws:iam::aws:policy/AmazonS3FullAccess")
    iam.delete_role(RoleName="worker")
    with pytest.raises(ClientError) as gone, unchanged():
        worker.get_object(Bucket=bucket, Key="a/k")
    assert gone.value.response["Error"]["Code"] == "InvalidAccessKeyId"


def test_the_aws_command_line(admin, server):
    environment = {
        "AWS_ACCESS_KEY_ID": admin[0],
        "AWS_SECRET_ACCESS_KEY": admin[1],
        "AWS_DEFAULT_REGION": server.region,
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
        "PATH": os.environ["PATH"],
    }

    def aws(*arguments):
        out = run(["aws", "--output", "json", *arguments], environment).stdout
        return json.loads(out) if out.strip() else None

    assert aws("sts", "get-caller-identity")["Account"] == "000000000000"
    assert aws("iam", "create-user", "--user-name", "carol")["User"]["UserName"] == "carol"
    assert {u["UserName"] for u in aws("iam", "list-users")["Users"]} >= {"admin", "carol"}
    aws("iam", "tag-user", "--user-name", "carol", "--tags", "Key=a,Value=1")
    assert aws("iam", "list-user-tags", "--user-name", "carol")["Tags"] == [{"Key": "a", "Value": "1"}]
    aws("iam", "delete-user", "--user-name", "carol")


def test_keys_are_disabled_by_an_operator(cli, server, make_key):
    key = make_key("operator's")
    own = boto("s3", server.endpoint, key.access_key, key.secret_key)
    own.list_buckets()
    assert cli("key", "disable", key.access_key)["disabled"]
    with refused(403, "InvalidAccessKeyId"):
        own.list_buckets()
    assert not cli("key", "enable", key.access_key)["disabled"]
    own.list_buckets()


def test_a_role_is_updated(iam):
    trust = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}}
    iam.create_role(RoleName="updated", AssumeRolePolicyDocument=json.dumps(trust))
    iam.update_role(RoleName="updated", MaxSessionDuration=7200)
    assert iam.get_role(RoleName="updated")["Role"]["MaxSessionDuration"] == 7200
    iam.delete_role(RoleName="updated")


def test_who_asks_by_a_link(admin, server):
    """Services let their clients prove who they are by a link that is signed for STS."""
    sts = boto("sts", server.endpoint, *admin)
    link = sts.generate_presigned_url("get_caller_identity", HttpMethod="GET")
    assert "Action=GetCallerIdentity" in link
    with urllib.request.urlopen(link, timeout=10) as reply:
        assert b":user/admin" in reply.read()
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(link.replace("X-Amz-Signature=", "X-Amz-Signature=0"), timeout=10)
    assert refusal.value.code == 403
