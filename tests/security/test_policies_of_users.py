"""Policies of users are told all of a request: its body, the version that it acts on, and who asks."""

from __future__ import annotations

import json

import pytest
from support.boto import boto
from support.expect import refused

pytestmark = pytest.mark.process

ACCOUNT = "arn:aws:iam::000000000000"


def statement(effect: str, action, resource="*", **condition) -> dict:
    given = {"Effect": effect, "Action": action, "Resource": resource}
    return given | ({"Condition": condition} if condition else {})


def document(*statements: dict) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


@pytest.fixture
def user(iam, server):
    """Gives a user that has these statements as its policy, as a client of S3 (or of another service)."""
    iam.create_user(UserName="limited", Tags=[{"Key": "team", "Value": "blue"}])
    key = iam.create_access_key(UserName="limited")["AccessKey"]

    def given(*statements: dict, service: str = "s3"):
        iam.put_user_policy(UserName="limited", PolicyName="p", PolicyDocument=document(*statements))
        return boto(service, server.endpoint, key["AccessKeyId"], key["SecretAccessKey"])

    yield given
    iam.delete_access_key(UserName="limited", AccessKeyId=key["AccessKeyId"])
    for name in iam.list_user_policies(UserName="limited")["PolicyNames"]:
        iam.delete_user_policy(UserName="limited", PolicyName=name)
    iam.delete_user(UserName="limited")


