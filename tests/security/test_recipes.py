"""The recipes of docs/access.md, with the text of the page, and `archipel access explain` beside each request."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from s3.test_post_object import send, signed_fields, usual
from support import sigv4
from support.boto import boto
from support.expect import answer, holds, refused
from support.sigv4 import object_path
from support.tools import run
from support.unchanged import unchanged

pytestmark = pytest.mark.process

PAGE = Path(__file__).parents[2] / "docs" / "access.md"


def recipe(title: str, bucket: str, key: str = "") -> str:
    """The policy below a heading of the page."""
    text = PAGE.read_text().split(f"### {title}\n", 1)[1].split("\n### ", 1)[0]
    policy = re.search(r"```json\n(.*?)```", text, re.DOTALL)
    assert policy, title
    return policy.group(1).replace("BUCKET", bucket).replace('"KEY"', f'"{key}"')


@pytest.fixture
def nobody(server):
    """boto3 without a key."""
    return boto("s3", server.endpoint, None, None)


@pytest.fixture
def someone(server, make_key):
    """A key without grants, and boto3 with it."""
    key = make_key("someone")
    return key.access_key, client_of(server, key)


def client_of(server, key):
    return boto("s3", server.endpoint, key.access_key, key.secret_key)


@pytest.fixture
def explain(cli):
    def call(key, action, resource, *more):
        return cli("access", "explain", key, action, resource, *more)

    return call


def open_up(s3, bucket):
    s3.delete_public_access_block(Bucket=bucket)


def test_publish_all_objects(s3, nobody, cli, explain, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert not explain("anonymous", "s3:GetObject", f"{bucket}/k")["allowed"]
    with refused(403):
        nobody.get_object(Bucket=bucket, Key="k")
    cli("bucket", "publish", bucket)
    holds(nobody, bucket, "k", b"x")
    said = explain("anonymous", "s3:GetObject", f"{bucket}/k")
    assert said["allowed"] and "PublicRead" in said["reason"]
    assert s3.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]["IsPublic"]
    with refused(403, "AccessDenied"):
        nobody.list_objects_v2(Bucket=bucket)
    with refused(403, "AccessDenied"):
        nobody.get_object(Bucket=bucket, Key="missing")
    with refused(403, "AccessDenied"):
        nobody.put_object(Bucket=bucket, Key="k", Body=b"y")
    cli("bucket", "unpublish", bucket)
    with refused(403, "AccessDenied"):
        nobody.get_object(Bucket=bucket, Key="k")


def test_a_policy_may_ask_for_conditional_writes(s3, bucket):
    """AWS, "Enforce conditional writes": uploads in parts are exempt until they are completed."""
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    condition = {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}}
    document = {"Version": "2012-10-17", "Statement": [{**deny, "Condition": condition}]}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(document))
    with refused(403, "AccessDenied"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", IfNoneMatch="*")
    holds(s3, bucket, "k", b"x")
    with refused(412, "PreconditionFailed"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"y", IfNoneMatch="*")
    upload = {"Bucket": bucket, "Key": "parts"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    part = s3.upload_part(**upload, PartNumber=1, Body=b"x")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    with refused(403, "AccessDenied"):
        s3.complete_multipart_upload(**upload, MultipartUpload=parts)
    s3.complete_multipart_upload(**upload, MultipartUpload=parts, IfNoneMatch="*")
    holds(s3, bucket, "parts", b"x")


@pytest.mark.parametrize("name", ["aws:ResourceAccount", "s3:ResourceAccount"])
def test_a_policy_may_ask_for_the_account_of_the_bucket(s3, bucket, name):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    for account, allowed in (("000000000000", True), ("123456789012", False)):
        condition = {"StringNotEquals": {name: account}}
        document = {"Version": "2012-10-17", "Statement": [{**deny, "Condition": condition}]}
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(document))
        if allowed:
            holds(s3, bucket, "k", b"x")
        else:
            with refused(403, "AccessDenied"):
                s3.get_object(Bucket=bucket, Key="k")


def test_the_number_of_tags_is_for_those_who_may_read_them(s3, nobody, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="a=1&b=2")
    open_up(s3, bucket)
    allow = {"Effect": "Allow", "Principal": "*", "Resource": f"arn:aws:s3:::{bucket}/*"}
    for actions, told in ((["s3:GetObject"], None), (["s3:GetObject", "s3:GetObjectTagging"], 2)):
        document = {"Version": "2012-10-17", "Statement": [{**allow, "Action": actions}]}
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(document))
        for read in (nobody.get_object, nobody.head_object):
            assert read(Bucket=bucket, Key="k").get("TagCount") == told
    assert s3.head_object(Bucket=bucket, Key="k")["TagCount"] == 2


def test_a_link_to_a_public_object_does_not_choose_its_headers(s3, nobody, cli, bucket):
    """As AWS: parameters that replace headers of the answer are for signed requests."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    cli("bucket", "publish", bucket)
    for name in ("ContentType", "ContentDisposition", "ContentEncoding", "ContentLanguage", "CacheControl", "Expires"):
        override = {f"Response{name}": "Thu, 01 Jan 2026 00:00:00 GMT"}
        with refused(400, "InvalidRequest"):
            nobody.get_object(Bucket=bucket, Key="k", **override)
        s3.get_object(Bucket=bucket, Key="k", **override)
    holds(nobody, bucket, "k", b"x")


