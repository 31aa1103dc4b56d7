"""Server-side encryption as real clients use it, and what is on the disks then."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from s3.test_post_object import send, signed_fields, usual
from support.boto import boto, boto_of
from support.data import MIB, content
from support.expect import answer
from support.server import Demo, lone_server
from support.tools import run, same_tree
from support.unchanged import unchanged

KEY, OTHER = b"k" * 32, b"o" * 32
# The text that tells a block of SSE-C from a lack of permission.
BLOCKED = "this bucket has blocked upload requests that specify Server Side Encryption with Customer provided keys"


def customer(key: bytes = KEY) -> dict:
    return {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": key}


def source(key: bytes = KEY) -> dict:
    return {"CopySourceSSECustomerAlgorithm": "AES256", "CopySourceSSECustomerKey": key}


def refused(call, status: int, code: str | None = None) -> str:
    """Asserts that a call is refused so; returns the message."""
    with pytest.raises(ClientError) as error, unchanged():
        call()
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
    assert code in (None, error.value.response["Error"]["Code"])
    return error.value.response["Error"].get("Message", "")


@pytest.mark.parametrize("size", [0, 100, 16 * 1024, 65_536, 3 * MIB + 7])
def test_customers_key(s3, bucket, size):
    body = content(size, "sse-c")
    put = s3.put_object(Bucket=bucket, Key="k", Body=body, **customer())
    md5 = base64.b64encode(hashlib.md5(KEY).digest()).decode()
    assert put["SSECustomerAlgorithm"] == "AES256" and put["SSECustomerKeyMD5"] == md5
    assert put["ETag"] != f'"{hashlib.md5(body).hexdigest()}"'
    got = s3.get_object(Bucket=bucket, Key="k", **customer())
    assert got["Body"].read() == body and got["SSECustomerKeyMD5"] == md5
    head = s3.head_object(Bucket=bucket, Key="k", **customer())
    assert head["ContentLength"] == size and head["ETag"] == put["ETag"]
    refused(lambda: s3.get_object(Bucket=bucket, Key="k"), 400, "InvalidRequest")
    refused(lambda: s3.get_object(Bucket=bucket, Key="k", **customer(OTHER)), 403, "AccessDenied")
    refused(lambda: s3.head_object(Bucket=bucket, Key="k"), 400)
    refused(lambda: s3.head_object(Bucket=bucket, Key="k", **customer(OTHER)), 403)


def test_ranges(s3, bucket):
    body = content(300_000, "ranges")
    s3.put_object(Bucket=bucket, Key="c", Body=body, **customer())
    s3.put_object(Bucket=bucket, Key="s", Body=body, ServerSideEncryption="AES256")
    for first, last in ((0, 0), (65_535, 65_536), (100, 200_000), (131_072, 131_072), (299_999, 299_999)):
        where = {"Bucket": bucket, "Range": f"bytes={first}-{last}"}
        assert s3.get_object(Key="c", **where, **customer())["Body"].read() == body[first : last + 1]
        assert s3.get_object(Key="s", **where)["Body"].read() == body[first : last + 1]


@pytest.mark.parametrize("how", [customer(), {"ServerSideEncryption": "AES256"}], ids=["customer", "server"])
def test_multipart(s3, bucket, how):
    read = how if "SSECustomerKey" in how else {}
    pieces = [content(5 * MIB + 1, "one"), content(70_000, "two")]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m", **how)["UploadId"]
    named = {"Bucket": bucket, "Key": "m", "UploadId": upload}
    parts = []
    for number, piece in enumerate(pieces, 1):
        if read:
            part = {"PartNumber": number, "Body": piece}
            refused(lambda part=part: s3.upload_part(**named, **part), 400, "InvalidRequest")
            refused(lambda part=part: s3.upload_part(**named, **part, **customer(OTHER)), 400, "InvalidRequest")
        sent = s3.upload_part(**named, PartNumber=number, Body=piece, **read)
        parts.append({"PartNumber": number, "ETag": sent["ETag"]})
    assert [p["ETag"] for p in s3.list_parts(**named)["Parts"]] == [p["ETag"] for p in parts]
    done = s3.complete_multipart_upload(**named, MultipartUpload={"Parts": parts})
    assert done["ETag"].endswith('-2"')
    whole = b"".join(pieces)
    assert s3.get_object(Bucket=bucket, Key="m", **read)["Body"].read() == whole
    across = s3.get_object(Bucket=bucket, Key="m", Range="bytes=5242870-5242900", **read)["Body"].read()
    assert across == whole[5242870:5242901]
    second = s3.get_object(Bucket=bucket, Key="m", PartNumber=2, **read)
    assert second["Body"].read() == pieces[1]


def test_copies(s3, bucket):
    body = content(200_000, "copies")
    s3.put_object(Bucket=bucket, Key="k", Body=body, **customer())
    where = {"Bucket": bucket, "CopySource": {"Bucket": bucket, "Key": "k"}}
    s3.copy_object(Key="other", **where, **source(), **customer(OTHER))
    assert s3.get_object(Bucket=bucket, Key="other", **customer(OTHER))["Body"].read() == body
    s3.copy_object(Key="server", **where, **source(), ServerSideEncryption="AES256")
    assert s3.get_object(Bucket=bucket, Key="server")["ServerSideEncryption"] == "AES256"
    refused(lambda: s3.copy_object(Key="x", **where), 400, "InvalidRequest")
    refused(lambda: s3.copy_object(Key="x", **where, **source(OTHER)), 403, "AccessDenied")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m", **customer(OTHER))["UploadId"]
    named = {"Bucket": bucket, "Key": "m", "UploadId": upload}
    copied = s3.upload_part_copy(
        **named, PartNumber=1, CopySource=where["CopySource"], CopySourceRange="bytes=70000-150000",
        **source(), **customer(OTHER),
    )  # fmt: skip
    parts = [{"PartNumber": 1, "ETag": copied["CopyPartResult"]["ETag"]}]
    s3.complete_multipart_upload(**named, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket=bucket, Key="m", **customer(OTHER))["Body"].read() == body[70000:150001]


def test_default_of_a_bucket(s3, bucket):
    refused(
        lambda: s3.get_bucket_encryption(Bucket=bucket), 404, "ServerSideEncryptionConfigurationNotFoundError"
    )
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
    got = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert got == [{**rule, "BucketKeyEnabled": False}]
    assert s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ServerSideEncryption"] == "AES256"
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"
    s3.delete_bucket_encryption(Bucket=bucket)
    assert "ServerSideEncryption" not in s3.put_object(Bucket=bucket, Key="k", Body=b"x")


def test_customers_keys_may_be_blocked(raw, s3, make_bucket, credentials):
    """AWS: writes that specify SSE-C are answered 403, and objects under it stay readable."""
    bucket = make_bucket("blocked")
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}

    def put(what: dict) -> None:
        s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [what]})

    def blocking(kind: str) -> dict:
        return {"BlockedEncryptionTypes": {"EncryptionType": [kind]}}

    def shown() -> dict:
        [got] = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
        return got

    def is_blocked(call) -> None:
        assert BLOCKED in refused(call, 403, "AccessDenied")

    s3.put_object(Bucket=bucket, Key="k", Body=b"kept", **customer())
    named = {"Bucket": bucket, "Key": "m"}
    named["UploadId"] = s3.create_multipart_upload(**named, **customer())["UploadId"]
    sent = s3.upload_part(**named, PartNumber=1, Body=b"part", **customer())
    whole = {"Parts": [{"PartNumber": 1, "ETag": sent["ETag"]}]}
    copied = {"CopySource": {"Bucket": bucket, "Key": "k"}, **source()}

    def post():
        """A form with a customer's key."""
        prefix = "x-amz-server-side-encryption-customer-"
        md5 = base64.b64encode(hashlib.md5(KEY).digest()).decode()
        values = {"algorithm": "AES256", "key": base64.b64encode(KEY).decode(), "key-md5": md5}
        given = [(prefix + name, value) for name, value in values.items()]
        conditions, fields = usual(bucket, "posted")
        conditions = [*conditions, *({name: value} for name, value in given)]
        return send(raw, bucket, signed_fields(credentials, conditions, [*fields, *given]))

    put(blocking("SSE-C"))
    # No default comes with it.
    assert shown() == blocking("SSE-C")
    for call in (
        lambda: s3.put_object(Bucket=bucket, Key="new", Body=b"x", **customer()),
        lambda: s3.copy_object(Bucket=bucket, Key="new", **copied, **customer(OTHER)),
        lambda: s3.create_multipart_upload(Bucket=bucket, Key="new", **customer()),
        lambda: s3.upload_part(**named, PartNumber=2, Body=b"x", **customer()),
        lambda: s3.upload_part_copy(**named, PartNumber=2, **copied, **customer()),
        lambda: s3.complete_multipart_upload(**named, MultipartUpload=whole, **customer()),
    ):
        is_blocked(call)
    with unchanged():
        assert BLOCKED in answer(post(), 403, "AccessDenied").body.decode()
    assert s3.get_object(Bucket=bucket, Key="k", **customer())["Body"].read() == b"kept"
    assert s3.head_object(Bucket=bucket, Key="k", **customer())["ContentLength"] == 4
    s3.copy_object(Bucket=bucket, Key="other", **copied)
    assert s3.get_object(Bucket=bucket, Key="other")["Body"].read() == b"kept"
    # A document that does not name what is blocked leaves it, and so does a deletion.
    put(rule)
    assert shown() == {**rule, "BucketKeyEnabled": False, **blocking("SSE-C")}
    s3.delete_bucket_encryption(Bucket=bucket)
    is_blocked(lambda: s3.put_object(Bucket=bucket, Key="new", Body=b"x", **customer()))
    # A completion without the key asks for no SSE-C.
    s3.complete_multipart_upload(**named, MultipartUpload=whole)
    assert s3.get_object(Bucket=bucket, Key="m", **customer())["Body"].read() == b"part"
    put(blocking("NONE"))
    assert shown() == blocking("NONE")
    s3.put_object(Bucket=bucket, Key="new", Body=b"x", **customer())
    answer(post(), 204)
    s3.delete_bucket_encryption(Bucket=bucket)
    refused(shown, 404, "ServerSideEncryptionConfigurationNotFoundError")


