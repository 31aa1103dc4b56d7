"""K2V on three nodes: any of them answers, polls hear of changes at others, a killed one is no loss."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.server import Demo, binary, wait_until
from support.unchanged import Admin


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    demo = Demo(tmp_path_factory.mktemp("k2v-nodes") / "data", nodes=3)
    yield demo.start(120)
    demo.stop()


@pytest.fixture
def own_nodes(tmp_path):
    """Nodes that no other test uses."""
    demo = Demo(tmp_path / "data", nodes=3)
    yield demo.start(120)
    demo.stop()


@pytest.fixture(scope="module")
def endpoints(nodes, example):
    return endpoints_of(nodes, example)


def endpoints_of(nodes, example):
    """A client of each node."""
    secrets = (nodes.access_key, nodes.secret_key, nodes.region)
    return [example.K2V(f"http://{node['k2v']}", nodes.bucket, *secrets) for node in nodes.nodes]


def test_any_node_sees_what_another_acknowledged(endpoints):
    token = None
    for n in range(60):
        endpoints[n % 3].insert("p", "chain", str(n).encode(), token)
        values, token = endpoints[(n + 1) % 3].read("p", "chain")
        assert values == [str(n).encode()]
    index = endpoints[0].index(prefix="p")["partitionKeys"]
    assert [(key["pk"], key["entries"], key["values"]) for key in index] == [("p", 1, 1)]


def waiting(node: dict) -> float:
    """The polls that wait at a node."""
    return Admin(node["admin"]).metric("archipel_k2v_polls")


def test_polls_hear_of_other_nodes(endpoints, nodes):
    endpoints[0].insert("p", "poll", b"0")
    token = endpoints[0].read("p", "poll")[1]
    waited = []
    with ThreadPoolExecutor(3) as pool:
        for n in range(1, 10):
            polls = [pool.submit(endpoint.poll, "p", "poll", token, 60) for endpoint in endpoints]
            assert wait_until(lambda: all(waiting(node) == 1 for node in nodes.nodes))
            began = time.monotonic()
            endpoints[n % 3].insert("p", "poll", str(n).encode(), token)
            seen = [poll.result() for poll in polls]
            waited.append(time.monotonic() - began)
            assert all(values == [str(n).encode()] for values, _ in seen)
            token = seen[0][1]
    # A change that is not told would be found only after 15 s.
    assert max(waited) < 5, waited


def test_concurrent_inserts_at_all_nodes_lose_nothing(endpoints):
    """Every client merges what it has read, and writes with the token of that."""

    def add(client: int) -> None:
        endpoint = endpoints[client % 3]
        for n in range(15):
            values, token = endpoint.read("p", "set")
            merged = {mark for value in values if value for mark in value.split()}
            merged.add(f"{client}.{n}".encode())
            endpoint.insert("p", "set", b" ".join(sorted(merged)), token)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(add, range(6)))
    values, _ = endpoints[0].read("p", "set")
    marks = {mark for value in values for mark in value.split()}
    assert marks == {f"{client}.{n}".encode() for client in range(6) for n in range(15)}


def test_bucket_is_reached_by_all_of_its_names(endpoints, nodes, example):
    endpoints[0].insert("p", "named", b"1")
    alias = [str(binary()), "bucket", "alias"]
    at_first = ["--data-dir", nodes.nodes[0]["dir"]]
    names = {"chat.example.org": [], "mine": ["--key", nodes.access_key]}
    for name, whose in names.items():
        subprocess.run([*alias, "add", nodes.bucket, name, *whose, *at_first], check=True, capture_output=True)
    secrets = (nodes.access_key, nodes.secret_key, nodes.region)
    named = [example.K2V(f"http://{node['k2v']}", name, *secrets) for node in nodes.nodes for name in names]
    for endpoint in named:
        assert wait_until(lambda: read_or_none(endpoint, example) == [b"1"]), endpoint.bucket
    for name, whose in names.items():
        subprocess.run([*alias, "remove", nodes.bucket, name, *whose, *at_first], check=True, capture_output=True)
    for endpoint in named:
        assert wait_until(lambda: read_or_none(endpoint, example) is None), endpoint.bucket


def read_or_none(endpoint, example):
    """The item's values; None if the bucket is not known."""
    try:
        return endpoint.read("p", "named")[0]
    except example.K2VError as error:
        assert error.code == "NoSuchBucket"
        return None


def all_alive(node: dict) -> bool:
    """Returns true if a node hears of all others."""
    listed = Admin(node["admin"]).call("GET", "/v1/nodes")["items"]
    return all(one["state"] in ("self", "alive") for one in listed)


def test_poll_survives_the_death_of_a_node(own_nodes, example):
    nodes, endpoints = own_nodes, endpoints_of(own_nodes, example)
    endpoints[0].insert("p", "killed", b"1")
    token = endpoints[0].read("p", "killed")[1]
    marker = endpoints[1].poll_range("p")["seenMarker"]
    with ThreadPoolExecutor(2) as pool:
        item = pool.submit(endpoints[1].poll, "p", "killed", token, 120)
        range_ = pool.submit(lambda: endpoints[1].poll_range("p", seenMarker=marker, timeout=120))
        assert wait_until(lambda: waiting(nodes.nodes[1]) == 2)
        os.kill(int(nodes.nodes[2]["pid"]), signal.SIGKILL)
        assert wait_until(lambda: not all_alive(nodes.nodes[1]), 60)
        assert not item.done() and not range_.done()
        endpoints[0].insert("p", "killed", b"2", token)
        began = time.monotonic()
        assert item.result()[0] == [b"2"]
        assert [i["sk"] for i in range_.result()["items"]] == ["killed"]
        assert time.monotonic() - began < 20
