"""The checker finds what is wrong in histories made by hand, and nothing in right ones."""

from __future__ import annotations

import itertools
import random

import pytest
from faults.checker import check, linearizable, must_be_absent, must_be_there
from faults.history import ABSENT, CREATE, DELETE, FAILED, NEVER, OK, READ, SWAP, UNKNOWN, WRITE, Ending, History, ItemOperation, Listing, Operation


def write(value, called, answered, kind=WRITE, expected=ABSENT, outcome=OK):
    return Operation(kind, "k", called, answered, outcome, value, expected)


def unknown(value, called, kind=WRITE, expected=ABSENT):
    return Operation(kind, "k", called, NEVER, UNKNOWN, value, expected)


def read(found, called, answered):
    return Operation(READ, "k", called, answered, OK, found=found)


def delete(called, answered):
    return Operation(DELETE, "k", called, answered, OK)


RIGHT = {
    "nothing": [],
    "absent before the first write": [read(ABSENT, 0, 1), write("a", 2, 3), read("a", 4, 5)],
    "a read during a write may see either": [write("a", 0, 1), write("b", 2, 9), read("b", 3, 4), read("b", 5, 6)],
    "writes at the same time in the other order": [write("a", 0, 5), write("b", 1, 4), read("a", 6, 7)],
    "unknown and took effect late": [write("a", 0, 1), unknown("b", 2), read("a", 8, 9), read("b", 10, 11)],
    "unknown and never took effect": [write("a", 0, 1), unknown("b", 2), read("a", 8, 9)],
    "one of two creations": [write("a", 0, 3, CREATE), write("b", 1, 4, CREATE, outcome=FAILED), read("a", 5, 6)],
    "created again after a deletion": [write("a", 0, 1, CREATE), delete(2, 3), write("b", 4, 5, CREATE)],
    "a creation that fails because of an unknown write": [unknown("a", 0), write("b", 1, 2, CREATE, outcome=FAILED)],
    "swaps in a row": [write("a", 0, 1), write("b", 2, 3, SWAP, "a"), write("c", 4, 5, SWAP, "b"), read("c", 6, 7)],
    "an unknown swap, then one upon it": [
        write("a", 0, 1),
        unknown("b", 2, SWAP, "a"),
        write("c", 4, 5, SWAP, "b"),
        read("c", 6, 7),
    ],
    "an unknown deletion": [write("a", 0, 1), unknown(ABSENT, 2, DELETE), read("a", 3, 4), read(ABSENT, 5, 6)],
    "two unknowns in a row": [unknown("a", 0), unknown("b", 1, SWAP, "a"), read("b", 4, 5)],
}

