"""The rules of shared uploads, buckets, versions and K2V items: each is broken once by hand, and seen."""

from __future__ import annotations

import pytest
from faults import buckets, items, versions
from faults.checker import check
from faults.history import ABORT, ABSENT, COMPLETE, FAILED, LOOK, NEVER, OK, READ, UNKNOWN, WRITE, Ending, History, ItemOperation, Operation
from faults.workload import Worker, Workload
from support.sigv4 import Credentials
from support.wire import Response


def end(kind, called, answered, outcome=OK):
    return Ending(kind, "k", "u", "tag", called, NEVER if outcome == UNKNOWN else answered, outcome)


def read(found, called, answered):
    return Operation(READ, "k", called, answered, OK, found=found)


def write(value, called, answered):
    return Operation(WRITE, "k", called, answered, OK, value)


def insert(value, called, answered, replaced=(), outcome=OK):
    answered = NEVER if outcome == UNKNOWN else answered
    return ItemOperation(items.INSERT, "p:s", value, list(replaced), [], called, answered, outcome)


def remove(called, answered, replaced, outcome=OK):
    return ItemOperation(items.REMOVE, "p:s", None, list(replaced), [], called, NEVER if outcome == UNKNOWN else answered, outcome)


def see(called, answered, *found):
    return ItemOperation(items.SEE, "p:s", None, [], list(found), called, answered, OK)


def problems(endings=(), operations=(), things=()) -> list[str]:
    history = History()
    history.endings, history.operations, history.items = list(endings), list(operations), list(things)
    return check(history).violations


FINE = {
    "completed twice, overwritten between": ([end(COMPLETE, 0, 1), end(COMPLETE, 4, 5)], [write("b", 2, 3), read("b", 6, 7)]),
    "completed, then gone": ([end(COMPLETE, 0, 1), end(LOOK, 2, 3, FAILED)], [read("tag", 4, 5)]),
    "completed, and an abort that came late": ([end(COMPLETE, 0, 1), end(ABORT, 2, 3, FAILED)], [read("tag", 4, 5)]),
    "aborted": ([end(ABORT, 0, 1), end(COMPLETE, 2, 3, FAILED)], [read(ABSENT, 4, 5)]),
    "an unknown completion that took effect": ([end(COMPLETE, 0, 0, UNKNOWN), end(LOOK, 8, 9, FAILED)], [read("tag", 10, 11)]),
    "an unknown completion that did not": ([end(COMPLETE, 0, 0, UNKNOWN), end(ABORT, 2, 3)], [read(ABSENT, 4, 5)]),
    "it goes on while nobody has ended it": ([end(LOOK, 0, 1), end(COMPLETE, 0, 3)], [read("tag", 4, 5)]),
}
BROKEN = {
    "completed and aborted": ([end(COMPLETE, 0, 3), end(ABORT, 1, 4)], []),
    "goes on after its end": ([end(ABORT, 0, 1), end(LOOK, 2, 3)], []),
    "ended by nobody": ([end(LOOK, 0, 1, FAILED), end(COMPLETE, 4, 5)], []),
    "ended by nobody before an unknown abort": ([end(COMPLETE, 0, 1, FAILED), end(ABORT, 4, 5, UNKNOWN)], []),
    "a completion that is lost": ([end(COMPLETE, 0, 1)], [read(ABSENT, 2, 3)]),
    "a second completion that took effect": ([end(COMPLETE, 0, 1), end(COMPLETE, 4, 5)], [write("b", 2, 3), read("tag", 6, 7)]),
    "an aborted upload that appears": ([end(ABORT, 0, 1), end(COMPLETE, 2, 3, FAILED)], [read("tag", 4, 5)]),
}


@pytest.mark.parametrize("name", FINE)
def test_uploads_that_end_as_they_may(name):
    assert problems(*FINE[name]) == []


@pytest.mark.parametrize("name", BROKEN)
def test_uploads_that_end_as_they_must_not(name):
    assert len(problems(*BROKEN[name])) == 1


