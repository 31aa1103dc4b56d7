"""Batches, ranges and the index."""

from __future__ import annotations

import pytest
from support.unchanged import unchanged


def fill(k2v, pk: str, count: int) -> None:
    items = [{"pk": pk, "sk": f"{n:04}", "ct": None, "v": f"v{n}".encode()} for n in range(count)]
    k2v.insert_batch(items)


def sks(page: dict) -> list[str]:
    return [item["sk"] for item in page["items"]]


def test_batch_read_and_insert(k2v):
    fill(k2v, "p", 30)
    fill(k2v, "q", 3)
    searches = [
        {"partitionKey": "p", "limit": 4},
        {"partitionKey": "p", "start": "0010", "end": "0013"},
        {"partitionKey": "p", "prefix": "002", "reverse": True, "limit": 3},
        {"partitionKey": "p", "start": "0005", "singleItem": True},
        {"partitionKey": "p", "start": "none", "singleItem": True},
        {"partitionKey": "q"},
    ]
    pages = k2v.read_batch(searches)
    assert [sks(page) for page in pages] == [
        ["0000", "0001", "0002", "0003"],
        ["0010", "0011", "0012"],
        ["0029", "0028", "0027"],
        ["0005"],
        [],
        ["0000", "0001", "0002"],
    ]
    ends = [(page["more"], page["nextStart"]) for page in pages]
    none = (False, None)
    assert ends == [(True, "0004"), none, (True, "0026"), none, none, none]
    assert pages[0]["items"][1]["v"] == [b"v1"]
    for search, page in zip(searches, pages):
        assert {name: page[name] for name in search} == search
    token = pages[3]["items"][0]["ct"]
    k2v.insert_batch(
        [
            {"pk": "p", "sk": "0005", "ct": token, "v": b"new"},
            {"pk": "p", "sk": "0006", "ct": None, "v": b"beside"},
            {"pk": "p", "sk": "0007", "ct": k2v.read("p", "0007")[1], "v": None},
            # Several inserts into one item happen in their order.
            {"pk": "r", "sk": "s", "ct": None, "v": b"1"},
            {"pk": "r", "sk": "s", "ct": None, "v": b"2"},
        ]
    )
    assert k2v.read("p", "0005")[0] == [b"new"]
    [conflicts, all_, live] = k2v.read_batch(
        [
            {"partitionKey": "p", "conflictsOnly": True},
            {"partitionKey": "p", "start": "0006", "end": "0009", "tombstones": True},
            {"partitionKey": "p", "start": "0006", "end": "0009"},
        ]
    )
    assert sks(conflicts) == ["0006"]
    assert [(i["sk"], i["v"]) for i in all_["items"]] == [
        ("0006", [b"v6", b"beside"]),
        ("0007", [None]),
        ("0008", [b"v8"]),
    ]
    assert sks(live) == ["0006", "0008"]
    assert k2v.read("r", "s")[0] == [b"1", b"2"]


def test_batch_read_of_many_items_and_ranges(k2v):
    fill(k2v, "p", 300)
    singles = [{"partitionKey": "p", "start": f"{n:04}", "singleItem": True} for n in range(0, 300, 2)]
    ranges = [{"partitionKey": "p", "start": f"{n:04}", "limit": 1} for n in range(1, 300, 2)]
    searches = [search for pair in zip(singles, ranges) for search in pair]
    pages = k2v.read_batch(searches)
    assert [sks(page) for page in pages] == [[f"{n:04}"] for n in range(300)]
    assert [page["items"][0]["v"] for page in pages] == [[f"v{n}".encode()] for n in range(300)]


def test_index_counts_exactly(k2v):
    fill(k2v, "p", 30)
    fill(k2v, "q", 3)
    k2v.insert("q", "0001", b"beside")
    k2v.delete("p", "0003", k2v.read("p", "0003")[1])
    index = k2v.index()
    assert index["partitionKeys"] == [
        {"pk": "p", "entries": 29, "conflicts": 0, "values": 29, "bytes": 10 * 2 + 20 * 3 - 2},
        {"pk": "q", "entries": 3, "conflicts": 1, "values": 4, "bytes": 12},
    ]
    assert (index["more"], index["nextStart"]) == (False, None)
    first = k2v.index(limit="1")
    assert [key["pk"] for key in first["partitionKeys"]] == ["p"]
    assert (first["more"], first["nextStart"]) == (True, "q")
    last = k2v.index(limit="1", reverse="true")
    assert [key["pk"] for key in last["partitionKeys"]] == ["q"]
    assert (last["more"], last["nextStart"]) == (True, "p")
    assert [key["pk"] for key in k2v.index(prefix="q")["partitionKeys"]] == ["q"]
    assert [key["pk"] for key in k2v.index(start="p", end="q")["partitionKeys"]] == ["p"]


def test_delete_batch(k2v):
    fill(k2v, "p", 30)
    fill(k2v, "q", 3)
    deleted = k2v.delete_batch(
        [
            {"partitionKey": "q"},
            {"partitionKey": "p", "start": "0010", "end": "0020"},
            {"partitionKey": "p", "start": "0001", "singleItem": True},
            {"partitionKey": "p", "start": "0001", "singleItem": True},
        ]
    )
    assert [one["deletedItems"] for one in deleted] == [3, 10, 1, 0]
    assert [key["pk"] for key in k2v.index()["partitionKeys"]] == ["p"]
    assert k2v.index()["partitionKeys"][0]["entries"] == 19
    assert k2v.read("p", "0010")[0] == [None]


@pytest.mark.parametrize(
    "query, body",
    [
        ([], b"{}"),
        ([], b"[{"),
        ([], b'[{"pk": "p", "sk": "s", "ct": null, "v": "not base64"}]'),
        ([], b'[{"pk": "p", "sk": "s", "ct": "wrong", "v": "AAAA"}]'),
        ([], b'[{"pk": "p", "sk": "s", "v": "AAAA", "ttl": 3}]'),
        ([], b'[{"pk": "p", "sk": "s", "v": "AAAA"}, {"pk": "", "sk": "s", "v": "AAAA"}]'),
        ([("search", "")], b'[{"partitionKey": "p", "singleItem": true}]'),
        ([("search", "")], b'[{"partitionKey": "p", "filter": "x"}]'),
        ([("delete", "")], b'[{"partitionKey": "p", "limit": 3}]'),
    ],
)
def test_bad_documents_change_nothing(k2v, query, body):
    with unchanged():
        assert k2v.send("POST", None, query, (), body)[0] == 400
    assert k2v.index()["partitionKeys"] == []
