"""A rolling upgrade: nodes go from one build to another, one by one and under load, and the same way back.

ARCHIPEL_OLD_BIN names the older build. Without it both are the build under test, so that only the restarts are tested.
"""

from __future__ import annotations

import http.client
import os
import random
import threading
from pathlib import Path

import pytest
from cluster.loopback import Loopback
from faults.cluster import BUCKET, Cluster, Node, NotServing
from support.client import Client
from support.server import binary, wait_until

pytestmark = pytest.mark.process

KEYS_EACH = 24
SIZES = (100, 3_000, 300_000, 1_200_000)
AWAY = {502, 503, 504}  # a balancer takes the next node


class Writer(threading.Thread):
    """Writes and reads through all nodes in turn, as behind a balancer: an attempt that one node fails goes to the next."""

    def __init__(self, number: int, cluster: Cluster):
        super().__init__(name=f"writer {number}", daemon=True)
        self.number, self.chance = number, random.Random(number)
        self.clients = [Client(node.endpoint, cluster.credentials, timeout=30) for node in cluster.nodes]
        self.kept: dict[str, bytes | None] = {}
        self.ended = threading.Event()
        self.done, self.moved, self.wrong = 0, 0, []

    def run(self) -> None:
        while not self.ended.is_set() and not self.wrong:
            try:
                self.step()
            except Exception as error:  # told by the test, which ends then
                self.wrong.append(repr(error))

    def step(self) -> None:
        key = f"{self.number}/{self.chance.randrange(KEYS_EACH)}"
        if self.chance.random() < 0.15:
            self.ask("DELETE", key, b"", {204})
            self.kept[key] = None
        else:
            body = self.chance.randbytes(self.chance.choice(SIZES))
            self.ask("PUT", key, body, {200})
            self.kept[key] = body
        self.check(key)
        self.done += 1

    def check(self, key: str) -> None:
        """Reads through another node than the one that wrote."""
        status, body = self.ask("GET", key, b"", {200, 404})
        found = body if status == 200 else None
        if found != self.kept[key]:
            self.wrong.append(f"{key}: {shown(found)}, acknowledged was {shown(self.kept[key])}")

    def ask(self, method: str, key: str, body: bytes, fine: set[int]) -> tuple[int, bytes]:
        self.clients = self.clients[1:] + self.clients[:1]
        said = []
        for client in self.clients:
            try:
                answer = client.request(method, f"/{BUCKET}/{key}", body=body)
            except (OSError, http.client.HTTPException) as error:
                said.append(repr(error))
                continue
            if answer.status in fine:
                self.moved += bool(said)
                return answer.status, answer.body
            said.append(f"{answer.status} {answer.body[:200]!r}")
            if answer.status not in AWAY:
                break
        raise NotServing(f"{method} {key} failed: {said}")


def shown(body: bytes | None) -> str:
    return "nothing" if body is None else f"{len(body)} bytes"


def status(node: Node) -> dict:
    return node.admin("GET", "/v1/status")


def healthy(cluster: Cluster) -> bool:
    """As `archipel status` says on each node: what operators wait for before the next one."""
    try:
        return all((status(node)["cluster"] or {}).get("state") == "healthy" for node in cluster.nodes)
    except (OSError, NotServing):
        return False


def replace(cluster: Cluster, program: Path, writers: list[Writer]) -> None:
    """Gives each node another build, one by one; each writer gets something done in each state."""
    for node in cluster.nodes:
        cluster.stop(node)
        node.program = program
        go_on(writers, 3)
        cluster.start(node)
        cluster.wait_writes(node)
        assert wait_until(lambda: healthy(cluster), 120), [node.log.read_text()[-1500:] for node in cluster.nodes]
        go_on(writers, 3)


def go_on(writers: list[Writer], steps: int) -> None:
    for writer in writers:
        wanted = writer.done + steps
        assert wait_until(lambda: writer.done >= wanted or writer.wrong, 120), f"{writer.name} stands still"
        assert not writer.wrong, writer.wrong


@pytest.mark.parametrize("seed", range(2))
def test_nodes_are_replaced_one_by_one_under_load(tmp_path, seed):
    new = binary()
    old = Path(os.environ.get("ARCHIPEL_OLD_BIN", new))
    cluster = Cluster(tmp_path, Loopback(3))
    for node in cluster.nodes:
        node.program = old
    writers = []
    try:
        cluster.form()
        levels = {status(node)["level"] for node in cluster.nodes}
        writers = [Writer(10 * seed + number, cluster) for number in range(3)]
        for writer in writers:
            writer.start()
        go_on(writers, 5)
        replace(cluster, new, writers)
        now = {status(node)["level"] for node in cluster.nodes}
        assert wait_until(lambda: {status(node)["cluster"]["level"] for node in cluster.nodes} == now, 60)
        if now == levels:
            # The level is what the older build speaks, so the way back is open.
            replace(cluster, old, writers)
        for writer in writers:
            writer.ended.set()
        for writer in writers:
            writer.join(60)
            assert not writer.wrong and not writer.is_alive(), writer.wrong
        for writer in writers:
            for key in writer.kept:
                for _ in cluster.nodes:  # each time through the next node
                    writer.check(key)
        assert [writer.wrong for writer in writers] == [[]] * 3
        assert sum(writer.moved for writer in writers) > 0, "no request met a node that was away"
        print(sum(writer.done for writer in writers), "steps,", sum(writer.moved for writer in writers), "on another node")
    finally:
        for writer in writers:
            writer.ended.set()
        cluster.stop_all()