def test_publish_one_folder(s3, nobody, bucket):
    for name in ("public/a", "private"):
        s3.put_object(Bucket=bucket, Key=name, Body=b"x")
    policy = recipe("Publish one folder", bucket)
    with refused(403, "AccessDenied"):
        s3.put_bucket_policy(Bucket=bucket, Policy=policy)
    open_up(s3, bucket)
    s3.put_bucket_policy(Bucket=bucket, Policy=policy)
    assert s3.get_bucket_policy(Bucket=bucket)["Policy"] == policy
    holds(nobody, bucket, "public/a", b"x")
    with refused(403, "AccessDenied"):
        nobody.get_object(Bucket=bucket, Key="private")


def test_limit_a_key_to_a_prefix(s3, someone, explain, bucket):
    name, client = someone
    for key in ("team/a", "other/b"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    s3.put_bucket_policy(Bucket=bucket, Policy=recipe("Limit a key to a prefix", bucket, name))
    assert [o["Key"] for o in client.list_objects_v2(Bucket=bucket, Prefix="team/")["Contents"]] == ["team/a"]
    for prefix in ("", "other/", "te"):
        with refused(403, "AccessDenied"):
            client.list_objects_v2(Bucket=bucket, Prefix=prefix)
    holds(client, bucket, "team/a", b"x")
    client.put_object(Bucket=bucket, Key="team/new", Body=b"new")
    for method in (client.get_object, client.delete_object):
        with refused(403, "AccessDenied"):
            method(Bucket=bucket, Key="other/b")
    done = client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "team/new"}, {"Key": "other/b"}]})
    assert [d["Key"] for d in done["Deleted"]] == ["team/new"]
    assert [(e["Key"], e["Code"]) for e in done["Errors"]] == [("other/b", "AccessDenied")]
    with refused(403, "AccessDenied"):
        client.copy_object(Bucket=bucket, Key="team/stolen", CopySource=f"{bucket}/other/b")
    holds(s3, bucket, "other/b", b"x")
    assert explain(name, "s3:ListBucket", bucket, "--with", "s3:prefix=team/")["allowed"]
    assert not explain(name, "s3:ListBucket", bucket)["allowed"]


def test_a_folder_for_each_key(server, s3, nobody, make_key, bucket):
    open_up(s3, bucket)
    s3.put_bucket_policy(Bucket=bucket, Policy=recipe("A folder for each key", bucket))
    assert not s3.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]["IsPublic"]
    keys = [make_key("one"), make_key("two")]
    clients = [client_of(server, key) for key in keys]
    for key, client in zip(keys, clients):
        client.put_object(Bucket=bucket, Key=f"home/{key.access_key}/x", Body=b"mine")
    for key, other in zip(keys, reversed(clients)):
        with refused(403, "AccessDenied"):
            other.get_object(Bucket=bucket, Key=f"home/{key.access_key}/x")
    with refused(403, "AccessDenied"):
        nobody.get_object(Bucket=bucket, Key=f"home/{keys[0].access_key}/x")


