"""Judges histories: is each key linearizable, and does each listing hold what it must?

Linearizable: every operation with an answer takes effect at one moment between its call and its answer, one whose
outcome is unknown at one moment after its call or never, such that in this order each was told the truth. The search is
that of Wing and Gong, with what was tried remembered (Lowe): a state is the set of operations placed so far and the
value that the key holds then.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from faults.endings import as_writes, wrong_endings
from faults.history import ABSENT, CREATE, DELETE, FAILED, NEVER, OK, READ, SWAP, UNKNOWN, WRITE, History, Listing, Operation
from faults.items import wrong_items

# The most states that one key's search may visit; then the key counts as undecided, which is no pass.
MOST_STATES = 2_000_000


@dataclass
class Verdict:
    """The violations, and what could not be decided."""

    violations: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    keys: int = 0
    operations: int = 0
    listings: int = 0

    def good(self) -> bool:
        return not self.violations and not self.undecided


def check(history: History, most_states: int = MOST_STATES) -> Verdict:
    """Everything."""
    by_key = history.by_key()
    for write in as_writes(history.endings):
        by_key.setdefault(write.key, []).append(write)
    count = len(history.operations) + len(history.endings) + len(history.items)
    verdict = Verdict(list(history.damaged), [], len(by_key), count, len(history.listings))
    for key in sorted(by_key):
        found = linearizable(by_key[key], most_states)
        if found is None:
            verdict.undecided.append(key)
        elif not found:
            verdict.violations.append(f"{key} is not linearizable:\n{shown(smallest(by_key[key], most_states))}")
    verdict.violations += wrong_listings(history.listings, by_key)
    verdict.violations += wrong_endings(history.endings) + wrong_items(history.items)
    return verdict


def shown(operations: list[Operation]) -> str:
    """For people: one operation a line, in the order of their calls."""
    lines = []
    for op in sorted(operations, key=lambda op: op.called):
        answered = "never" if op.answered == NEVER else f"{op.answered:.4f}"
        what = {READ: f"found {op.found}", DELETE: ""}.get(op.kind, f"value {op.value}")
        if op.kind == SWAP:
            what += f" expecting {op.expected}"
        lines.append(
            f"  {op.called:.4f} – {answered} {op.client} node {op.node}: {op.kind} {what} → {op.outcome} {op.note}".rstrip()
        )
    return "\n".join(lines)


def smallest(operations: list[Operation], most_states: int = MOST_STATES) -> list[Operation]:
    """The shortest beginning of the history that is wrong already: operations answered up to some moment."""
    moments = sorted({op.answered for op in operations if op.answered != NEVER})
    low, high = 0, len(moments) - 1
    while low < high:
        middle = (low + high) // 2
        if linearizable(until(operations, moments[middle]), most_states) is False:
            high = middle
        else:
            low = middle + 1
    return until(operations, moments[low])


def until(operations: list[Operation], moment: float) -> list[Operation]:
    """The history as it was at `moment`: what had no answer yet is unknown."""
    seen = []
    for op in operations:
        if op.answered <= moment:
            seen.append(op)
        elif op.called <= moment:
            seen.append(
                Operation(op.kind, op.key, op.called, NEVER, UNKNOWN, op.value, op.expected, ABSENT, op.client, op.node)
            )
    return seen


def step(op: Operation, state: str | None) -> tuple[bool, str | None]:
    """Says if `op` may take effect on a key that holds `state` with the answer that it gave, and what the key holds then."""
    if op.kind == READ:
        return op.found == state, state
    if op.kind == WRITE:
        return True, op.value
    if op.kind == DELETE:
        return True, ABSENT
    holds = state == (ABSENT if op.kind == CREATE else op.expected)
    if op.outcome == OK:
        return holds, op.value
    if op.outcome == FAILED:
        return not holds, state
    return holds, op.value  # unknown: without its condition it has no effect, which is the same as never


def linearizable(operations: list[Operation], most_states: int = MOST_STATES) -> bool | None:
    """None: not decided within `most_states`."""
    known = sorted((op for op in operations if op.outcome != UNKNOWN), key=lambda op: op.called)
    unknown = sorted((op for op in operations if op.outcome == UNKNOWN and op.kind != READ), key=lambda op: op.called)
    return _Search(known, unknown, most_states).run()


class _Search:
    """Places operations one after another; goes back where none fits.

    `done` has a bit per known operation, shifted by `first`, the first not yet placed; `used` one per unknown operation.
    An unknown operation is placed only directly before one that looks at what the key holds: elsewhere it makes no
    difference whether it took effect.
    """

    def __init__(self, known: list[Operation], unknown: list[Operation], most_states: int):
        self.known, self.unknown, self.left = known, unknown, most_states
        self.seen: set[tuple] = set()

    def run(self) -> bool | None:
        stack = [iter([(0, 0, 0, ABSENT, False)])]
        while stack:
            state = next(stack[-1], None)
            if state is None:
                stack.pop()
                continue
            if state[0] == len(self.known):
                return True
            if state in self.seen:
                continue
            self.seen.add(state)
            self.left -= 1
            if self.left < 0:
                return None
            stack.append(iter(self.next_states(*state)))
        return False

    def next_states(self, first: int, done: int, used: int, holds: str | None, after_unknown: bool):
        following, soonest = [], self.known_bound(first, done)
        index = first
        while index < len(self.known) and self.known[index].called <= soonest:
            op = self.known[index]
            if not done >> (index - first) & 1 and not (after_unknown and op.kind in (WRITE, DELETE)):
                fits, then = step(op, holds)
                if fits:
                    following.append((*self.place(first, done, index), used, then, False))
            index += 1
        for number, op in enumerate(self.unknown):
            if op.called > soonest:
                break
            if used >> number & 1 or (after_unknown and op.kind in (WRITE, DELETE)):
                continue
            fits, then = step(op, holds)
            if fits and then != holds:
                following.append((first, done, used | 1 << number, then, True))
        return following

    def known_bound(self, first: int, done: int) -> float:
        """The earliest answer among what is not placed: what was called later cannot come before it."""
        soonest, index = NEVER, first
        while index < len(self.known) and self.known[index].called <= soonest:
            if not done >> (index - first) & 1:
                soonest = min(soonest, self.known[index].answered)
            index += 1
        return soonest

    @staticmethod
    def place(first: int, done: int, index: int) -> tuple[int, int]:
        done |= 1 << (index - first)
        while done & 1:
            done >>= 1
            first += 1
        return first, done


def wrong_listings(listings: list[Listing], by_key: dict[str, list[Operation]]) -> list[str]:
    """Keys that a listing left out though they were there all the time, or named though they were absent all the time."""
    names = sorted(by_key)
    wrong = []
    for listing in listings:
        listed = set(listing.keys)
        start = bisect_left(names, listing.prefix)
        for key in names[start:]:
            if not key.startswith(listing.prefix):
                break
            if key not in listed and must_be_there(by_key[key], listing):
                wrong.append(f"{key} is missing in {described(listing)}; its history:\n{shown(by_key[key])}")
            if key in listed and must_be_absent(by_key[key], listing):
                wrong.append(f"{key} is named in {described(listing)}; its history:\n{shown(by_key[key])}")
        for key in sorted(listed - by_key.keys()):
            wrong.append(f"{key} is named in {described(listing)}; it was never written")
        if listing.keys != sorted(listed):
            wrong.append(f"{described(listing)} is out of order, or names a key twice")
    return wrong


def described(listing: Listing) -> str:
    return f"the listing of {listing.prefix!r} by {listing.client}, node {listing.node}, {listing.called:.4f} – {listing.answered:.4f}"


def must_be_there(operations: list[Operation], listing: Listing) -> bool:
    """A write had its answer before the listing began, and no deletion could come after it before the listing ended."""
    written = max(
        (op.called for op in operations if _wrote(op) and op.answered < listing.called), default=None
    )
    if written is None:
        return False
    return not any(
        op.kind == DELETE and op.answered > written and op.called < listing.answered for op in operations
    )


def must_be_absent(operations: list[Operation], listing: Listing) -> bool:
    """No write can have been in effect: all ended before a deletion that had its answer before the listing began."""
    deleted = max(
        (op.called for op in operations if op.kind == DELETE and op.outcome == OK and op.answered < listing.called),
        default=-1.0,
    )
    return not any(
        op.kind != DELETE and op.changes() and op.answered > deleted and op.called < listing.answered
        for op in operations
    )


def _wrote(op: Operation) -> bool:
    return op.kind in (WRITE, CREATE, SWAP) and op.outcome == OK