WRONG = {
    "stale read": [write("a", 0, 1), write("b", 2, 3), read("a", 4, 5)],
    "lost write": [write("a", 0, 1), read(ABSENT, 2, 3)],
    "two winners of If-None-Match": [write("a", 0, 3, CREATE), write("b", 1, 4, CREATE)],
    "two winners of If-Match": [write("a", 0, 1), write("b", 2, 5, SWAP, "a"), write("c", 3, 6, SWAP, "a")],
    "back from the dead": [write("a", 0, 1), delete(2, 3), read(ABSENT, 4, 5), read("a", 6, 7)],
    "new, then old": [write("a", 0, 1), write("b", 2, 9), read("b", 3, 4), read("a", 5, 6)],
    "never written": [write("a", 0, 1), read("z", 2, 3)],
    "seen before it was called": [read("a", 0, 1), unknown("a", 2)],
    "an unknown write twice": [
        unknown("u", 0),
        read("u", 1, 2),
        write("b", 3, 4),
        read("b", 5, 6),
        read("u", 7, 8),
    ],
    "refused although absent": [write("a", 0, 1, CREATE, outcome=FAILED)],
    "refused, and yet it took effect": [
        write("a", 0, 1),
        write("b", 2, 3, SWAP, "x", outcome=FAILED),
        read("b", 4, 5),
    ],
    "an unknown swap on what is gone": [
        write("a", 0, 1),
        write("b", 2, 3),
        unknown("c", 4, SWAP, "a"),
        read("c", 5, 6),
    ],
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_histories_pass(name):
    assert linearizable(RIGHT[name]) is True


@pytest.mark.parametrize("name", WRONG)
def test_wrong_histories_do_not(name):
    assert linearizable(WRONG[name]) is False
    history = History()
    history.operations = WRONG[name]
    assert len(check(history).violations) == 1


def test_too_long_a_search_is_no_pass():
    history = History()
    history.operations = RIGHT["two unknowns in a row"]
    verdict = check(history, most_states=1)
    assert verdict.undecided == ["k"] and not verdict.good()


def test_as_by_trying_every_order():
    """Small random histories: the search agrees with brute force."""
    rng = random.Random(4)
    results = [0, 0]
    for _ in range(3000):
        operations = [any_operation(rng) for _ in range(rng.randint(1, 5))]
        expected = by_every_order(operations)
        results[expected] += 1
        assert linearizable(operations) is expected, operations
    assert min(results) > 300, results


def any_operation(rng) -> Operation:
    called = rng.randint(0, 8)
    kind = rng.choice([READ, READ, WRITE, DELETE, CREATE, SWAP])
    op = Operation(kind, "k", called, called + rng.randint(1, 6) - 0.5, OK)
    op.value = rng.choice("abc") if kind in (WRITE, CREATE, SWAP) else ABSENT
    op.expected = rng.choice("abc") if kind == SWAP else ABSENT
    op.found = rng.choice(["a", "b", "c", ABSENT]) if kind == READ else ABSENT
    if kind in (CREATE, SWAP) and rng.random() < 0.3:
        op.outcome = FAILED
    elif kind != READ and rng.random() < 0.3:
        op.outcome, op.answered = UNKNOWN, NEVER
    return op


def by_every_order(operations) -> bool:
    known = [op for op in operations if op.outcome != UNKNOWN]
    maybe = [op for op in operations if op.outcome == UNKNOWN]
    for count in range(len(maybe) + 1):
        for chosen in itertools.combinations(maybe, count):
            if any(possible(order) for order in itertools.permutations([*known, *chosen])):
                return True
    return False


def possible(order) -> bool:
    holds = ABSENT
    for place, op in enumerate(order):
        if any(later.answered < op.called for later in order[place + 1 :]):
            return False
        condition = ABSENT if op.kind == CREATE else op.expected
        if op.kind == READ:
            if op.found != holds:
                return False
        elif op.kind in (WRITE, DELETE):
            holds = op.value
        elif op.outcome == FAILED:
            if holds == condition:
                return False
        elif holds == condition:
            holds = op.value
        else:
            return False
    return True


def listing(called, answered) -> Listing:
    return Listing("", called, answered, [])


@pytest.mark.parametrize(
    "operations, there, absent",
    [
        ([], False, True),
        ([write("a", 0, 1)], True, False),
        ([write("a", 0, 11)], False, False),
        ([write("a", 21, 22)], False, True),
        ([write("a", 0, 1), delete(2, 3)], False, True),
        ([write("a", 0, 1), delete(12, 13)], False, False),
        ([write("a", 0, 1), delete(21, 22)], True, False),
        ([write("a", 0, 1), delete(2, 3), write("b", 4, 5)], True, False),
        ([write("a", 0, 4), delete(2, 3)], False, False),
        ([write("a", 0, 1), unknown(ABSENT, 2, DELETE), write("b", 4, 5)], False, False),
        ([unknown("a", 0), delete(2, 3)], False, False),
        ([write("a", 0, 1), write("b", 2, 3, CREATE, outcome=FAILED)], True, False),
    ],
)
def test_what_a_listing_must_hold(operations, there, absent):
    assert must_be_there(operations, listing(10, 20)) is there
    assert must_be_absent(operations, listing(10, 20)) is absent


def test_wrong_listings_are_found():
    history = History()
    history.operations = [write("a", 0, 1)]
    history.listings = [Listing("", 2, 3, ["k"]), Listing("k", 2, 3, ["k"]), Listing("x", 2, 3, [])]
    assert check(history).good()
    history.listings = [Listing("", 2, 3, []), Listing("", 2, 3, ["j", "k"]), Listing("", 2, 3, ["k", "k"])]
    assert len(check(history).violations) == 3
    history.operations.append(delete(2, 3))
    history.listings = [Listing("", 4, 5, ["k"])]
    assert len(check(history).violations) == 1


def test_histories_are_kept(tmp_path):
    history = History()
    history.operations = [write("a", 0, 1), unknown("b", 2)]
    history.listings = [Listing("", 3, 4, ["k"])]
    history.endings = [Ending("abort", "k", "u", "t", 5, 6, OK), Ending("complete", "k", "u", "t", 7)]
    history.items = [ItemOperation("insert", "p:s", "v", ["w"], [], 8, 9, OK)]
    history.save(tmp_path / "history.jsonl")
    again = History.load(tmp_path / "history.jsonl")
    assert again.operations == history.operations and again.listings == history.listings
    assert again.endings == history.endings and again.items == history.items
