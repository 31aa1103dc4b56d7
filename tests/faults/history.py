"""The history: what clients called, when, and what they were told; times are seconds of one monotonic clock."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path

NEVER = math.inf
ABSENT = None

# The kinds of operations on a key; `found` and `value` are ETags, or ABSENT.
READ = "read"  # gave `found`
WRITE = "write"  # of `value`, on no condition
DELETE = "delete"
CREATE = "create"  # `value`, if the key is absent
SWAP = "swap"  # `value`, if the key holds `expected`

# The kinds of operations on an upload that clients share.
COMPLETE, ABORT, LOOK = "complete", "abort", "look"

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"


@dataclass
class Operation:
    """One operation on one key, or its unknown outcome (`answered` is then NEVER)."""

    kind: str
    key: str
    called: float
    answered: float = NEVER
    outcome: str = UNKNOWN  # FAILED: the condition did not hold, so nothing changed
    value: str | None = ABSENT
    expected: str | None = ABSENT
    found: str | None = ABSENT
    client: str = ""
    node: int = -1
    note: str = ""

    def changes(self) -> bool:
        """It may have changed the key."""
        return self.kind != READ and self.outcome != FAILED


@dataclass
class Listing:
    """All pages of one listing of a prefix."""

    prefix: str
    called: float
    answered: float
    keys: list[str]
    client: str = ""
    node: int = -1


@dataclass
class Ending:
    """A completion or an abort of a shared upload, or a look whether it goes on; FAILED: there is no such upload."""

    kind: str
    key: str
    upload: str
    value: str | None
    called: float
    answered: float = NEVER
    outcome: str = UNKNOWN
    client: str = ""
    node: int = -1


@dataclass
class ItemOperation:
    """An operation on a K2V item: `found` is what a read gave, `replaced` what was seen under the token of a change."""

    kind: str
    item: str
    value: str | None = None
    replaced: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    called: float = 0.0
    answered: float = NEVER
    outcome: str = UNKNOWN
    client: str = ""
    node: int = -1


class History:
    """The operations of all clients; threads may add to it."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.listings: list[Listing] = []
        self.endings: list[Ending] = []
        self.items: list[ItemOperation] = []
        self.damaged: list[str] = []
        self.lock = threading.Lock()

    def add(self, operation: Operation) -> None:
        with self.lock:
            self.operations.append(operation)

    def add_listing(self, listing: Listing) -> None:
        with self.lock:
            self.listings.append(listing)

    def add_ending(self, ending: Ending) -> None:
        with self.lock:
            self.endings.append(ending)

    def add_item(self, operation: ItemOperation) -> None:
        with self.lock:
            self.items.append(operation)

    def add_damage(self, what: str) -> None:
        """Something no history can excuse, such as content that does not fit its ETag."""
        with self.lock:
            self.damaged.append(what)

    def by_key(self) -> dict[str, list[Operation]]:
        keys: dict[str, list[Operation]] = {}
        for operation in self.operations:
            keys.setdefault(operation.key, []).append(operation)
        return keys

    def save(self, file: Path) -> None:
        """One JSON object per line, in the order of the calls."""
        rows = [*self.operations, *self.listings, *self.endings, *self.items]
        with open(file, "w") as out:
            for row in sorted(rows, key=lambda row: row.called):
                shown = asdict(row)
                if shown["answered"] == NEVER:
                    shown["answered"] = None
                out.write(json.dumps(shown) + "\n")

    @staticmethod
    def load(file: Path) -> "History":
        history = History()
        for line in open(file):
            row = json.loads(line)
            if row["answered"] is None:
                row["answered"] = NEVER
            if "upload" in row:
                history.endings.append(Ending(**row))
            elif "item" in row:
                history.items.append(ItemOperation(**row))
            elif "prefix" in row:
                history.listings.append(Listing(**row))
            else:
                history.operations.append(Operation(**row))
        return history
