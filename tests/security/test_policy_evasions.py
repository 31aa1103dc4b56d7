"""Requests that were allowed because a denial looked at another action, another value or another name."""

from __future__ import annotations

import contextlib

import pytest
from security.test_policies_of_users import ACCOUNT, document, statement, user  # noqa: F401
from support import sigv4, wire
from support.boto import boto
from support.expect import refused
from support.sigv4 import object_path

pytestmark = pytest.mark.process

TAGS = [{"Key": "team", "Value": "finance"}]


def denied():
    return refused(403, "AccessDenied")


def test_tags_of_a_new_identity_need_the_right_to_tag(user, iam):  # noqa: F811
    limited = user(statement("Allow", "iam:*"), statement("Deny", ["iam:Tag*"]), service="iam")
    trust = document({"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": f"{ACCOUNT}:root"}})
    policy = document(statement("Allow", "s3:GetObject"))
    creations = {
        "user": lambda **tags: limited.create_user(UserName="made", **tags),
        "role": lambda **tags: limited.create_role(RoleName="made", AssumeRolePolicyDocument=trust, **tags),
        "policy": lambda **tags: limited.create_policy(PolicyName="made", PolicyDocument=policy, **tags),
        "provider": lambda **tags: limited.create_open_id_connect_provider(
            Url="https://id.example.org", ClientIDList=["a"], ThumbprintList=["0" * 40], **tags
        ),
    }
    deletions = {
        "user": lambda: iam.delete_user(UserName="made"),
        "role": lambda: iam.delete_role(RoleName="made"),
        "policy": lambda: iam.delete_policy(PolicyArn=f"{ACCOUNT}:policy/made"),
        "provider": lambda: iam.delete_open_id_connect_provider(
            OpenIDConnectProviderArn=f"{ACCOUNT}:oidc-provider/id.example.org"
        ),
    }
    for kind, create in creations.items():
        with denied():
            create(Tags=TAGS)
        # The refusal made nothing, so that the name is free.
        create()
        deletions[kind]()


def test_a_user_with_a_new_path_is_still_meant(user, iam, s3, server, bucket):  # noqa: F811
    helper = user(statement("Allow", "iam:*", f"{ACCOUNT}:user/dev/*"), service="iam")
    iam.create_user(UserName="mover", Path="/dev/")
    key = iam.create_access_key(UserName="mover")["AccessKey"]
    try:
        iam.put_user_policy(UserName="mover", PolicyName="p", PolicyDocument=document(statement("Allow", "s3:*")))
        named = {"Principal": {"AWS": f"{ACCOUNT}:user/dev/mover"}}
        policy = statement("Deny", "s3:GetObject", f"arn:aws:s3:::{bucket}/*") | named
        s3.put_bucket_policy(Bucket=bucket, Policy=document(policy))
        s3.put_object(Bucket=bucket, Key="k", Body=b"x")
        mover = boto("s3", server.endpoint, key["AccessKeyId"], key["SecretAccessKey"])
        with denied():
            mover.get_object(Bucket=bucket, Key="k")
        helper.update_user(UserName="mover", NewPath="/dev/x/")
        with denied():
            mover.get_object(Bucket=bucket, Key="k")
        # Another user of the old name is not meant, and the first one still is.
        iam.create_user(UserName="other", Path="/dev/")
        iam.delete_user(UserName="other")
        with denied():
            mover.get_object(Bucket=bucket, Key="k")
    finally:
        iam.delete_user_policy(UserName="mover", PolicyName="p")
        iam.delete_access_key(UserName="mover", AccessKeyId=key["AccessKeyId"])
        iam.delete_user(UserName="mover")