def test_a_rule_without_an_algorithm_and_a_block_is_about_the_default(s3, make_bucket):
    bucket = make_bucket("default")
    rule = {"BucketKeyEnabled": True}
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
    [got] = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert got == {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}, **rule}
    assert s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ServerSideEncryption"] == "AES256"


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """A node with TLS: most clients give keys over nothing else."""
    folder = tmp_path_factory.mktemp("tls")
    with lone_server(folder, "[tls]\nself_signed = true\n") as (server, port):
        key = server.cli_json("key", "create", "tester", "--create-bucket")
        ca = str(folder / "data/self-signed.pem")
        yield {"endpoint": f"https://127.0.0.1:{port}", "ca": ca, "id": key["id"], "secret": key["secret"]}


def bucket_over_tls(tls, name: str):
    s3 = boto("s3", tls["endpoint"], tls["id"], tls["secret"], ca=tls["ca"])
    s3.create_bucket(Bucket=name)
    return s3


@pytest.mark.process
def test_rclone_with_a_customers_key(tls, tmp_path):
    s3 = bucket_over_tls(tls, "rclone")
    prefix = "RCLONE_CONFIG_UNDERTEST_"
    settings = {
        "TYPE": "s3", "PROVIDER": "Other", "ENDPOINT": tls["endpoint"], "REGION": "us-east-1",
        "ACCESS_KEY_ID": tls["id"], "SECRET_ACCESS_KEY": tls["secret"],
        "SSE_CUSTOMER_ALGORITHM": "AES256", "SSE_CUSTOMER_KEY": KEY.decode(),
    }  # fmt: skip
    env = {"RCLONE_CONFIG": "/dev/null", "RCLONE_CA_CERT": tls["ca"]}
    env |= {prefix + name: value for name, value in settings.items()}
    tree = tmp_path / "tree"
    tree.mkdir()
    for name, size in (("small", 10), ("block", MIB + 3), ("parts", 11 * MIB)):
        (tree / name).write_bytes(content(size, name))
    cutoff = ["--s3-upload-cutoff", "5M", "--s3-chunk-size", "5M"]
    run(["rclone", "copy", tree, "undertest:rclone", "--retries", "1", *cutoff], env)
    run(["rclone", "copy", "undertest:rclone", tmp_path / "back", "--retries", "1"], env)
    same_tree(tree, tmp_path / "back")
    refused(lambda: s3.get_object(Bucket="rclone", Key="small"), 400, "InvalidRequest")


