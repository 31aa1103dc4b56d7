"""Two changes of the layout in a row: the second begins while nodes still clean up after the first."""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from cluster.loopback import running
from faults import checker
from faults.cluster import BUCKET, Cluster, Node
from faults.workload import Worker, Workload
from support.client import Client
from support.server import wait_until

pytestmark = pytest.mark.process
# A bucket lies in 16 partitions, and a node purges 500 rows of one at a time: 9,000 are two rounds for each. `cargo xtask
# soak` stores 20,000.
OBJECTS = int(os.environ.get("ARCHIPEL_TEST_OBJECTS", "9000"))
THREADS, WORKERS = 8, 3
# Nodes move data in the time that clients leave. Clients without a rest would make a change take minutes.
REST_S = 0.1


def on_all(node: Node, cluster: Cluster, numbers: range, request) -> list:
    """Returns what `request` gives for each number, with a connection for each thread."""

    def some(first: int) -> list:
        client = Client(node.endpoint, cluster.credentials, keep_alive=True)
        return [request(client, number) for number in numbers[first::THREADS]]

    with ThreadPoolExecutor(THREADS) as pool:
        return list(itertools.chain.from_iterable(pool.map(some, range(THREADS))))


def change(node: Node, **changes) -> None:
    staged = node.admin("POST", "/v1/layout/stage", changes)["staged"]
    node.admin("POST", "/v1/layout/apply", {"version": staged["version"]})
    assert wait_until(lambda: node.admin("GET", "/v1/layout")["progress"] is None, 180)


def load_of(cluster: Cluster, nodes: list[Node]) -> tuple[Workload, list[Worker]]:
    """Clients that write down what they see through these nodes."""
    endpoints = [node.endpoint for node in cluster.nodes]
    load = Workload(endpoints, cluster.credentials, BUCKET, fresh_connections=True, writers=WORKERS, rest_s=REST_S)
    workers = [Worker(load, f"c{number}", number, [node.number for node in nodes]) for number in range(WORKERS)]
    for worker in workers:
        worker.start()
    return load, workers


@pytest.mark.long
def test_every_object_is_readable_through_every_node_after_two_changes(tmp_path):
    def three_of_four(cluster: Cluster) -> None:
        cluster.members = 3

    with running(tmp_path, 4, three_of_four) as cluster:
        first, numbers = cluster.nodes[0], range(OBJECTS)
        put = lambda client, number: client.put(BUCKET, f"key-{number}", b"%d" % number).status  # noqa: E731
        assert set(on_all(first, cluster, numbers, put)) == {200}

        # Nobody uses the node that will go.
        load, workers = load_of(cluster, [cluster.nodes[0], cluster.nodes[2]])
        fourth = {"node": cluster.nodes[3].id, "zone": "zone3", "capacity_bytes": 100_000_000_000}
        change(first, assign=[fourth])
        # At once: the nodes that gave partitions away have only begun to purge them, and get some back.
        change(first, remove=[cluster.nodes[1].id])
        for worker in workers:
            worker.done.set()
        for worker in workers:
            worker.join(60)
            assert not worker.is_alive() and worker.failure is None, worker.failure

        def read(client: Client, number: int) -> tuple[int, int, bytes]:
            response = client.get(BUCKET, f"key-{number}")
            return number, response.status, response.body

        # The node that the layout dropped is shut out.
        for node in (node for node in cluster.nodes if node is not cluster.nodes[1]):
            found = on_all(node, cluster, numbers, read)
            wrong = [answer for answer in found if answer[1:] != (200, b"%d" % answer[0])]
            assert not wrong, (node.name, len(wrong), wrong[:3])
            reader = Worker(load, f"last{node.number}", 0, [node.number])
            for key in sorted({one.key for one in load.history.operations}):
                reader.read(node.number, key)
            reader.close()
        assert load.history.operations and not load.unexpected and not load.failures, (load.unexpected, load.failures[:3])
        verdict = checker.check(load.history)
        assert verdict.good(), verdict.violations[:3]