def test_a_user_who_is_named_in_two_ways_is_meant_by_both(user, iam, s3, bucket):  # noqa: F811
    limited = user(statement("Allow", "s3:*"))
    unique = iam.get_user(UserName="limited")["User"]["UserId"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    resource = f"arn:aws:s3:::{bucket}/*"
    allow = statement("Allow", "s3:*", resource) | {"Principal": {"AWS": unique}}
    deny = statement("Deny", "s3:DeleteObject", resource) | {"Principal": {"AWS": f"{ACCOUNT}:user/limited"}}
    s3.put_bucket_policy(Bucket=bucket, Policy=document(allow, deny))
    assert limited.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"
    with denied():
        limited.delete_object(Bucket=bucket, Key="k")


def test_a_copy_of_a_version_needs_the_right_to_its_tags(user, s3, bucket):  # noqa: F811
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    old = s3.put_object(Bucket=bucket, Key="k", Body=b"old", Tagging="class=secret")["VersionId"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"new", Tagging="class=open")
    limited = user(statement("Allow", "s3:*"), statement("Deny", "s3:GetObjectVersionTagging"))
    source = {"Bucket": bucket, "Key": "k"}
    limited.copy_object(Bucket=bucket, Key="copy", CopySource=source)
    with denied():
        limited.copy_object(Bucket=bucket, Key="copy", CopySource=source | {"VersionId": old})
    limited = user(statement("Allow", "s3:*"), statement("Deny", "s3:GetObjectTagging"))
    limited.copy_object(Bucket=bucket, Key="copy", CopySource=source | {"VersionId": old})
    with denied():
        limited.copy_object(Bucket=bucket, Key="copy", CopySource=source)


def test_tags_that_a_copy_takes_over_meet_conditions(user, s3, bucket):  # noqa: F811
    s3.put_object(Bucket=bucket, Key="public", Body=b"x", Tagging="class=public")
    s3.put_object(Bucket=bucket, Key="internal", Body=b"x", Tagging="class=internal")
    s3.put_object(Bucket=bucket, Key="locked", Body=b"x", Tagging="locked=yes")

    def copy(client, source: str, to: str):
        client.copy_object(Bucket=bucket, Key=to, CopySource={"Bucket": bucket, "Key": source})

    public = {"s3:RequestObjectTag/class": "public"}
    limited = user(statement("Allow", "s3:*"), statement("Deny", "s3:PutObjectTagging", StringEquals=public))
    copy(limited, "internal", "to")
    with denied():
        copy(limited, "public", "to")
    # The request itself gives no tags. So a condition on PutObject sees none.
    limited = user(statement("Allow", "s3:*"), statement("Deny", "s3:PutObject", StringEquals=public))
    copy(limited, "public", "to")
    untagged = {"s3:RequestObjectTag/class": "true"}
    limited = user(statement("Allow", "s3:*"), statement("Deny", "s3:PutObject", Null=untagged))
    with denied():
        copy(limited, "public", "to")
    locked = {"s3:ExistingObjectTag/locked": "yes"}
    limited = user(statement("Allow", "s3:*"), statement("Deny", "s3:PutObjectTagging", StringEquals=locked))
    copy(limited, "internal", "to")
    with denied():
        copy(limited, "internal", "locked")


def test_tags_of_a_new_bucket_need_the_right_to_tag(user):  # noqa: F811
    def create(client, value: str):
        tags = {"Tags": [{"Key": "x", "Value": value}]}
        client.create_bucket(Bucket="with-tags", CreateBucketConfiguration=tags)

    limited = user(statement("Allow", "s3:*"), statement("Deny", "s3:TagResource"))
    with denied():
        create(limited, "1")
    one = {"aws:RequestTag/x": "1"}
    limited = user(statement("Allow", "s3:*"), statement("Deny", "s3:TagResource", StringEquals=one))
    with denied():
        create(limited, "1")
    hidden = {"Tags": [{"Key": "x", "Value": "1"}, {"Key": "X", "Value": "2"}]}
    with denied():
        limited.create_bucket(Bucket="with-tags", CreateBucketConfiguration=hidden)
    create(limited, "2")
    limited.delete_bucket(Bucket="with-tags")


def test_a_second_tag_in_another_case_does_not_satisfy_a_condition(user, s3, bucket):  # noqa: F811
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    other = {"s3:RequestObjectTag/public": "no"}
    limited = user(statement("Allow", "s3:*"), statement("Deny", "s3:PutObjectTagging", StringNotEquals=other))

    def tag(**tags: str):
        tag_set = [{"Key": name, "Value": value} for name, value in tags.items()]
        limited.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": tag_set})

    tag(public="no")
    tag(public="no", PUBLIC="yes")
    with denied():
        tag(public="yes", PUBLIC="no")


def test_headers_of_later_requests_do_not_replace_those_of_an_upload(user, s3, bucket):  # noqa: F811
    begun = s3.create_multipart_upload(Bucket=bucket, Key="k", WebsiteRedirectLocation="https://example.org/")
    upload = {"Bucket": bucket, "Key": "k", "UploadId": begun["UploadId"]}
    part = s3.upload_part(**upload, PartNumber=1, Body=b"x")
    away = {"s3:x-amz-website-redirect-location": "http*"}
    limited = user(statement("Allow", "s3:*"), statement("Deny", "s3:PutObject", StringLike=away))

    def add(request, **_):
        request.headers["x-amz-website-redirect-location"] = "/ok"

    limited.meta.events.register("before-sign.s3.CompleteMultipartUpload", add)
    parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
    with denied():
        limited.complete_multipart_upload(**upload, MultipartUpload=parts)
    s3.abort_multipart_upload(**upload)


def test_a_session_is_not_limited_by_another_policy_of_the_same_name(user, iam, s3, server, bucket):  # noqa: F811
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": f"{ACCOUNT}:root"}}
    role = iam.create_role(RoleName="reader", AssumeRolePolicyDocument=document(trust))["Role"]
    everything = document(statement("Allow", "s3:*"))
    iam.put_role_policy(RoleName="reader", PolicyName="p", PolicyDocument=everything)
    narrow = document(statement("Allow", "s3:ListBucket"))
    arn = iam.create_policy(PolicyName="limit", PolicyDocument=narrow)["Policy"]["Arn"]
    try:
        sts = user(statement("Allow", "sts:AssumeRole"), service="sts")
        assumed = sts.assume_role(RoleArn=role["Arn"], RoleSessionName="session", PolicyArns=[{"arn": arn}])
        given = assumed["Credentials"]
        keys = given["AccessKeyId"], given["SecretAccessKey"]
        session = boto("s3", server.endpoint, *keys, token=given["SessionToken"])
        session.list_objects_v2(Bucket=bucket)
        iam.delete_policy(PolicyArn=arn)
        iam.create_policy(PolicyName="limit", PolicyDocument=everything)
        for ask in (session.get_object, session.head_object):
            with pytest.raises(session.exceptions.ClientError):
                ask(Bucket=bucket, Key="k")
        with denied():
            session.list_objects_v2(Bucket=bucket)
    finally:
        with contextlib.suppress(iam.exceptions.NoSuchEntityException):
            iam.delete_policy(PolicyArn=arn)
        iam.delete_role_policy(RoleName="reader", PolicyName="p")
        iam.delete_role(RoleName="reader")


def test_conditions_of_writes_do_not_tell_that_a_key_is_missing(user, s3, bucket):  # noqa: F811
    s3.put_object(Bucket=bucket, Key="there", Body=b"x")
    limited = user(statement("Allow", ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]))
    with denied():
        limited.put_object(Bucket=bucket, Key="gone", Body=b"x", IfMatch='"0"')
    with refused(412, "PreconditionFailed"):
        limited.put_object(Bucket=bucket, Key="there", Body=b"x", IfMatch='"0"')
    with denied():
        limited.delete_object(Bucket=bucket, Key="gone", IfMatch='"0"')
    both = [{"Key": key, "ETag": '"0"'} for key in ("gone", "there")]
    errors = limited.delete_objects(Bucket=bucket, Delete={"Objects": both})["Errors"]
    assert {one["Key"]: one["Code"] for one in errors} == {"gone": "AccessDenied", "there": "PreconditionFailed"}
    begun = limited.create_multipart_upload(Bucket=bucket, Key="gone")
    upload = {"Bucket": bucket, "Key": "gone", "UploadId": begun["UploadId"]}
    part = limited.upload_part(**upload, PartNumber=1, Body=b"x")
    parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
    with pytest.raises(limited.exceptions.ClientError) as refusal:
        limited.complete_multipart_upload(**upload, MultipartUpload=parts, IfMatch='"0"')
    assert refusal.value.response["Error"]["Code"] == "AccessDenied"
    s3.abort_multipart_upload(**upload)
    limited = user(statement("Allow", ["s3:GetObject", "s3:PutObject", "s3:ListBucket"]))
    with refused(404, "NoSuchKey"):
        limited.put_object(Bucket=bucket, Key="gone", Body=b"x", IfMatch='"0"')


def test_a_lock_is_refused_before_the_content_if_the_bucket_has_none(raw, s3, bucket):
    path = object_path(bucket, "k")
    asks = [("Host", raw.host), ("x-amz-object-lock-legal-hold", "ON")]
    headers = sigv4.sign_headers(raw.credentials, "PUT", path, [], asks, sigv4.UNSIGNED)
    more = [("Content-Length", "4"), ("Content-MD5", "CY9rzUYh03PK3k6DJie09g=="), ("Expect", "100-continue")]
    with wire.connect(raw.address) as sock:
        sock.sendall(wire.head("PUT", path, [*headers, *more]))
        reply = wire.read_response(sock, "PUT")
    assert (reply.status, reply.code) == (400, "InvalidRequest")
    with pytest.raises(s3.exceptions.ClientError):
        s3.head_object(Bucket=bucket, Key="k")