def test_conditions_on_a_body_count(user, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    public = {"s3:RequestObjectTag/class": "public"}
    limited = user(
        statement("Allow", "s3:*"),
        statement("Deny", "s3:PutObjectTagging", StringEquals=public),
    )

    def tag(value: str):
        tags = {"TagSet": [{"Key": "class", "Value": value}]}
        limited.put_object_tagging(Bucket=bucket, Key="k", Tagging=tags)

    tag("internal")
    with refused(403, "AccessDenied"):
        tag("public")


def test_a_version_is_the_one_that_is_acted_on(user, s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    kept, other = (s3.put_object(Bucket=bucket, Key="k", Body=body)["VersionId"] for body in (b"kept", b"other"))
    limited = user(
        statement("Allow", "s3:*"),
        statement("Deny", ["s3:GetObjectVersion", "s3:DeleteObjectVersion"], StringEquals={"s3:VersionId": kept}),
    )
    with refused(403, "AccessDenied"):
        limited.get_object(Bucket=bucket, Key="k", VersionId=kept)
    source = {"Bucket": bucket, "Key": "k", "VersionId": kept}
    with refused(403, "AccessDenied"):
        limited.copy_object(Bucket=bucket, Key="copy", CopySource=source)
    both = [{"Key": "k", "VersionId": version} for version in (kept, other)]
    deleted = limited.delete_objects(Bucket=bucket, Delete={"Objects": both})
    assert [one["VersionId"] for one in deleted["Deleted"]] == [other]
    assert [(one["VersionId"], one["Code"]) for one in deleted["Errors"]] == [(kept, "AccessDenied")]
    assert s3.get_object(Bucket=bucket, Key="k", VersionId=kept)["Body"].read() == b"kept"


def test_a_header_that_a_copy_ignores_satisfies_no_condition(user, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="class=public")
    internal = {"s3:RequestObjectTag/class": "internal"}
    limited = user(
        statement("Allow", ["s3:GetObject", "s3:GetObjectTagging", "s3:PutObjectTagging", "s3:ListBucket"]),
        statement("Allow", "s3:PutObject", StringEquals=internal),
    )

    def copy(directive: str):
        limited.copy_object(
            Bucket=bucket,
            Key="copy",
            CopySource=f"{bucket}/k",
            TaggingDirective=directive,
            Tagging="class=internal",
        )

    with refused(403, "AccessDenied"):
        copy("COPY")
    copy("REPLACE")


def test_tags_of_the_user_and_the_region(user, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    blue = {"aws:PrincipalTag/team": "blue", "aws:RequestedRegion": s3.meta.region_name}
    user(statement("Allow", "s3:GetObject", StringEquals=blue)).get_object(Bucket=bucket, Key="k")
    red = blue | {"aws:PrincipalTag/team": "red"}
    with refused(403, "AccessDenied"):
        user(statement("Allow", "s3:GetObject", StringEquals=red)).get_object(Bucket=bucket, Key="k")


def test_a_denial_of_direct_calls(user, s3, bucket):
    direct = {"aws:ViaAWSService": "false"}
    limited = user(statement("Allow", "s3:*"), statement("Deny", "s3:ListBucket", Bool=direct))
    with refused(403, "AccessDenied"):
        limited.list_objects_v2(Bucket=bucket)


def test_listing_all_buckets_needs_its_action(user, bucket):
    limited = user(statement("Allow", "s3:ListAllMyBuckets"))
    assert bucket in [one["Name"] for one in limited.list_buckets()["Buckets"]]
    limited = user(statement("Allow", "s3:GetObject"))
    assert limited.list_buckets()["Buckets"] == []


def test_a_condition_of_a_deletion_needs_the_right_to_read(user, s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    limited = user(statement("Allow", "s3:DeleteObject"))
    with refused(403, "AccessDenied"):
        limited.delete_object(Bucket=bucket, Key="k", IfMatch=etag)
    refusal = limited.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k", "ETag": etag}]})
    assert [one["Code"] for one in refusal["Errors"]] == ["AccessDenied"]
    limited = user(statement("Allow", ["s3:DeleteObject", "s3:GetObject"]))
    limited.delete_object(Bucket=bucket, Key="k", IfMatch=etag)


def test_a_new_path_must_be_allowed_too(user, iam):
    limited = user(statement("Allow", "iam:*", f"{ACCOUNT}:user/dev/*"), service="iam")
    iam.create_user(UserName="mover", Path="/dev/")
    try:
        with refused(403, "AccessDenied"):
            limited.update_user(UserName="mover", NewPath="/finance/")
        limited.update_user(UserName="mover", NewPath="/dev/more/")
        assert iam.get_user(UserName="mover")["User"]["Path"] == "/dev/more/"
    finally:
        iam.delete_user(UserName="mover")


def test_tags_of_what_an_action_is_about(user, iam):
    red = {"aws:ResourceTag/team": "red"}
    limited = user(statement("Allow", "iam:GetUser", StringEquals=red), service="iam")
    for name, team in (("of-red", "red"), ("of-green", "green")):
        iam.create_user(UserName=name, Tags=[{"Key": "team", "Value": team}])
    try:
        limited.get_user(UserName="of-red")
        with refused(403, "AccessDenied"):
            limited.get_user(UserName="of-green")
    finally:
        for name in ("of-red", "of-green"):
            iam.delete_user(UserName=name)


def test_a_session_does_not_outlive_the_policy_that_limits_it(user, iam, server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": f"{ACCOUNT}:root"}}
    role = iam.create_role(RoleName="reader", AssumeRolePolicyDocument=document(trust))["Role"]
    iam.put_role_policy(RoleName="reader", PolicyName="p", PolicyDocument=document(statement("Allow", "s3:*")))
    limit = document(statement("Allow", "s3:*"), statement("Deny", "s3:GetObject"))
    arn = iam.create_policy(PolicyName="limit", PolicyDocument=limit)["Policy"]["Arn"]
    try:
        sts = user(statement("Allow", "sts:AssumeRole"), service="sts")
        assumed = sts.assume_role(
            RoleArn=role["Arn"],
            RoleSessionName="session",
            Policy=document(statement("Allow", "s3:*")),
            PolicyArns=[{"arn": arn}],
        )["Credentials"]
        keys = assumed["AccessKeyId"], assumed["SecretAccessKey"]
        session = boto("s3", server.endpoint, *keys, token=assumed["SessionToken"])
        with refused(403, "AccessDenied"):
            session.get_object(Bucket=bucket, Key="k")
    finally:
        iam.delete_policy(PolicyArn=arn)
        iam.delete_role_policy(RoleName="reader", PolicyName="p")
    try:
        with refused(403, "AccessDenied"):
            session.get_object(Bucket=bucket, Key="k")
    finally:
        iam.delete_role(RoleName="reader")


@pytest.mark.parametrize("action", ["iam:PassRole", "s3:ListAccessPoints", "sts:GetFederationToken"])
def test_an_action_that_is_none_here_is_accepted(user, action):
    user(statement("Allow", action))


@pytest.mark.parametrize(
    "key, value, asked",
    [
        ("s3:x-amz-server-side-encryption", "AES256", {"ServerSideEncryption": "AES256"}),
        ("s3:x-amz-acl", "bucket-owner-full-control", {"ACL": "bucket-owner-full-control"}),
        ("s3:x-amz-storage-class", "STANDARD_IA", {"StorageClass": "STANDARD_IA"}),
        ("s3:RequestObjectTag/class", "internal", {"Tagging": "class=internal"}),
    ],
)
def test_what_began_an_upload_counts_for_its_parts(user, s3, bucket, key, value, asked):
    """Nobody can repeat these headers with a part."""
    limited = user(
        statement("Allow", "s3:*"),
        statement("Deny", "s3:PutObject", StringNotEquals={key: value}),
    )
    with refused(403, "AccessDenied"):
        limited.create_multipart_upload(Bucket=bucket, Key="k")
    upload = limited.create_multipart_upload(Bucket=bucket, Key="k", **asked)["UploadId"]
    named = {"Bucket": bucket, "Key": "k", "UploadId": upload}
    part = limited.upload_part(**named, PartNumber=1, Body=b"part")
    parts = [{"PartNumber": 1, "ETag": part["ETag"]}]
    limited.complete_multipart_upload(**named, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"part"
    # An upload that others began without it stays closed.
    other = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    with refused(403, "AccessDenied"):
        limited.upload_part(Bucket=bucket, Key="k", UploadId=other, PartNumber=1, Body=b"part")


def test_the_initiator_of_an_upload_may_list_its_parts_and_abort_it(user, s3, bucket):
    limited = user(statement("Allow", "s3:PutObject"))
    upload = limited.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    named = {"Bucket": bucket, "Key": "k", "UploadId": upload}
    limited.upload_part(**named, PartNumber=1, Body=b"part")
    assert [part["PartNumber"] for part in limited.list_parts(**named)["Parts"]] == [1]
    other = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    for call in (limited.list_parts, limited.abort_multipart_upload):
        with refused(403, "AccessDenied"):
            call(Bucket=bucket, Key="k", UploadId=other)
    limited = user(statement("Allow", "s3:PutObject"), statement("Deny", "s3:AbortMultipartUpload"))
    with refused(403, "AccessDenied"):
        limited.abort_multipart_upload(**named)
    limited = user(statement("Allow", "s3:PutObject"))
    limited.abort_multipart_upload(**named)
    with refused(404, "NoSuchUpload"):
        s3.list_parts(**named)


def test_a_condition_on_a_write_needs_the_right_to_read(user, s3, bucket):
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    limited = user(statement("Allow", "s3:PutObject"))
    with refused(403, "AccessDenied"):
        limited.put_object(Bucket=bucket, Key="k", Body=b"y", IfMatch=tag)
    limited.put_object(Bucket=bucket, Key="new", Body=b"y", IfNoneMatch="*")
    limited = user(statement("Allow", ["s3:PutObject", "s3:GetObject"]))
    limited.put_object(Bucket=bucket, Key="k", Body=b"y", IfMatch=tag)


def test_a_session_of_a_user_makes_no_keys(user, server):
    sts = user(statement("Allow", "*"), service="sts")
    given = sts.get_session_token()["Credentials"]
    iam = boto("iam", server.endpoint, given["AccessKeyId"], given["SecretAccessKey"], token=given["SessionToken"])
    with refused(403, "AccessDenied"):
        iam.create_access_key(UserName="limited")
    assert iam.meta.service_model.service_name == "iam"