def test_only_from_some_addresses(s3, explain, credentials, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    policy = recipe("Only from some addresses", bucket)
    s3.put_bucket_policy(Bucket=bucket, Policy=policy)
    with refused(403):
        s3.get_object(Bucket=bucket, Key="k")
    # The owner is not locked out of the policy itself.
    s3.put_bucket_policy(Bucket=bucket, Policy=policy.replace("10.0.0.0/8", "127.0.0.0/8"))
    holds(s3, bucket, "k", b"x")
    said = explain(credentials.access_key, "s3:GetObject", f"{bucket}/k", "--with", "aws:SourceIp=192.0.2.1")
    assert not said["allowed"] and "denies" in said["reason"]


def test_a_mailbox(raw, s3, nobody, bucket):
    open_up(s3, bucket)
    s3.put_bucket_policy(Bucket=bucket, Policy=recipe("A mailbox: everybody puts, nobody reads", bucket))
    nobody.put_object(Bucket=bucket, Key="inbox/a", Body=b"letter")
    answer(send(raw, bucket, [("key", "inbox/${filename}")], b"by form", filename="b.txt"), 204)
    holds(s3, bucket, "inbox/a", b"letter")
    holds(s3, bucket, "inbox/b.txt", b"by form")
    for key in ("inbox/a", "inbox/missing"):
        with refused(403, "AccessDenied"):
            nobody.get_object(Bucket=bucket, Key=key)
    with refused(403, "AccessDenied"):
        nobody.put_object(Bucket=bucket, Key="elsewhere", Body=b"x")
    with unchanged():
        answer(send(raw, bucket, [("key", "elsewhere")]), 403, "AccessDenied")


def test_keep_objects_from_being_deleted(s3, explain, credentials, bucket):
    s3.put_object(Bucket=bucket, Key="archive/a", Body=b"kept")
    s3.put_bucket_policy(Bucket=bucket, Policy=recipe("Keep objects from being deleted", bucket))
    with refused(403, "AccessDenied"):
        s3.delete_object(Bucket=bucket, Key="archive/a")
    done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "archive/a"}]})
    assert done["Errors"][0]["Code"] == "AccessDenied"
    holds(s3, bucket, "archive/a", b"kept")
    assert not explain(credentials.access_key, "s3:DeleteObject", f"{bucket}/archive/a")["allowed"]
    s3.delete_bucket_policy(Bucket=bucket)
    s3.delete_object(Bucket=bucket, Key="archive/a")


def test_publish_by_tag(s3, nobody, explain, bucket):
    open_up(s3, bucket)
    s3.put_object(Bucket=bucket, Key="open", Body=b"open", Tagging="public=yes")
    s3.put_object(Bucket=bucket, Key="closed", Body=b"closed")
    s3.put_bucket_policy(Bucket=bucket, Policy=recipe("Publish by tag", bucket))
    holds(nobody, bucket, "open", b"open")
    with refused(403, "AccessDenied"):
        nobody.get_object(Bucket=bucket, Key="closed")
    assert explain("anonymous", "s3:GetObject", f"{bucket}/open")["allowed"]
    s3.put_object_tagging(Bucket=bucket, Key="closed", Tagging={"TagSet": [{"Key": "public", "Value": "yes"}]})
    holds(nobody, bucket, "closed", b"closed")


