"""Histories of a K2V item, and the rules that it must keep: those of tools/sim/src/nodes/k2v/reference.rs.

Every value is unique, so it names its write. A write covers the values that its token was given out with.

- A value that was acknowledged before a read began is in it, unless a write that covers it began before the read
  ended: no lost update, and nobody is replaced unseen.
- A value is not in a read that began after the acknowledgement of a write that covers it, nor after a read without
  it: nothing comes back.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field


@dataclass
class Write:
    """A write: its value, `None` for a deletion; and when it began and was acknowledged, `None` for never."""

    value: str | None
    covers: frozenset[str]
    called: int
    ended: int | None = None


@dataclass
class Read:
    """A read: what it showed, when it began and ended."""

    values: frozenset[str]
    called: int
    ended: int


@dataclass
class History:
    """All that clients did with an item. Moments are numbers in the order in which they were taken."""

    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    _moments: itertools.count = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def now(self) -> int:
        with self._lock:
            return next(self._moments)

    def begin(self, value: str | None, covers: frozenset[str]) -> Write:
        write = Write(value, covers, self.now())
        with self._lock:
            self.writes.append(write)
        return write

    def saw(self, values: frozenset[str], called: int) -> None:
        read = Read(values, called, self.now())
        with self._lock:
            self.reads.append(read)

    def fault(self) -> str | None:
        """The first contradiction."""
        for read in self.reads:
            if why := self._lost(read) or self._back(read):
                return f"{why}, by {read}"
        return None

    def _of(self, value: str) -> Write | None:
        return next((write for write in self.writes if write.value == value), None)

    def _was_there(self, value: str, before: int) -> bool:
        write = self._of(value)
        told = write is not None and write.ended is not None and write.ended < before
        return told or any(read.ended < before and value in read.values for read in self.reads)

    def _lost(self, read: Read) -> str | None:
        for write in self.writes:
            if write.value is None or write.ended is None or write.ended >= read.called or write.value in read.values:
                continue
            if not any(write.value in by.covers and by.called < read.ended for by in self.writes):
                return f"{write.value} is lost"
        return None

    def _back(self, read: Read) -> str | None:
        for value in read.values:
            write = self._of(value)
            if write is None or write.called > read.ended:
                return f"{value} was not written yet"
            covered = any(
                value in by.covers and by.ended is not None and by.ended < read.called for by in self.writes
            )
            gone = any(
                other.ended < read.called and value not in other.values and self._was_there(value, other.called)
                for other in self.reads
            )
            if covered or gone:
                return f"{value} is back"
        return None
