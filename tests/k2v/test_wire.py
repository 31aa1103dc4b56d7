"""The wire format: what a client may send, and the form of the answers."""

from __future__ import annotations

import json

import pytest
from support.client import Client
from support.unchanged import unchanged

TOKEN = "X-Garage-Causality-Token"
SK = [("sort_key", "s")]
BINARY = [("Accept", "application/octet-stream")]
NAMES = ["a b", "mailbox:INBOX", "a/b//c", "a%20b", "+", "ü@é", "..", "/a/", "?#&=%"]


@pytest.mark.parametrize("name", NAMES)
def test_names_may_have_any_characters(k2v, name):
    k2v.insert(name, name, b"1")
    values, token = k2v.read(name, name)
    assert values == [b"1"]
    assert [key["pk"] for key in k2v.index(prefix=name)["partitionKeys"]] == [name]
    [page] = k2v.read_batch([{"partitionKey": name, "start": name, "singleItem": True}])
    assert (page["items"][0]["sk"], page["items"][0]["ct"]) == (name, token)
    k2v.delete(name, name, token)


def test_equal_concurrent_values_are_one(k2v):
    for value in (b"1", b"1", b"2"):
        k2v.insert("p", "s", value)
    values, token = k2v.read("p", "s")
    assert values == [b"1", b"2"]
    for _ in range(2):
        k2v.delete("p", "s", token)
    status, headers, body = k2v.send("GET", "p", SK, BINARY)
    assert (status, body) == (204, b"") and headers[TOKEN], "two deletions are one tombstone"


def test_empty_value_is_a_value(k2v):
    k2v.insert("p", "s", b"")
    assert k2v.read("p", "s")[0] == [b""]
    status, headers, body = k2v.send("GET", "p", SK, BINARY)
    assert (status, body) == (200, b"") and headers["Content-Type"] == "application/octet-stream"
    assert [item["v"] for item in k2v.read_batch([{"partitionKey": "p"}])[0]["items"]] == [[b""]]


def test_value_beside_a_deletion_is_a_conflict(k2v):
    k2v.insert("p", "s", b"1")
    first = k2v.read("p", "s")[1]
    k2v.insert("p", "s", b"2")
    k2v.delete("p", "s", first)
    assert json.loads(k2v.send("GET", "p", SK)[2]) == ["Mg==", None]
    assert k2v.send("GET", "p", SK, BINARY)[0] == 409
    [page] = k2v.read_batch([{"partitionKey": "p", "conflictsOnly": True}])
    assert [item["v"] for item in page["items"]] == [[b"2", None]]


def test_error_is_a_document(k2v):
    status, headers, body = k2v.send("GET", "none", SK)
    assert (status, headers["Content-Type"]) == (404, "application/json")
    error = json.loads(body)
    assert (error["code"], error["region"]) == ("NoSuchKey", k2v.region)
    assert error["path"] == f"/{k2v.bucket}/none" and error["message"]
    assert error["requestId"] == headers["x-amz-request-id"]


@pytest.mark.parametrize(
    "header, value, status, code",
    [
        ("x-amz-expected-bucket-owner", "000000000000", 204, None),
        ("x-amz-expected-bucket-owner", "123456789012", 403, "AccessDenied"),
        ("x-amz-expected-bucket-owner", "nobody", 400, "InvalidBucketOwnerAWSAccountID"),
        ("x-amz-acl", "private", 501, "NotImplemented"),
        ("x-amz-meta-a", "b", 501, "NotImplemented"),
        ("x-amz-server-side-encryption", "AES256", 501, "NotImplemented"),
        ("x-amz-tagging", "a=b", 501, "NotImplemented"),
    ],
)
def test_headers_count_or_are_refused(k2v, server, credentials, header, value, status, code):
    client = Client(server.k2v, credentials)

    def put():
        path = f"/{k2v.bucket}/p"
        return client.request("PUT", path, SK, [(header, value)], b"1", service="k2v")

    if code is None:
        assert put().status == status
        assert k2v.read("p", "s")[0] == [b"1"]
        return
    with unchanged():
        answer = put()
    assert (answer.status, json.loads(answer.body)["code"]) == (status, code), answer.brief()


def test_wrong_method_is_answered_with_those_that_are_allowed(k2v):
    status, headers, _ = k2v.send("POST", "p", SK)
    assert (status, headers["Allow"]) == (405, "GET, PUT, DELETE")
    status, headers, _ = k2v.send("PUT")
    assert (status, headers["Allow"]) == (405, "GET, POST, SEARCH")


