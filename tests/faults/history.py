"""What clients called, when, and what they were told; times are seconds of one monotonic clock."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

NEVER = math.inf
ABSENT = None

# What an operation does to a key; `found` and `value` are ETags, or ABSENT.
READ = "read"  # gave `found`
WRITE = "write"  # of `value`, on no condition
DELETE = "delete"
CREATE = "create"  # `value`, if the key is absent
SWAP = "swap"  # `value`, if the key holds `expected`

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


class History:
    """What all clients saw; threads may add to it."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.listings: list[Listing] = []
        self.damaged: list[str] = []
        self.lock = threading.Lock()

    def add(self, operation: Operation) -> None:
        with self.lock:
            self.operations.append(operation)

    def add_listing(self, listing: Listing) -> None:
        with self.lock:
            self.listings.append(listing)

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
        rows = [*self.operations, *self.listings]
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
            if "prefix" in row:
                history.listings.append(Listing(**row))
            else:
                history.operations.append(Operation(**row))
        return history
