"""Concurrent inserts and deletions of K2V items on three processes, of which one is killed and started again.

The items keep exactly the siblings that they must: see histories.py.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from cluster.loopback import running
from faults.cluster import BUCKET, Cluster
from k2v.histories import History, Read, Write
from support.server import wait_until

pytestmark = pytest.mark.process
ITEMS, CLIENTS, ROUNDS = 4, 6, 40
REGION = "us-east-1"


class Clients:
    """Clients that read, insert and delete at any node, and note what they did."""

    def __init__(self, cluster: Cluster, example):
        self.example = example
        secrets = (cluster.credentials.access_key, cluster.credentials.secret_key, REGION)
        self.endpoints = [example.K2V(node.k2v, BUCKET, *secrets) for node in cluster.nodes]
        self.histories = {f"item{number}": History() for number in range(ITEMS)}
        self.acknowledged = 0
        self.lock = threading.Lock()

    def read(self, endpoint, item: str) -> tuple[frozenset[str], str | None]:
        history = self.histories[item]
        called = history.now()
        values, token = endpoint.read("p", item)
        # A deletion among the values says that a client deleted something else at the same time.
        shown = frozenset(value.decode() for value in values if value is not None)
        history.saw(shown, called)
        return shown, token

    def work(self, client: int, end: threading.Event) -> None:
        """Reads and writes until `end`, and at least ROUNDS times."""
        chance = random.Random(client)
        count = 0
        while count < ROUNDS or not end.is_set():
            count += 1
            item, endpoint = chance.choice(list(self.histories)), chance.choice(self.endpoints)
            try:
                self.one(endpoint, item, f"{client}.{count}", chance)
            except (OSError, http.client.HTTPException):
                continue  # that node is dead: whether the write happened is not known
            except self.example.K2VError as error:
                assert error.status >= 500, error

    def one(self, endpoint, item: str, value: str, chance: random.Random) -> None:
        history = self.histories[item]
        shown, token = self.read(endpoint, item)
        what = chance.random()
        if what < 0.3:  # in ignorance of what is there
            write = history.begin(value, frozenset())
            endpoint.insert("p", item, value.encode())
        elif what < 0.85 or token is None:
            write = history.begin(value, shown if token else frozenset())
            # The token may be old by now.
            endpoint.insert("p", item, value.encode(), token)
        else:
            write = history.begin(None, shown)
            endpoint.delete("p", item, token)
        write.ended = history.now()
        with self.lock:
            self.acknowledged += 1


def test_items_keep_exactly_the_siblings_that_they_must(tmp_path, example):
    with running(tmp_path, 3) as cluster:
        clients = Clients(cluster, example)
        end = threading.Event()
        with ThreadPoolExecutor(CLIENTS) as pool:
            working = [pool.submit(clients.work, number, end) for number in range(CLIENTS)]
            try:
                for victim in (cluster.nodes[2], cluster.nodes[0]):
                    clients_go_on(clients)
                    cluster.kill(victim)
                    clients_go_on(clients)
                    cluster.start(victim)
                    cluster.wait_admin(victim)
                    clients_go_on(clients)
            finally:
                end.set()
            for done in working:
                done.result()
        # All nodes are back, and each shows the same, which every rule allows.
        for item, history in clients.histories.items():
            assert wait_until(lambda: agree(clients, item), 60), item
            assert history.fault() is None, f"{item}: {history.fault()}"
        kinds = {(write.value is None, bool(write.covers)) for one in clients.histories.values() for write in one.writes}
        assert {(False, False), (False, True), (True, True)} <= kinds, "not everything was tried"


def clients_go_on(clients: Clients) -> None:
    """Waits until more writes were acknowledged."""
    before = clients.acknowledged
    assert wait_until(lambda: clients.acknowledged >= before + 3 * CLIENTS, 120), "nothing is acknowledged any more"


def agree(clients: Clients, item: str) -> bool:
    try:
        return len({clients.read(endpoint, item)[0] for endpoint in clients.endpoints}) == 1
    except (OSError, http.client.HTTPException, clients.example.K2VError):
        time.sleep(0.1)
        return False


def write(value: str | None, covers: str, called: int, ended: int | None) -> Write:
    return Write(value, frozenset(covers.split()), called, ended)


def read(values: str, called: int, ended: int) -> Read:
    return Read(frozenset(values.split()), called, ended)


def fault(writes: list[Write], reads: list[Read]) -> str | None:
    return History(writes, reads).fault()


def test_the_rules_find_lost_and_returned_values():
    first = [write("a", "", 0, 1), write("b", "", 0, 2)]
    assert fault(first, [read("a b", 3, 4)]) is None
    assert fault(first, [read("b", 3, 4)]).startswith("a is lost")
    merged = [*first, write("c", "a b", 5, 6)]
    assert fault(merged, [read("c", 7, 8)]) is None
    assert fault(merged, [read("b c", 7, 8)]).startswith("b is back")
    blind = [*first, write("c", "a", 5, 6)]
    assert fault(blind, [read("b c", 7, 8)]) is None
    assert fault(blind, [read("c", 7, 8)]).startswith("b is lost")
    unknown = [write("a", "", 0, 1), write("b", "a", 2, None)]
    assert fault(unknown, [read("a", 3, 4), read("b", 5, 6)]) is None
    assert fault(unknown, [read("a", 3, 4), read("b", 5, 6), read("a", 7, 8)]).startswith("a is back")
    deleted = [*first, write(None, "a b", 5, 6)]
    assert fault(deleted, [read("", 7, 8)]) is None
    assert fault(deleted, [read("a", 7, 8)]).startswith("a is back")
