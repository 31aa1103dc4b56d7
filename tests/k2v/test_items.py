"""Single items: values, tokens, forms, refusals."""

from __future__ import annotations

import json

import pytest
from support import expect
from support.unchanged import unchanged

SK = [("sort_key", "s")]
JSON = [("Accept", "application/json")]
BINARY = [("Accept", "application/octet-stream")]


def refused(example, status: int, code: str, call, *args, **kwargs):
    with pytest.raises(example.K2VError) as error, unchanged():
        call(*args, **kwargs)
    assert (error.value.status, error.value.code) == (status, code)


def test_token_decides_what_is_replaced(k2v):
    assert k2v.read("p", "s") == ([], None)
    k2v.insert("p", "s", b"a")
    values, first = k2v.read("p", "s")
    assert values == [b"a"]
    k2v.insert("p", "s", b"b")
    values, both = k2v.read("p", "s")
    assert sorted(values) == [b"a", b"b"]
    k2v.insert("p", "s", b"c", first)
    values, _ = k2v.read("p", "s")
    assert sorted(values) == [b"b", b"c"]
    k2v.delete("p", "s", both)
    values, last = k2v.read("p", "s")
    assert values == [b"c", None], "the deletion had not seen c"
    k2v.insert("p", "s", b"d", last)
    assert k2v.read("p", "s")[0] == [b"d"]


def test_acknowledged_insert_is_covered_by_the_next_token(k2v):
    token = None
    for n in range(200):
        k2v.insert("p", "s", str(n).encode(), token)
        values, token = k2v.read("p", "s")
        assert values == [str(n).encode()]


def test_forms_of_an_item(k2v):
    k2v.insert("p", "s", b"\x00value")
    status, headers, body = k2v.send("GET", "p", SK)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert json.loads(body) == ["AHZhbHVl"]
    status, headers, body = k2v.send("GET", "p", SK, BINARY)
    assert (status, headers["Content-Type"], body) == (
        200,
        "application/octet-stream",
        b"\x00value",
    )
    assert headers["X-Garage-Causality-Token"]
    with unchanged():
        assert k2v.send("GET", "p", SK, [("Accept", "text/html")])[0] == 406
    k2v.insert("p", "s", b"other")
    status, headers, body = k2v.send("GET", "p", SK, BINARY)
    assert (status, body) == (409, b"") and headers["X-Garage-Causality-Token"]
    both = [("Accept", "application/octet-stream, application/json")]
    assert len(json.loads(k2v.send("GET", "p", SK, both)[2])) == 2
    k2v.delete("p", "s", k2v.read("p", "s")[1])
    assert k2v.send("GET", "p", SK, BINARY)[0] == 204
    assert json.loads(k2v.send("GET", "p", SK, JSON)[2]) == [None]


def test_wrong_tokens_are_refused(k2v, example, nothing_changes):
    k2v.insert("p", "s", b"a")
    token = k2v.read("p", "s")[1]
    wrong = token[:-1] + ("A" if token[-1] != "A" else "B")
    with nothing_changes():
        for bad in ("", "!", "AAAA", wrong, token + "A", token[:-4]):
            headers = [("X-Garage-Causality-Token", bad)]
            refused(example, 400, "InvalidRequest", k2v.call, "PUT", "p", SK, headers, b"x")
        refused(example, 400, "InvalidRequest", k2v.insert, "p", "t", b"x", token)
        refused(example, 400, "InvalidRequest", k2v.delete, "q", "s", token)
        refused(example, 400, "InvalidRequest", k2v.call, "DELETE", "p", SK)
    assert k2v.read("p", "s")[0] == [b"a"]


def test_requests_that_mean_nothing_are_refused(k2v, example):
    for args in [
        ("GET", "p"),
        ("GET", "p", [*SK, ("sort_keys", "t")]),
        ("GET", "p", [*SK, *SK]),
        ("GET", None, [("limit", "0")]),
        ("GET", None, [("limit", "many")]),
        ("GET", None, [("reverse", "yes")]),
    ]:
        refused(example, 400, "InvalidArgument", k2v.call, *args)
    refused(example, 405, "MethodNotAllowed", k2v.call, "POST", "p", SK)
    refused(example, 405, "MethodNotAllowed", k2v.call, "PUT", None)


def test_limits(k2v, example):
    k2v.insert("p" * 512, "s" * 512, b"x" * (256 << 10))
    assert k2v.read("p" * 512, "s" * 512)[0] == [b"x" * (256 << 10)]
    refused(example, 400, "InvalidArgument", k2v.insert, "p" * 513, "s", b"x")
    refused(example, 400, "InvalidArgument", k2v.insert, "p", "s" * 513, b"x")
    refused(example, 400, "InvalidArgument", k2v.insert, "p", "s\0", b"x")
    large = b"x" * ((256 << 10) + 1)
    refused(example, 400, "EntityTooLarge", k2v.insert, "p", "s", large)
    refused(example, 400, "EntityTooLarge", k2v.insert_batch, [{"pk": "p", "sk": "s", "v": large}])
    for n in range(2):
        k2v.insert("p", "s", bytes([n]) * (200 << 10))
    refused(example, 400, "InvalidRequest", k2v.insert, "p", "s", b"y" * (200 << 10))
    token = k2v.read("p", "s")[1]
    k2v.insert("p", "s", b"y" * (200 << 10), token)
    assert k2v.read("p", "s")[0] == [b"y" * (200 << 10)]


def test_signature_and_permissions(k2v, example, server):
    k2v.insert("p", "s", b"a")
    wrong = example.K2V(server.k2v, k2v.bucket, server.access_key, "wrong", server.region)
    refused(example, 403, "SignatureDoesNotMatch", wrong.read, "p", "s")
    unknown = example.K2V(server.k2v, k2v.bucket, "AK" + "0" * 18, "wrong", server.region)
    refused(example, 403, "InvalidAccessKeyId", unknown.read, "p", "s")
    # The S3 endpoint wants signatures for S3.
    s3 = example.K2V(server.endpoint, k2v.bucket, server.access_key, server.secret_key, server.region)
    with unchanged():
        status, _, _ = s3.send("GET", "p", SK)
    assert status == 400
    missing = example.K2V(
        server.k2v, "no-such-bucket", server.access_key, server.secret_key, server.region
    )
    refused(example, 404, "NoSuchBucket", missing.read, "p", "s")


def test_items_and_objects_do_not_meet(k2v, s3, nothing_changes):
    bucket = k2v.bucket
    k2v.insert("key", "s", b"item")
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    with expect.refused(404, "NoSuchKey"):
        s3.get_object(Bucket=bucket, Key="key")
    with nothing_changes(), expect.refused(409, "BucketNotEmpty"):
        s3.delete_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="other", Body=b"object")
    assert [key["pk"] for key in k2v.index()["partitionKeys"]] == ["key"]
    s3.delete_object(Bucket=bucket, Key="other")
    k2v.delete("key", "s", k2v.read("key", "s")[1])
    s3.delete_bucket(Bucket=bucket)
