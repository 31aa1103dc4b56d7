"""The turns of those who break things: many at once, or one alone who waits until the cluster has repaired itself."""

from __future__ import annotations

import threading
from contextlib import contextmanager


class Turns:
    """Faults that pass hold it `shared`; who waits for repair holds it `alone`, and goes first."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.holders = 0
        self.claimed = False

    @contextmanager
    def shared(self):
        with self.changed:
            self.changed.wait_for(lambda: not self.claimed)
            self.holders += 1
        try:
            yield
        finally:
            with self.changed:
                self.holders -= 1
                self.changed.notify_all()

    @contextmanager
    def alone(self):
        with self.changed:
            self.changed.wait_for(lambda: not self.claimed)
            self.claimed = True
            self.changed.wait_for(lambda: self.holders == 0)
        try:
            yield
        finally:
            with self.changed:
                self.claimed = False
                self.changed.notify_all()