def test_only_short_lived_presigned_urls(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3.put_bucket_policy(Bucket=bucket, Policy=recipe("Only short-lived presigned URLs", bucket))

    def made(**more):
        return sigv4.presign(raw.credentials, "GET", raw.host, object_path(bucket, "k"), **more)

    answer(raw.presigned("GET", made()), 200)
    answer(raw.presigned("GET", made(stamp=sigv4.shifted(-590), expires=3600)), 200)
    with unchanged():
        answer(raw.presigned("GET", made(stamp=sigv4.shifted(-620), expires=3600)), 403, "AccessDenied")
    holds(s3, bucket, "k", b"x")

    def form(seconds: int):
        conditions, fields = usual(bucket, "form")
        stamp = sigv4.shifted(seconds)
        return signed_fields(raw.credentials, conditions, fields, stamp=stamp)

    with unchanged():
        answer(send(raw, bucket, form(-620)), 403, "AccessDenied")
    answer(send(raw, bucket, form(-590)), 204)
    holds(s3, bucket, "form", b"content")


def test_publish_single_objects_by_acl(aws_env, s3, nobody, bucket, tmp_path):
    source = tmp_path / "cat.jpg"
    source.write_bytes(b"cat")
    upload = ["aws", "s3", "cp", source, f"s3://{bucket}/", "--acl", "public-read"]
    assert b"AccessControlListNotSupported" in run(upload, aws_env, check=False).stderr
    block = PAGE.read_text().split("### Publish single objects by ACL", 1)[1].split("```console", 1)[1].split("```", 1)[0]
    commands = block.replace("\\\n", " ").strip().splitlines()
    assert [c.split()[2] for c in commands] == ["s3api", "s3api", "s3"]
    ownership = "Rules=[{ObjectOwnership=BucketOwnerPreferred}]"
    run(["aws", "s3api", "put-bucket-ownership-controls", "--bucket", bucket, "--ownership-controls", ownership], aws_env)
    assert b"AccessDenied" in run(upload, aws_env, check=False).stderr
    run(["aws", "s3api", "delete-public-access-block", "--bucket", bucket], aws_env)
    run(upload, aws_env)
    s3.put_object(Bucket=bucket, Key="private", Body=b"x")
    holds(nobody, bucket, "cat.jpg", b"cat")
    with refused(403, "AccessDenied"):
        nobody.get_object(Bucket=bucket, Key="private")
    grants = s3.get_object_acl(Bucket=bucket, Key="cat.jpg")["Grants"]
    assert {g["Permission"] for g in grants} == {"FULL_CONTROL", "READ"}
    s3.put_object_acl(Bucket=bucket, Key="cat.jpg", ACL="private")
    with refused(403, "AccessDenied"):
        nobody.get_object(Bucket=bucket, Key="cat.jpg")


def test_upload_in_parts_keeps_its_list(s3, nobody, bucket):
    """The list of CreateMultipartUpload is that of the object."""
    s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls={"Rules": [{"ObjectOwnership": "ObjectWriter"}]})
    open_up(s3, bucket)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", ACL="public-read")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"parts")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload=parts)
    holds(nobody, bucket, "k", b"parts")


def test_settings_with_boto3(s3, bucket):
    block = s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    assert all(block.values()) and len(block) == 4
    ownership = s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]["Rules"]
    assert ownership == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    assert s3.get_bucket_request_payment(Bucket=bucket)["Payer"] == "BucketOwner"
    assert [g["Permission"] for g in s3.get_bucket_acl(Bucket=bucket)["Grants"]] == ["FULL_CONTROL"]
    with refused(404, "NoSuchBucketPolicy"):
        s3.get_bucket_policy(Bucket=bucket)
    with refused(400, "MalformedPolicy"):
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Statement": [{"Effect": "Allow"}]}))
    with refused(501, "NotImplemented"):
        s3.put_bucket_request_payment(Bucket=bucket, RequestPaymentConfiguration={"Payer": "Requester"})
    with refused(403, "AccessDenied"):
        s3.get_bucket_acl(Bucket=bucket, ExpectedBucketOwner="123456789012")
    s3.get_bucket_acl(Bucket=bucket, ExpectedBucketOwner="000000000000")


def test_a_change_counts_at_once_on_this_node(s3, nobody, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    open_up(s3, bucket)
    policy = recipe("Publish one folder", bucket).replace("/public/*", "/*")
    for _ in range(5):
        s3.put_bucket_policy(Bucket=bucket, Policy=policy)
        holds(nobody, bucket, "k", b"x")
        s3.delete_bucket_policy(Bucket=bucket)
        with refused(403, "AccessDenied"):
            nobody.get_object(Bucket=bucket, Key="k")
