"""Breaks nodes and the network between them, at random moments, as a seed says."""

from __future__ import annotations

import random
import shutil
import threading
import time
from pathlib import Path

from faults.cluster import Cluster, Node
from faults.turns import Turns
from support import strace

CLOCK_LIBRARY = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
# The distances of the nodes' clocks, in steps from one node to the next.
SKEW_S = (1.0, 5.0)
SYNC_S = (1.0, 4.0)
SYNCS = "fsync,fdatasync,msync,sync_file_range"
# S3 refuses requests whose clock is further away than 15 minutes.
CLOCK_JUMP_S = 600

FAULTS = {
    "kill": 4,
    "pause": 4,
    "cut one way": 3,
    "cut": 3,
    "isolate": 3,
    "loss": 3,
    "clock": 2,
    "slow sync": 3,
    "restart": 2,
    "rolling restart": 1,
    "kill all": 1,
}


class Injector(threading.Thread):
    """One fault after another until told to stop; two of them side by side make faults overlap."""

    def __init__(self, cluster: Cluster, seed: int, note, faults: dict[str, int] | None = None, rest_s=(0.5, 4), turns=None):
        super().__init__(daemon=True, name="injector")
        self.cluster, self.network, self.rng, self.note = cluster, cluster.network, random.Random(seed), note
        self.faults = dict(faults or FAULTS)
        if not clocks_can_jump():
            self.faults.pop("clock", None)
        if not shutil.which("strace"):
            self.faults.pop("slow sync", None)
        self.rest_s, self.turns = rest_s, turns or Turns()
        self.done = threading.Event()
        self.failure: BaseException | None = None
        self.counts: dict[str, int] = {}

    def run(self) -> None:
        try:
            while not self.done.wait(self.rng.uniform(*self.rest_s)):
                with self.turns.shared():
                    self.one()
        except BaseException as error:
            self.failure = error

    def one(self) -> None:
        """One fault, from beginning to end."""
        name = self.rng.choices(list(self.faults), list(self.faults.values()))[0]
        self.counts[name] = self.counts.get(name, 0) + 1
        getattr(self, name.replace(" ", "_"))()

    def some_node(self) -> Node:
        return self.rng.choice(self.cluster.nodes)

    def some_pair(self) -> tuple[int, int]:
        one, other = self.rng.sample(range(len(self.cluster.nodes)), 2)
        return one, other

    def last(self, least: float, most: float, what: str) -> None:
        """While a fault lasts."""
        seconds = self.rng.uniform(least, most)
        self.note(f"{what} for {seconds:.1f} s")
        self.done.wait(seconds)

    def kill(self) -> None:
        node = self.some_node()
        with node.lock:
            self.cluster.kill(node)
            self.last(0, 8, f"kill {node.name}: down")
            self.cluster.start(node)

    def kill_all(self) -> None:
        for node in self.cluster.nodes:
            node.lock.acquire()
        try:
            for node in self.cluster.nodes:
                self.cluster.kill(node)
            self.last(0, 3, "kill all: down")
            for node in self.cluster.nodes:
                self.cluster.start(node)
        finally:
            for node in self.cluster.nodes:
                node.lock.release()

    def pause(self) -> None:
        node = self.some_node()
        with node.lock:
            self.cluster.pause(node)
            self.last(1, 15, f"pause {node.name}")
            self.cluster.go_on(node)

    def restart(self) -> None:
        node = self.some_node()
        with node.lock:
            self.note(f"restart {node.name}")
            self.cluster.stop(node)
            self.cluster.start(node)

    def rolling_restart(self) -> None:
        self.note("rolling restart")
        for node in self.cluster.nodes:
            with node.lock:
                self.cluster.stop(node)
                self.cluster.start(node)
                end = time.monotonic() + 10
                while time.monotonic() < end and not self.done.is_set() and not answers(node):
                    time.sleep(0.1)

    def cut_one_way(self) -> None:
        one, other = self.some_pair()
        self.network.cut(one, other)
        self.last(1, 15, f"cut from {one} to {other}")
        self.network.end_cut(one, other)

    def cut(self) -> None:
        one, other = self.some_pair()
        self.network.cut(one, other)
        self.network.cut(other, one)
        self.last(1, 15, f"cut between {one} and {other}")
        self.network.end_cut(one, other)
        self.network.end_cut(other, one)

    def isolate(self) -> None:
        node = self.some_node()
        self.network.isolate(node.number)
        self.last(1, 15, f"isolate {node.name}")
        self.network.join(node.number)

    def loss(self) -> None:
        share = self.rng.uniform(0.01, 0.10)
        pairs = [(a, b) for a in range(self.network.nodes) for b in range(self.network.nodes) if a != b]
        if self.rng.random() < 0.5:
            pairs = [self.rng.choice(pairs)]
        for pair in pairs:
            self.network.lose(*pair, share)
        self.last(2, 15, f"lose {share:.1%} on {len(pairs)} of the ways")
        for pair in pairs:
            self.network.end_cut(*pair)

    def clock(self) -> None:
        """A jump, and sometimes back to where it stood at first."""
        node = self.some_node()
        jump = self.rng.choice([-1, 1]) * self.rng.choice([0.2, 3, 60, CLOCK_JUMP_S]) * self.rng.random()
        offset = node.skew + (0 if self.rng.random() < 0.3 else jump)
        set_clock(node, offset)
        self.note(f"clock of {node.name}: {offset:+.3f} s from now on")

    def slow_sync(self) -> None:
        """Each sync of a node takes seconds longer: a disk that is about to fail, or shares its device."""
        node = self.some_node()
        delay = self.rng.uniform(*SYNC_S)
        with node.lock:
            try:
                with strace.inject(node.process.pid, SYNCS, f"delay_enter={round(delay * 1e6)}"):
                    self.last(3, 15, f"each sync of {node.name} takes {delay:.1f} s more")
            except AssertionError as error:  # it was starting or ending just then
                self.note(f"syncs of {node.name} are as before: {error}")


def answers(node: Node) -> bool:
    try:
        return bool(node.admin("GET", "/v1/status"))
    except Exception:
        return False


def clocks_can_jump() -> bool:
    return CLOCK_LIBRARY.exists()


def give_clock(node: Node) -> None:
    """From its next start, the node's wall clock is what `set_clock` says; its monotonic one is the machine's."""
    if not clocks_can_jump():
        return
    set_clock(node, 0)
    node.env |= {
        "LD_PRELOAD": str(CLOCK_LIBRARY),
        "FAKETIME_TIMESTAMP_FILE": str(node.folder / "clock"),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_CACHE_DURATION": "1",
        "NO_FAKE_STAT": "1",
    }


def stand_apart(cluster: Cluster, seed: int) -> list[float]:
    """From their next start the nodes' clocks stand 1 to 5 s apart, one ahead and one behind; by how much each."""
    if not clocks_can_jump():
        return []
    rng = random.Random(seed)
    offset = -rng.uniform(*SKEW_S)
    for node in rng.sample(cluster.nodes, len(cluster.nodes)):
        node.skew = offset
        set_clock(node, offset)
        offset += rng.uniform(*SKEW_S)
    return [node.skew for node in cluster.nodes]


def set_clock(node: Node, offset_s: float) -> None:
    """The node's wall clock against the machine's, within a second from now."""
    file = node.folder / "clock"
    new = file.with_suffix(".new")
    new.write_text(f"{offset_s:+.6f}\n")
    new.rename(file)
