"""The calls that Terraform's provider for AWS makes beside the obvious ones, in its order, made by boto3."""

from __future__ import annotations

import json
import socket
import uuid
from urllib.parse import quote

import pytest
from botocore.exceptions import ClientError
from support.boto import boto
from support.expect import refused

pytestmark = pytest.mark.process

ACCOUNT, OTHER = "000000000000", "111111111111"
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}],
    }
)


def tags(answer) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in answer["Tags"]}


def test_a_user_moves_and_is_destroyed_by_force(iam):
    """`aws_iam_user`: a new path comes with the name as it is; `force_destroy` looks for all that a user may have."""
    iam.create_user(UserName="renamed", Path="/a/")
    iam.update_user(UserName="renamed", NewUserName="renamed", NewPath="/b/")
    assert iam.get_user(UserName="renamed")["User"]["Arn"] == f"arn:aws:iam::{ACCOUNT}:user/b/renamed"
    with refused(501, "NotImplemented"):
        iam.update_user(UserName="renamed", NewUserName="other", NewPath="/c/")
    # The refusal changed nothing.
    assert iam.get_user(UserName="renamed")["User"]["Path"] == "/b/"
    key = iam.create_access_key(UserName="renamed")["AccessKey"]["AccessKeyId"]

    assert iam.list_groups_for_user(UserName="renamed")["Groups"] == []
    for one in iam.list_access_keys(UserName="renamed")["AccessKeyMetadata"]:
        iam.delete_access_key(UserName="renamed", AccessKeyId=one["AccessKeyId"])
    assert iam.list_ssh_public_keys(UserName="renamed")["SSHPublicKeys"] == []
    assert iam.list_virtual_mfa_devices(AssignmentStatus="Assigned")["VirtualMFADevices"] == []
    assert iam.list_mfa_devices(UserName="renamed")["MFADevices"] == []
    with pytest.raises(iam.exceptions.NoSuchEntityException):
        iam.delete_login_profile(UserName="renamed")
    assert iam.list_signing_certificates(UserName="renamed")["Certificates"] == []
    assert iam.list_service_specific_credentials(UserName="renamed")["ServiceSpecificCredentials"] == []
    iam.delete_user(UserName="renamed")
    assert key not in [k["AccessKeyId"] for k in iam.list_access_keys()["AccessKeyMetadata"]]
    with pytest.raises(ClientError) as wrong:
        iam.list_virtual_mfa_devices(AssignmentStatus="Lost")
    assert wrong.value.response["Error"]["Code"] == "ValidationError"


def test_a_group_moves(iam):
    iam.create_group(GroupName="crew")
    iam.update_group(GroupName="crew", NewGroupName="crew", NewPath="/ships/")
    assert iam.get_group(GroupName="crew")["Group"]["Path"] == "/ships/"
    with refused(501, "NotImplemented"):
        iam.update_group(GroupName="crew", NewGroupName="staff")
    iam.delete_group(GroupName="crew")


def test_role_description_is_replaced(iam):
    """`aws_iam_role`: the description has a call of its own."""
    iam.create_role(RoleName="told", AssumeRolePolicyDocument=TRUST, Description="one", MaxSessionDuration=7200)
    role = iam.update_role_description(RoleName="told", Description="two")["Role"]
    assert (role["Description"], role["MaxSessionDuration"]) == ("two", 7200)
    assert iam.get_role(RoleName="told")["Role"]["Description"] == "two"
    iam.update_role_description(RoleName="told", Description="")
    assert "Description" not in iam.get_role(RoleName="told")["Role"]
    iam.delete_role(RoleName="told")


def test_an_oidc_provider_has_tags(iam):
    """`aws_iam_openid_connect_provider`."""
    made = iam.create_open_id_connect_provider(
        Url="https://id.example.org/tagged", ClientIDList=["a"], Tags=[{"Key": "team", "Value": "x"}]
    )
    arn = made["OpenIDConnectProviderArn"]
    assert tags(made) == {"team": "x"}
    iam.tag_open_id_connect_provider(OpenIDConnectProviderArn=arn, Tags=[{"Key": "Team", "Value": "y"}, {"Key": "z", "Value": ""}])
    assert tags(iam.list_open_id_connect_provider_tags(OpenIDConnectProviderArn=arn)) == {"Team": "y", "z": ""}
    iam.untag_open_id_connect_provider(OpenIDConnectProviderArn=arn, TagKeys=["z"])
    got = iam.get_open_id_connect_provider(OpenIDConnectProviderArn=arn)
    assert (tags(got), got["ClientIDList"]) == ({"Team": "y"}, ["a"])
    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=arn)
    with pytest.raises(iam.exceptions.NoSuchEntityException):
        iam.list_open_id_connect_provider_tags(OpenIDConnectProviderArn=arn)