FINE_ITEMS = {
    "two without tokens": [insert("a", 0, 1), insert("b", 2, 3), see(4, 5, "a", "b")],
    "one upon what it saw": [insert("a", 0, 1), see(2, 3, "a"), insert("b", 4, 5, ["a"]), see(6, 7, "b")],
    "during the replacement either": [insert("a", 0, 1), insert("b", 2, 9, ["a"]), see(3, 4, "a"), see(5, 6, "b")],
    "a removal of unknown outcome": [insert("a", 0, 1), remove(2, 0, ["a"], UNKNOWN), see(3, 4, "a"), see(5, 6)],
    "an insertion of unknown outcome": [insert("a", 0, 0, outcome=UNKNOWN), see(1, 2), see(3, 4, "a")],
}
BROKEN_ITEMS = {
    "an acknowledged value is lost": [insert("a", 0, 1), see(2, 3)],
    "a value without a token replaces another": [insert("a", 0, 1), insert("b", 2, 3), see(4, 5, "b")],
    "what was replaced is back": [insert("a", 0, 1), insert("b", 2, 3, ["a"]), see(4, 5, "a", "b")],
    "what was removed is back": [insert("a", 0, 1), remove(2, 3, ["a"]), see(4, 5, "a")],
    "gone, and there again": [insert("a", 0, 1), remove(2, 0, ["a"], UNKNOWN), see(3, 4), see(5, 6, "a")],
    "seen, and lost": [insert("a", 0, 0, outcome=UNKNOWN), see(1, 2, "a"), see(3, 4)],
    "nobody inserted it": [see(0, 1, "a")],
    "seen before it was inserted": [see(0, 1, "a"), insert("a", 2, 3), see(4, 5, "a")],
}


@pytest.mark.parametrize("name", FINE_ITEMS)
def test_items_as_they_may_be(name):
    assert problems(things=FINE_ITEMS[name]) == []


@pytest.mark.parametrize("name", BROKEN_ITEMS)
def test_items_as_they_must_not_be(name):
    assert len(problems(things=BROKEN_ITEMS[name])) == 1


class Scripted(Worker):
    """A worker to whom each request is answered as the test says."""

    def __init__(self, *replies: Response | None):
        super().__init__(Workload(["http://127.0.0.1:1"], Credentials("k", "s"), "main"), "c0", 1)
        self.replies = list(replies)

    def request(self, *_, **__):
        return self.replies.pop(0)


def test_a_bucket_is_deleted_only_where_no_object_is():
    worker = Scripted(Response(200, {}, b""), Response(204, {}, b""))
    worker.put(0, "B/b/0", WRITE)
    buckets.unmake(worker, 0, "b")
    assert len(check(worker.load.history).violations) == 1
    # Not if it was refused, and not if the object was deleted before.
    worker = Scripted(Response(200, {}, b""), Response(409, {}, b""))
    worker.put(0, "B/b/0", WRITE)
    buckets.unmake(worker, 0, "b")
    assert check(worker.load.history).good()
    worker = Scripted(Response(200, {}, b""), Response(204, {}, b""), Response(204, {}, b""))
    worker.put(0, "B/b/0", WRITE)
    worker.delete(0, "B/b/0")
    buckets.unmake(worker, 0, "b")
    assert check(worker.load.history).good()


def test_an_object_does_not_outlive_its_bucket():
    gone = Response(404, {}, b"<Error><Code>NoSuchBucket</Code></Error>")
    worker = Scripted(Response(200, {}, b""), gone)
    worker.put(0, "B/b/0", WRITE)
    # While buckets come and go, a node may not know of it yet.
    worker.read(0, "B/b/0")
    assert check(worker.load.history).good()
    worker.replies, worker.final = [gone], True
    worker.read(0, "B/b/0")
    assert len(check(worker.load.history).violations) == 1


def test_a_version_stays():
    for reply, good in (
        (Response(200, {"etag": '"1"'}, b""), True),
        (None, True),
        (Response(200, {"etag": '"2"'}, b""), False),
        (Response(404, {}, b""), False),
    ):
        worker = Scripted(reply)
        versions.look(worker, 0, f"{versions.MARK}k", "v1", '"1"')
        assert check(worker.load.history).good() is good
