"""Losses and changes, one at a time: the next comes once the cluster has proven that it repaired the last.

More is never lost at once than what the redundancy permits. Faults that pass (kills, pauses, cuts, loss) go on beside
them, but for the time of the proof.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import ExitStack, contextmanager

from faults import changes, disks
from faults.cluster import BUCKET, Cluster, Node, NotServing
from faults.turns import Turns
from faults.injector import FAULTS, Injector
from faults.operate import Operator
from support.client import Client
from support.data import KIB, content

LOSSES = {
    "flip": 3,
    "lose blocks": 3,
    "lose node": 3,
    "full": 3,
    "grow": 3,
    "shrink": 3,
    "replace": 2,
    "redundancy": 2,
    "two changes": 1,
    "two operators": 1,
}
MOST_FLIPS = 40


def lose(run) -> None:
    """Losses and changes of the layout among other faults; at the end the cluster proves that all is whole."""
    run.form()
    run.cluster.join_any()
    run.start_workers()
    losses = start(run)
    end = time.monotonic() + run.args.seconds
    while time.monotonic() < end and losses.is_alive():
        time.sleep(1)
    run.stop_injectors(600)
    run.stop_workers()
    for name, took in losses.took:
        print(f"  {name}: whole {took:.1f} s after the faults beside it ended")
    run.restart_all()
    operator = Operator(run.cluster, run.note)
    operator.wait_moved()
    print(f"verify --deep is clean {operator.wait_whole():.1f} s after all were restarted")
    run.read_everything()
    print(f"and again, {operator.wait_whole():.1f} s after everything was read")


def start(run) -> Losses:
    """Losses, and faults that pass."""
    turns, passing = Turns(), {name: weight for name, weight in FAULTS.items() if name != "clock"}
    losses = Losses(run.cluster, run.seed * 10, run.note, turns)
    run.injectors += [Injector(run.cluster, run.seed * 10 + 1, run.note, passing, turns=turns), losses]
    for injector in run.injectors:
        injector.start()
    return losses


class Losses(threading.Thread):
    """One loss or change after another until told to stop."""

    def __init__(self, cluster: Cluster, seed: int, note, turns: Turns):
        super().__init__(daemon=True, name="losses")
        self.cluster, self.rng, self.note, self.turns = cluster, random.Random(seed), note, turns
        self.operator = Operator(cluster, note)
        self.done = threading.Event()
        self.failure: BaseException | None = None
        self.counts: dict[str, int] = {}
        self.took: list[tuple[str, float]] = []

    def run(self) -> None:
        try:
            while not self.done.wait(self.rng.uniform(1, 5)):
                self.one()
        except BaseException as error:
            self.failure = error

    def one(self) -> None:
        name = self.rng.choices(list(LOSSES), list(LOSSES.values()))[0]
        self.counts[name] = self.counts.get(name, 0) + 1
        getattr(self, name.replace(" ", "_"))()
        self.done.wait(self.rng.uniform(1, 8))
        with self.turns.alone():
            self.note(f"{name}: faults rest until all is whole")
            took = self.settle()
        self.took.append((name, took))
        self.note(f"{name}: whole after {took:.1f} s")

    def settle(self) -> float:
        """Until all is whole again; in how many seconds."""
        began = time.monotonic()
        self.operator.wait_moved()
        self.cluster.wait_serving()
        self.operator.repair_blocks()
        self.operator.wait_whole()
        return time.monotonic() - began

    @contextmanager
    def when_copied(self):
        """Faults rest, and what they interrupted has reached all its replicas: a write that was never acknowledged may else
        be on one node alone, whose row stays when its blocks are lost. No node can repair that; it is no loss, but not whole either.
        """
        with self.turns.alone():
            self.cluster.wait_serving()
            self.operator.wait_whole()
            yield

    def members(self) -> list[Node]:
        ids = set(self.patiently(self.operator.members))
        return [node for node in self.cluster.nodes if node.id in ids]

    def spares(self) -> list[Node]:
        held = {node.number for node in self.members()}
        return [node for node in self.cluster.nodes if node.number not in held]

    def patiently(self, what, timeout_s: float = 60):
        """Again while nodes are down."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                return what()
            except (OSError, NotServing):
                if time.monotonic() > end:
                    raise
                time.sleep(0.3)

    def flip(self) -> None:
        node = self.rng.choice(self.members())
        with self.when_copied():
            count = disks.flip(node, self.rng.randint(1, MOST_FLIPS), self.rng)
        self.note(f"flip bits of {count} blocks of {node.name}")

    def lose_blocks(self) -> None:
        node = self.rng.choice(self.members())
        names = self.rng.sample(disks.DISKS, self.rng.randint(1, 2))
        with ExitStack() as held:
            with self.when_copied():
                held.enter_context(node.lock)  # not before: a fault that is to end first may wait for it
                self.cluster.kill(node)
                disks.lose_blocks(node, names)
            self.note(f"{node.name} lost {' and '.join(names)}")
            self.done.wait(self.rng.uniform(0, 4))
            self.cluster.start(node)

    def lose_node(self) -> None:
        """All disks; sometimes its key, too: then it is another node that takes its place."""
        node, key_too = self.rng.choice(self.members()), self.rng.random() < 0.3
        old = node.id
        with node.lock:
            self.cluster.kill(node)
            disks.lose_everything(node, key_too)
            self.note(f"{node.name} lost everything{' and its key' if key_too else ''}")
            self.done.wait(self.rng.uniform(0, 4))
            self.cluster.start(node)
        self.patiently(lambda: self.cluster.learn_id(node))
        stage = {"assign": [self.operator.assigned(node)], "remove": [old] if key_too else []}
        self.note(f"{node.name} is let in again: version {self.operator.change(stage, needed=True)}")

    def full(self) -> None:
        node, left = self.rng.choice(self.members()), self.rng.choice([0, 1 << 20, disks.EARLY])
        disks.fill(node, left)
        self.note(f"{node.name}: {left} bytes are left")
        self.done.wait(self.rng.uniform(3, 15))
        disks.give_room(node)
        self.note(f"{node.name} has room again")

    def grow(self) -> None:
        spares = self.spares()
        if spares:
            self.assign([self.rng.choice(spares)])

    def shrink(self) -> None:
        members = self.members()
        if len(members) > 3:
            self.remove([self.rng.choice(members)])

    def replace(self) -> None:
        spares = self.spares()
        if spares:
            self.assign([self.rng.choice(spares)], [self.rng.choice(self.members())])

    def redundancy(self) -> None:
        """Two copies, and three again once all is whole."""
        self.copies(2)
        with self.turns.alone():
            self.settle()
        self.done.wait(self.rng.uniform(1, 8))
        self.copies(3)

    def copies(self, replicas: int) -> None:
        version = self.operator.change({"redundancy": {"replicas": replicas}})
        self.note(f"{replicas} copies: version {version}")

    def two_changes(self) -> None:
        """One right after the other."""
        self.grow()
        self.shrink()

    def two_operators(self) -> None:
        """Both stage at once, through nodes of their own, and apply what they see."""
        spares = self.spares()
        stages = [{"assign": [self.operator.assigned(node)]} for node in spares[:2]]
        acts = [threading.Thread(target=self.try_change, args=(stage,)) for stage in stages]
        for act in acts:
            act.start()
        for act in acts:
            act.join()

    def try_change(self, stage: dict) -> None:
        try:
            self.note(f"one of two operators: version {self.operator.change(stage, 60)}")
        except NotServing as error:
            self.note(f"one of two operators: {error}")

    def assign(self, nodes: list[Node], removed: list[Node] | None = None) -> None:
        stage = {"assign": [self.operator.assigned(node) for node in nodes], "remove": [n.id for n in removed or []]}
        version = self.operator.change(stage)
        names = ", ".join(f"+{n.name}" for n in nodes) + "".join(f", -{n.name}" for n in removed or [])
        self.note(f"{names}: version {version}")

    def remove(self, nodes: list[Node]) -> None:
        version = self.operator.change({"remove": [node.id for node in nodes]})
        self.note(f"{', '.join(f'-{n.name}' for n in nodes)}: version {version}")