@pytest.fixture(autouse=True)
def names_with_the_account(monkeypatch):
    """The SDK puts the account before the host, also before an address."""
    look_up = socket.getaddrinfo

    def getaddrinfo(host, *more, **named):
        return look_up(str(host).removeprefix(f"{ACCOUNT}.").removeprefix(f"{OTHER}."), *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.fixture
def control(server, admin):
    return boto("s3control", server.endpoint, *admin)


def test_tags_of_a_bucket_by_s3_control(control, server, s3, bucket, raw):
    """The provider reads and writes them so since 6.23."""
    arn = {"AccountId": ACCOUNT, "ResourceArn": f"arn:aws:s3:::{bucket}"}
    assert control.list_tags_for_resource(**arn)["Tags"] == []
    control.tag_resource(**arn, Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "ä"}])
    control.tag_resource(**arn, Tags=[{"Key": "b", "Value": "2"}, {"Key": "c", "Value": "3"}])
    assert tags(control.list_tags_for_resource(**arn)) == {"a": "1", "b": "2", "c": "3"}
    assert {t["Key"] for t in s3.get_bucket_tagging(Bucket=bucket)["TagSet"]} == {"a", "b", "c"}
    control.untag_resource(**arn, TagKeys=["a", "c", "none"])
    assert tags(control.list_tags_for_resource(**arn)) == {"b": "2"}
    many = [{"Key": f"k{n}", "Value": ""} for n in range(50)]
    with refused(400, "BadRequest"):
        control.tag_resource(**arn, Tags=many)
    with refused(400, "InvalidTag"):
        control.tag_resource(**arn, Tags=[{"Key": "aws:x", "Value": ""}])
    assert tags(control.list_tags_for_resource(**arn)) == {"b": "2"}
    with refused(404, "NoSuchBucket"):
        control.list_tags_for_resource(AccountId=ACCOUNT, ResourceArn="arn:aws:s3:::there-is-no-such-bucket")
    with refused(403, "AccessDenied"):
        control.list_tags_for_resource(**arn | {"AccountId": OTHER})
    with refused(400, "InvalidRequest"):
        control.list_tags_for_resource(**arn | {"ResourceArn": f"arn:aws:s3:::{bucket}/key"})
    with refused(501, "NotImplemented"):
        control.list_access_points(AccountId=ACCOUNT)
    # Without the account before the host.
    path = "/v20180820/tags/" + quote(arn["ResourceArn"], safe="")
    got = raw.request("GET", path, headers=[("x-amz-account-id", ACCOUNT)])
    assert got.status == 200 and b"<Tag><Key>b</Key><Value>2</Value></Tag>" in got.body, got.brief()
    # Without a signature nobody learns anything.
    nobody = raw.request("GET", path, headers=[("x-amz-account-id", ACCOUNT)], anonymous=True)
    assert nobody.status == 403 and b"<ErrorResponse><Error><Code>AccessDenied</Code>" in nobody.body, nobody.brief()


def test_tags_by_s3_control_need_their_own_action(server, iam, bucket):
    name = f"tagger-{uuid.uuid4().hex[:8]}"
    iam.create_user(UserName=name)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    control = boto("s3control", server.endpoint, key["AccessKeyId"], key["SecretAccessKey"])
    arn = {"AccountId": ACCOUNT, "ResourceArn": f"arn:aws:s3:::{bucket}"}

    def allow(*actions: str) -> None:
        statement = {"Effect": "Allow", "Action": actions, "Resource": arn["ResourceArn"]}
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.put_user_policy(UserName=name, PolicyName="tags", PolicyDocument=document)

    allow("s3:ListTagsForResource")
    control.list_tags_for_resource(**arn)
    for refuse in (
        lambda: control.tag_resource(**arn, Tags=[{"Key": "a", "Value": "1"}]),
        lambda: control.untag_resource(**arn, TagKeys=["a"]),
    ):
        with refused(403, "AccessDenied"):
            refuse()
    allow("s3:TagResource", "s3:UntagResource")
    control.tag_resource(**arn, Tags=[{"Key": "a", "Value": "1"}])
    control.untag_resource(**arn, TagKeys=["a"])
    with refused(403, "AccessDenied"):
        control.list_tags_for_resource(**arn)
    iam.delete_user_policy(UserName=name, PolicyName="tags")
    iam.delete_access_key(UserName=name, AccessKeyId=key["AccessKeyId"])
    iam.delete_user(UserName=name)


def test_a_bucket_called_as_the_version_of_s3_control(s3):
    """The account's header tells the APIs apart, not the path."""
    try:
        s3.create_bucket(Bucket="v20180820")
        s3.put_object(Bucket="v20180820", Key="tags/arn:aws:s3:::x", Body=b"an object")
        assert s3.get_object(Bucket="v20180820", Key="tags/arn:aws:s3:::x")["Body"].read() == b"an object"
    finally:
        s3.delete_object(Bucket="v20180820", Key="tags/arn:aws:s3:::x")
        s3.delete_bucket(Bucket="v20180820")