def test_poll_that_nothing_changes_has_no_body(k2v):
    k2v.insert("p", "s", b"1")
    token = k2v.read("p", "s")[1]
    query = [*SK, ("causality_token", token), ("timeout", "0")]
    status, headers, body = k2v.send("GET", "p", query)
    assert (status, body) == (304, b"") and headers["Content-Type"] is None
    assert k2v.send("GET", "p", query, [("Accept", "text/html")])[0] == 406


def test_answers_repeat_what_was_asked(k2v):
    k2v.insert("p", "s", b"1")
    asked = {"partitionKey": "p", "prefix": None, "start": "s", "end": None}
    search = {"limit": None, "reverse": False, "conflictsOnly": False, "tombstones": False}
    for method, query in [("POST", [("search", "")]), ("SEARCH", []), ("SEARCH", [("search", "")])]:
        body = json.dumps([{"partitionKey": "p", "start": "s"}]).encode()
        status, headers, body = k2v.send(method, None, query, (), body)
        assert (status, headers["Content-Type"]) == (200, "application/json")
        [page] = json.loads(body)
        items = page.pop("items")
        assert [sorted(item) for item in items] == [["ct", "sk", "v"]]
        ends = {"more": False, "nextStart": None}
        assert page == {**asked, **search, "singleItem": False, **ends}
    [deleted] = k2v.delete_batch([{"partitionKey": "p", "start": "s", "singleItem": True}])
    assert deleted == {**asked, "singleItem": True, "deletedItems": 1}
    index = k2v.index(prefix="x", limit="5", reverse="true")
    assert index.pop("partitionKeys") == []
    asked = {"prefix": "x", "start": None, "end": None, "limit": 5, "reverse": True}
    assert index == {**asked, "more": False, "nextStart": None}


@pytest.mark.parametrize(
    "search, found, following",
    [
        ({"start": "b1", "end": "b1"}, "", None),
        ({"start": "a2", "end": "b2", "limit": 2}, "a2 b1", None),
        ({"start": "a2", "end": "b3", "limit": 2}, "a2 b1", "b2"),
        ({"prefix": "b", "start": "a"}, "b1 b2 b3", None),
        ({"prefix": "b", "start": "b2"}, "b2 b3", None),
        ({"prefix": "b", "start": "c"}, "", None),
        ({"prefix": "b", "end": "b2"}, "b1", None),
        ({"prefix": "", "start": "", "limit": 1}, "a1", "a2"),
        ({"reverse": True, "limit": 2}, "c1 b3", "b2"),
        ({"reverse": True, "start": "b2", "end": "a1"}, "b2 b1 a2", None),
        ({"reverse": True, "start": "a2", "end": "b2"}, "", None),
        ({"reverse": True, "start": "b3", "end": "b1", "limit": 2}, "b3 b2", None),
        ({"reverse": True, "prefix": "b", "start": "c", "limit": 2}, "b3 b2", "b1"),
        ({"reverse": True, "prefix": "a", "limit": 2}, "a2 a1", None),
    ],
)
def test_ranges_of_items_and_of_partition_keys(k2v, search, found, following):
    names = ["a1", "a2", "b1", "b2", "b3", "c1"]
    items = [("p", name) for name in names] + [(name, "s") for name in names]
    k2v.insert_batch([{"pk": pk, "sk": sk, "ct": None, "v": b"v"} for pk, sk in items])
    [page] = k2v.read_batch([{"partitionKey": "p", **search}])
    assert [item["sk"] for item in page["items"]] == found.split()
    assert (page["more"], page["nextStart"]) == (following is not None, following)
    # The partition key "p" comes after all others: the ranges are below it.
    query = {name: str(value).lower() for name, value in search.items()}
    if search.get("reverse"):
        query.setdefault("start", "o")
    index = k2v.index(**query)
    assert [key["pk"] for key in index["partitionKeys"]] == found.split()
    assert (index["more"], index["nextStart"]) == (following is not None, following)


def test_range_may_be_polled_with_both_methods(k2v):
    k2v.insert("p", "b1", b"1")
    for method in ("POST", "SEARCH"):
        status, _, body = k2v.send(method, "p", [("poll_range", "")], (), b'{"prefix": "b"}')
        polled = json.loads(body)
        assert status == 200 and sorted(polled) == ["items", "seenMarker"]
        assert [item["sk"] for item in polled["items"]] == ["b1"]
        asked = {"start": "b1", "prefix": "b", "timeout": 0, "seenMarker": polled["seenMarker"]}
        asked = json.dumps(asked).encode()
        status, _, body = k2v.send(method, "p", [("poll_range", "")], (), asked)
        assert (status, body) == (304, b""), "a part of the range that the marker is for"
