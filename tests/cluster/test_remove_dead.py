"""A node that is lost for good, in a change of the layout that cannot end without it."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from cluster.loopback import running
from faults.cluster import BUCKET, Cluster
from support.client import Client
from support.server import binary, wait_until

pytestmark = pytest.mark.process
OBJECTS = 60


def command(cluster: Cluster, number: int, *words: str) -> subprocess.CompletedProcess:
    """The command line, on a node."""
    data = cluster.nodes[number].data
    line = [str(binary()), *words, "--socket", str(data / "admin.sock")]
    return subprocess.run(line, capture_output=True, text=True, timeout=60)


def layout(cluster: Cluster) -> dict:
    return cluster.nodes[0].admin("GET", "/v1/layout")


def tells(cluster: Cluster, node: str) -> tuple[str, str] | None:
    """Returns the state and the zone of a node that is in no layout, as the first one knows it."""
    listed = cluster.nodes[0].admin("GET", "/v1/nodes")["items"]
    return next(((n["state"], n["zone"]) for n in listed if n["id"] == node and n["capacity_bytes"]), None)


def trouble(cluster: Cluster) -> bool:
    """Returns true if the node that drives the change says that it does not go on."""
    shown = (node.admin("GET", "/v1/layout")["progress"] for node in cluster.nodes[:3])
    # A node that has not heard of the change yet shows none.
    return any(progress and progress["trouble"] for progress in shown)


def two_copies(cluster: Cluster) -> None:
    first = cluster.nodes[0]
    staged = first.admin("POST", "/v1/layout/stage", {"redundancy": {"replicas": 2}})["staged"]
    first.admin("POST", "/v1/layout/apply", {"version": staged["version"], "revision": staged["revision"]})
    assert wait_until(lambda: layout(cluster)["progress"] is None, 60)


def test_a_change_ends_without_a_lost_node_only_when_it_is_told_to(tmp_path):
    with running(tmp_path, 4) as cluster:
        two_copies(cluster)
        client = Client(cluster.nodes[0].endpoint, cluster.credentials)
        bodies = {f"k{number}": os.urandom(20_000) for number in range(OBJECTS)}
        for key, body in bodies.items():
            assert client.put(BUCKET, key, body).status == 200
        lost = cluster.nodes[3].admin("GET", "/v1/status")["node_id"]
        refused = command(cluster, 0, "layout", "remove-dead", lost[:12], "--yes")
        assert refused.returncode != 0 and "fix: archipel layout remove" in refused.stderr, refused

        cluster.kill(cluster.nodes[3])
        first = cluster.nodes[0]
        staged = first.admin("POST", "/v1/layout/stage", {"remove": [lost]})["staged"]
        first.admin("POST", "/v1/layout/apply", {"version": staged["version"]})
        assert wait_until(lambda: trouble(cluster), 60)
        versions = layout(cluster)["progress"]
        # Another node may have missed it first. Without --yes nothing is done, so it can be asked again.
        assert wait_until(lambda: command(cluster, 0, "layout", "remove-dead", lost[:12]).returncode == 0, 60)
        # Half of all partitions had a copy there, and need both copies.
        said = command(cluster, 0, "layout", "remove-dead", lost[:12])
        assert said.returncode == 0, said
        assert "1 of 2 copies are left, 1 of them answer: nothing that was acknowledged is lost" in said.stdout
        assert "Nothing was done" in said.stdout and "--yes" in said.stdout
        assert layout(cluster)["progress"]["from_version"] == versions["from_version"]

        done = command(cluster, 0, "layout", "remove-dead", lost[:12], "--yes", "--json")
        assert done.returncode == 0, done
        assert json.loads(done.stdout)["done"] is True
        assert wait_until(lambda: layout(cluster)["progress"] is None, 90), layout(cluster)
        for node in cluster.nodes[:3]:
            reader = Client(node.endpoint, cluster.credentials)
            for key, body in bodies.items():
                read = reader.get(BUCKET, key)
                assert (read.status, read.body) == (200, body), (node.name, key)
        again = command(cluster, 0, "layout", "remove-dead", lost[:12])
        assert again.returncode != 0, again

        # It comes back: it is shut out, and may be let in again.
        cluster.start(cluster.nodes[3])
        cluster.wait_admin(cluster.nodes[3])
        reader = Client(cluster.nodes[3].endpoint, cluster.credentials)
        assert reader.put(BUCKET, "late", b"x").status == 503
        assert wait_until(lambda: tells(cluster, lost) == ("alive", "zone3"), 30)
        # Zone and capacity are those that it tells by itself.
        staged = first.admin("POST", "/v1/layout/stage", {"assign": [{"node": lost}]})["staged"]
        first.admin("POST", "/v1/layout/apply", {"version": staged["version"]})
        assert wait_until(lambda: layout(cluster)["progress"] is None, 90), layout(cluster)
        assert "new incarnation" in cluster.nodes[3].log.read_text()
        cluster.wait_writes(cluster.nodes[3])
        assert all(reader.get(BUCKET, key).body == body for key, body in bodies.items())