@pytest.mark.process
def test_aws_cli_with_a_customers_key(tls, tmp_path):
    bucket_over_tls(tls, "cli")
    env = {
        "AWS_ACCESS_KEY_ID": tls["id"], "AWS_SECRET_ACCESS_KEY": tls["secret"],
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_CONFIG_FILE": "/dev/null", "AWS_CA_BUNDLE": tls["ca"],
    }  # fmt: skip
    (tmp_path / "key").write_bytes(os.urandom(32))
    (tmp_path / "file").write_bytes(content(9 * MIB, "cli"))
    cli = ["aws", "--endpoint-url", tls["endpoint"], "s3", "cp", "--no-progress"]
    given = ["--sse-c", "AES256", "--sse-c-key", f"fileb://{tmp_path}/key"]
    run([*cli, tmp_path / "file", "s3://cli/file", *given], env)
    run([*cli, "s3://cli/file", tmp_path / "back", *given], env)
    assert (tmp_path / "back").read_bytes() == (tmp_path / "file").read_bytes()


@pytest.mark.process
def test_disks_and_snapshots_hold_no_plain_text(tmp_path):
    demo = Demo(tmp_path / "data")
    server = demo.start()
    try:
        s3 = boto_of(server)
        s3.create_bucket(Bucket="secrets")
        marks = []
        for number, size in enumerate((200, 10_000, 70_000, 2 * MIB)):
            for how in (customer(), {"ServerSideEncryption": "AES256"}, {}):
                mark = f"<mark {number} {len(how)} {os.urandom(8).hex()}>".encode()
                # Nothing that would compress: the mark must be found where it is stored plainly.
                body = mark + os.urandom(size) + mark
                key = f"{number}-{len(how)}"
                s3.put_object(Bucket="secrets", Key=key, Body=body, **how)
                marks.append((mark, bool(how), key, how if len(how) == 2 else {}, body))
    finally:
        demo.stop()
    stored = b"".join(path.read_bytes() for path in Path(tmp_path / "data").rglob("*") if path.is_file())
    for mark, encrypted, *_ in marks:
        assert (mark in stored) != encrypted
    server = demo.start()
    try:
        s3 = boto_of(server)
        for _, _, key, how, body in marks:
            assert s3.get_object(Bucket="secrets", Key=key, **how)["Body"].read() == body
    finally:
        demo.stop()
