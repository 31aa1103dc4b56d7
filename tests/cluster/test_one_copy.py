"""A layout with one copy of everything: nodes that share no data with any other."""

from __future__ import annotations

import os

import pytest
from cluster.loopback import running
from faults.cluster import BUCKET, Cluster
from support.client import Client
from support.server import wait_until

pytestmark = pytest.mark.process
OBJECTS = 40


def one_copy(cluster: Cluster) -> None:
    first = cluster.nodes[0]
    staged = first.admin("POST", "/v1/layout/stage", {"redundancy": {"replicas": 1}})["staged"]
    first.admin("POST", "/v1/layout/apply", {"version": staged["version"], "revision": staged["revision"]})
    assert wait_until(lambda: first.admin("GET", "/v1/layout")["progress"] is None, 60)


def test_each_node_serves_again_after_a_restart(tmp_path):
    """No other node can confirm a node that shares no partition with any."""
    with running(tmp_path, 4) as cluster:
        one_copy(cluster)
        client = Client(cluster.nodes[0].endpoint, cluster.credentials)
        bodies = {f"k{number}": os.urandom(2_000) for number in range(OBJECTS)}
        for key, body in bodies.items():
            assert client.put(BUCKET, key, body).status == 200
        for node in cluster.nodes:
            cluster.stop(node)
            cluster.start(node)
            cluster.wait_admin(node)
            reader = Client(node.endpoint, cluster.credentials)
            for key, body in bodies.items():

                def is_read(key=key, body=body, reader=reader) -> bool:
                    read = reader.get(BUCKET, key)
                    return (read.status, read.body) == (200, body)

                assert wait_until(is_read, 60, 0.5), (node.name, key)
