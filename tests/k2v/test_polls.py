"""Polls of items and ranges; the example."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.server import wait_until
from support.unchanged import Admin, unchanged


def waiting(server) -> float:
    """The polls that wait."""
    return Admin(server.nodes[0]["admin"]).metric("archipel_k2v_polls")


def once_polled(server, call, *args) -> threading.Thread:
    """Calls this in a thread of its own as soon as a poll waits."""

    def wait_and_call() -> None:
        assert wait_until(lambda: waiting(server) > 0)
        call(*args)

    thread = threading.Thread(target=wait_and_call)
    thread.start()
    return thread


def test_poll_item(k2v, server):
    k2v.insert("p", "s", b"1")
    _, token = k2v.read("p", "s")
    began = time.monotonic()
    assert k2v.poll("p", "s", token, 1) is None
    assert 0.9 < time.monotonic() - began < 3
    other = once_polled(server, k2v.insert, "p", "s", b"2", token)
    began = time.monotonic()
    values, second = k2v.poll("p", "s", token, 60)
    assert values == [b"2"] and time.monotonic() - began < 5
    other.join()
    # A change that has happened already is there at once; so is a deletion.
    assert k2v.poll("p", "s", token, 60)[0] == [b"2"]
    k2v.delete("p", "s", second)
    assert k2v.poll("p", "s", second, 60)[0] == [None]


def test_poll_range(k2v, server):
    k2v.insert("p", "a", b"1")
    first = k2v.poll_range("p")
    assert [item["sk"] for item in first["items"]] == ["a"]
    marker = first["seenMarker"]
    assert k2v.poll_range("p", seenMarker=marker, timeout=1) is None
    other = once_polled(server, k2v.insert, "p", "b", b"2")
    polled = k2v.poll_range("p", seenMarker=marker, timeout=60)
    other.join()
    assert [(item["sk"], item["v"]) for item in polled["items"]] == [("b", [b"2"])]
    k2v.delete("p", "a", first["items"][0]["ct"])
    # A marker serves for a part of its range, too.
    assert k2v.poll_range("p", prefix="b", seenMarker=polled["seenMarker"], timeout=1) is None
    polled = k2v.poll_range("p", seenMarker=polled["seenMarker"], timeout=60)
    assert [(item["sk"], item["v"]) for item in polled["items"]] == [("a", [None])]
    assert k2v.poll_range("empty")["items"] == []


def test_poll_may_ask_for_longer_than_it_waits(k2v):
    k2v.insert("p", "s", b"1")
    _, token = k2v.read("p", "s")
    marker = k2v.poll_range("p")["seenMarker"]
    k2v.insert("p", "s", b"2", token)
    assert k2v.poll("p", "s", token, 3600)[0] == [b"2"]
    assert k2v.poll_range("p", seenMarker=marker, timeout=3600)["items"][0]["v"] == [b"2"]


def test_refused_polls(k2v, example):
    k2v.insert("p", "s", b"1")
    _, token = k2v.read("p", "s")
    marker = k2v.poll_range("p")["seenMarker"]
    for call in [
        lambda: k2v.poll("p", "t", token, 1),
        lambda: k2v.poll("p", "s", "wrong", 1),
        lambda: k2v.poll_range("q", seenMarker=marker, timeout=1),
        lambda: k2v.poll_range("p", seenMarker="AAAA", timeout=1),
    ]:
        with pytest.raises(example.K2VError) as error, unchanged():
            call()
        assert error.value.status == 400


def test_polls_end_with_their_bucket(k2v, server, s3, example):
    k2v.insert("p", "s", b"1")
    k2v.delete("p", "s", k2v.read("p", "s")[1])
    _, token = k2v.read("p", "s")
    marker = k2v.poll_range("p")["seenMarker"]
    with ThreadPoolExecutor(2) as pool:
        polls = [
            pool.submit(k2v.poll, "p", "s", token, 60),
            pool.submit(k2v.poll_range, "p", seenMarker=marker, timeout=60),
        ]
        assert wait_until(lambda: waiting(server) == 2)
        s3.delete_bucket(Bucket=k2v.bucket)
        began = time.monotonic()
        for poll in polls:
            with pytest.raises(example.K2VError) as error:
                poll.result()
            assert (error.value.status, error.value.code) == (404, "NoSuchBucket")
        assert time.monotonic() - began < 10


def test_many_polls_wake_together(k2v, server):
    k2v.insert("p", "s", b"1")
    _, token = k2v.read("p", "s")
    with ThreadPoolExecutor(100) as pool:
        polls = [pool.submit(k2v.poll, "p", "s", token, 60) for _ in range(100)]
        assert wait_until(lambda: waiting(server) == 100)
        assert not any(poll.done() for poll in polls)
        k2v.insert("p", "s", b"2", token)
        began = time.monotonic()
        assert all(poll.result()[0] == [b"2"] for poll in polls)
        assert time.monotonic() - began < 5


def test_concurrent_clients_lose_nothing(k2v):
    """Each of several clients adds its own marks to one set; conflicts are merged by readers."""

    def add(client: int) -> None:
        for n in range(20):
            values, token = k2v.read("p", "set")
            merged = {mark for value in values if value for mark in value.split()}
            merged.add(f"{client}.{n}".encode())
            k2v.insert("p", "set", b" ".join(sorted(merged)), token)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(add, range(6)))
    values, _ = k2v.read("p", "set")
    marks = {mark for value in values for mark in value.split()}
    assert marks == {f"{client}.{n}".encode() for client in range(6) for n in range(20)}


def test_example(k2v, example):
    inbox = example.Mailbox(k2v, "INBOX")
    assert inbox.watch() == []
    inbox.deliver(1, b"Hello")
    assert inbox.watch(60) == ["00000000000000000001"]
    assert inbox.mails() == [b"Hello"]
    counters = [example.Counter(k2v, "visits", name) for name in ("paris", "tokyo")]
    for n in range(3):
        for counter in counters:
            counter.add(n)
    assert counters[0].total() == 6