# Larger than what is stored within a row, so that each object is one block.
BLOCK = 17 * KIB
DISK_S = 1800


def lose_disk(run) -> None:
    """One of two disks is lost with half of a node's blocks, while clients go on; the cluster repairs all of them."""
    run.form(calm=True)
    node, operator = run.cluster.nodes[1], Operator(run.cluster, run.note)
    count, lost = run.args.blocks, disks.DISKS[0]
    took = changes.fill(run, 2 * count, BLOCK, "blocks")
    print(f"{2 * count} objects of {BLOCK} bytes stored in {took:.0f} s; verify --deep is clean after {operator.wait_whole(DISK_S):.1f} s")
    # It is lost while others read and write.
    run.start_workers(2, [other.number for other in run.cluster.nodes if other is not node][: run.cluster.members - 1])
    with node.lock:
        run.cluster.kill(node)
        on_disk = sum(1 for path, _ in disks.records(node) if lost in path.parts)
        disks.lose_blocks(node, [lost])
        began = time.monotonic()
        run.cluster.start(node)
    run.cluster.wait_serving()
    print(f"{node.name} lost {lost} with {on_disk} blocks, and serves {time.monotonic() - began:.1f} s later")
    operator.repair_blocks(DISK_S)
    operator.wait_whole(DISK_S)
    print(f"verify --deep is clean {time.monotonic() - began:.1f} s after the loss")
    run.stop_workers()
    run.wrong += [f"failed: {failure}" for failure in run.load.failures]
    if on_disk < count // 2:
        run.wrong.append(f"{lost} had {on_disk} blocks only: too few for what was to be shown")
    missing = unreadable(run, 2 * count)
    run.wrong += [f"{key}: {what}" for key, what in missing[:20]]
    print(f"{2 * count - len(missing)} of {2 * count} objects are right through {node.name}")
    run.read_everything()
    print(f"and verify --deep is clean after {operator.wait_whole(DISK_S):.1f} s")


def unreadable(run, count: int) -> list[tuple[str, str]]:
    """The objects of `changes.fill` that the node with the lost disk does not give as they were stored."""
    wrong: list[tuple[str, str]] = []

    def some(worker: int) -> None:
        client = Client(run.cluster.nodes[1].endpoint, run.cluster.credentials, keep_alive=True, timeout=60)
        for number in range(worker, count, changes.FILLERS):
            key = f"blocks/{number:07}"
            reply = client.get(BUCKET, key)
            if reply.status != 200 or reply.body != content(BLOCK, f"blocks {number}"):
                wrong.append((key, reply.brief()[:200]))
        client.close()

    changes.together(some)
    return wrong
