"""Presigned URLs and forms of signature version 2, as boto3 and the AWS CLI make them by default for us-east-1."""

import base64
import hashlib
import hmac
import http.client
import json
import urllib.request
from urllib.parse import urlsplit

import boto3
import pytest
from s3.test_post_object import policy, send
from support.boto import boto_of
from support.expect import absent, answer, holds
from support.tools import run
from support.unchanged import unchanged

pytestmark = pytest.mark.process


@pytest.fixture
def plain(server):
    """boto3 as it comes."""
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name=server.region,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
    )


def fetch(method, url, body=None, headers=()):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    connection.request(method, f"{parts.path}?{parts.query}", body=body, headers=dict(headers))
    reply = connection.getresponse()
    content = reply.read()
    connection.close()
    return reply.status, content, reply


def forbidden(*request):
    """It is refused, and changes nothing."""
    with unchanged():
        assert fetch(*request)[0] == 403


def test_urls_of_boto3(plain, s3, bucket):
    url = plain.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "a +ü/b"})
    assert "AWSAccessKeyId=" in url and "Signature=" in url
    assert fetch("PUT", url, b"written")[0] == 200
    holds(s3, bucket, "a +ü/b", b"written")
    url = plain.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a +ü/b"})
    assert fetch("GET", url)[:2] == (200, b"written")
    forbidden("PUT", url, b"other")
    forbidden("GET", url.replace("b?", "c?"))
    url = plain.generate_presigned_url("head_object", {"Bucket": bucket, "Key": "a +ü/b"})
    assert fetch("HEAD", url)[0] == 200
    holds(s3, bucket, "a +ü/b", b"written")


def test_headers_and_overrides_are_covered(plain, s3, bucket):
    arguments = {"Bucket": bucket, "Key": "k", "ContentType": "text/plain", "Metadata": {"a": "1"}}
    url = plain.generate_presigned_url("put_object", arguments)
    assert fetch("PUT", url, b"x", {"Content-Type": "text/plain"})[0] == 200
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["ContentType"], head["Metadata"]) == ("text/plain", {"a": "1"})
    forbidden("PUT", url, b"y", {"Content-Type": "text/html"})
    forbidden("PUT", url.replace("x-amz-meta-a=1", "x-amz-meta-a=2"), b"y", {"Content-Type": "text/plain"})
    arguments = {"Bucket": bucket, "Key": "k", "ResponseContentType": "text/x"}
    url = plain.generate_presigned_url("get_object", arguments)
    status, content, reply = fetch("GET", url)
    assert (status, content, reply.headers["Content-Type"]) == (200, b"x", "text/x")
    forbidden("GET", url.replace("text%2Fx", "text%2Fhtml"))
    forbidden("GET", url + "&partNumber=1")


def test_parameters_of_the_sdk_for_javascript(plain, s3, bucket):
    """Version 2 of that SDK repeats all headers in the query, and is the default for us-east-1."""
    headers = {"Content-Type": "text/plain", "Cache-Control": "no-cache"}
    url = plain.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "k", "ContentType": "text/plain"})
    url = url.replace("content-type=", "Content-Type=") + "&Cache-Control=no-cache"
    forbidden("PUT", url, b"x", {"Content-Type": "text/plain"})
    absent(s3, bucket, "k")
    assert fetch("PUT", url, b"x", headers)[0] == 200
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["ContentType"], head["CacheControl"]) == ("text/plain", "no-cache")


def test_expired(plain, bucket):
    url = plain.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k"}, ExpiresIn=-5)
    with unchanged():
        status, content, _ = fetch("GET", url)
    assert status == 403 and b"Request has expired" in content


def test_virtual_host_style(server, s3, bucket):
    endpoint = server.endpoint.replace("127.0.0.1", "localhost")
    client = boto_of(server, endpoint, style="virtual", signature_version=None)
    s3.put_object(Bucket=bucket, Key="k", Body=b"virtual")
    url = client.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k"})
    host = urlsplit(url).netloc
    assert host.startswith(bucket)
    local = url.replace(host, f"127.0.0.1:{urlsplit(url).port}")
    assert fetch("GET", local, headers={"Host": host})[:2] == (200, b"virtual")


def test_aws_cli(aws_env, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a b", Body=b"signed")
    env = aws_env | {"AWS_CONFIG_FILE": "/dev/null"}
    url = run(["aws", "s3", "presign", f"s3://{bucket}/a b"], env).stdout.decode().strip()
    assert urllib.request.urlopen(url).read() == b"signed"


def form(credentials, bucket, key="k"):
    encoded = policy([{"bucket": bucket}, {"key": key}])
    mac = hmac.new(credentials.secret_key.encode(), encoded.encode(), hashlib.sha1).digest()
    signature = base64.b64encode(mac).decode()
    return [("key", key), ("AWSAccessKeyId", credentials.access_key), ("policy", encoded), ("signature", signature)]


def test_forms(raw, s3, bucket, credentials):
    fields = form(credentials, bucket)
    answer(send(raw, bucket, fields, b"by form"), 204)
    holds(s3, bucket, "k", b"by form")
    forged = [(n, "AAAA" if n == "signature" else v) for n, v in form(credentials, bucket, "forged")]
    with unchanged():
        answer(send(raw, bucket, forged), 403, "SignatureDoesNotMatch")
    absent(s3, bucket, "forged")


def test_post_of_boto3(plain, raw, s3, bucket):
    made = plain.generate_presigned_post(bucket, "k", Fields={"acl": "private"}, Conditions=[{"acl": "private"}])
    assert "AWSAccessKeyId" in made["fields"]
    answer(send(raw, bucket, list(made["fields"].items()), b"posted"), 204)
    holds(s3, bucket, "k", b"posted")


def test_policy_can_refuse_it(plain, s3, bucket):
    """s3:signatureversion tells the version."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    url = plain.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k"})
    statement = {
        "Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": f"arn:aws:s3:::{bucket}/*",
        "Condition": {"StringEquals": {"s3:signatureversion": "AWS"}},
    }  # fmt: skip
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Statement": [statement]}))
    forbidden("GET", url)
    holds(s3, bucket, "k", b"x")


def test_the_age_of_a_signature_is_always_0(plain, raw, s3, bucket, credentials):
    """So a policy that limits it allows URLs and forms, although they do not say when they were signed."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    url = plain.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k"})

    def deny(operator: str, value: str):
        statement = {
            "Effect": "Deny", "Principal": "*", "Action": ["s3:GetObject", "s3:PutObject"],
            "Resource": f"arn:aws:s3:::{bucket}/*", "Condition": {operator: {"s3:signatureAge": value}},
        }  # fmt: skip
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Statement": [statement]}))

    for allowing in [("Null", "true"), ("NumericGreaterThan", "0")]:
        deny(*allowing)
        assert fetch("GET", url)[:2] == (200, b"x"), allowing
        answer(send(raw, bucket, form(credentials, bucket), b"x"), 204)
    deny("NumericEquals", "0")
    forbidden("GET", url)
    with unchanged():
        answer(send(raw, bucket, form(credentials, bucket), b"other"), 403, "AccessDenied")
    s3.delete_bucket_policy(Bucket=bucket)
    holds(s3, bucket, "k", b"x")
