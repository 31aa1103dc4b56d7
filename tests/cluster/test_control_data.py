"""Buckets and access keys that a node does not know, or cannot confirm any more."""

from __future__ import annotations

import time

import pytest
from cluster.loopback import configure, running
from faults.cluster import BUCKET, Cluster, Node, NotServing
from support.client import Client
from support.server import wait_until

pytestmark = pytest.mark.process
LEASE_S = 6


def with_lease(cluster: Cluster) -> None:
    for node in cluster.nodes:
        configure(node, "limits", f"control_lease_seconds = {LEASE_S}")


def refusal(node: Node, path: str) -> str:
    """Returns the admin API's refusal as text; an empty text if it does not refuse."""
    try:
        node.admin("GET", path)
    except NotServing as refused:
        return str(refused)
    return ""


def test_a_node_that_is_cut_off_refuses_after_the_lease_and_recovers_by_itself(tmp_path):
    with running(tmp_path, 3, with_lease) as cluster:
        node, *others = cluster.nodes
        client = Client(node.endpoint, cluster.credentials, timeout=30)
        assert client.request("GET", "/").status == 200
        cut_off = time.monotonic()
        for other in others:
            cluster.kill(other)
        # Requests for cached data are answered at first: the node's last confirmation is a third of the lease old at most.
        status = client.request("HEAD", f"/{BUCKET}").status
        assert status == 200 or time.monotonic() - cut_off > LEASE_S / 2, status
        assert wait_until(lambda: client.request("GET", "/").status == 503, 60)
        listed = client.request("GET", "/")
        assert b"<Code>ServiceUnavailable</Code>" in listed.body, listed.body
        assert listed.headers["retry-after"] == "1"
        for path in ("/v1/keys", "/v1/buckets", f"/v1/keys/{cluster.credentials.access_key}", "/health"):
            assert "503" in refusal(node, path), path
        assert f"count for {LEASE_S} s" in refusal(node, "/v1/keys")
        cluster.start(others[0])
        cluster.wait_admin(others[0])
        assert wait_until(lambda: client.request("GET", "/").status == 200, 60)
        cluster.wait_writes(node)


def test_a_node_that_starts_alone_does_not_say_that_there_is_nothing(tmp_path):
    with running(tmp_path, 3) as cluster:
        node, *others = cluster.nodes
        for each in cluster.nodes:
            cluster.stop(each)
        cluster.start(node)
        cluster.wait_admin(node)
        for path in ("/v1/keys", "/v1/buckets", f"/v1/buckets/{BUCKET}", "/health"):
            refused = refusal(node, path)
            assert "503" in refused and "have not been read since this node started" in refused, (path, refused)
        status = node.admin("GET", "/v1/status")
        assert status["buckets"] is None and status["access_keys"] is None
        cluster.start(others[0])
        cluster.wait_writes(node)
        assert [key["id"] for key in node.admin("GET", "/v1/keys")["items"]] == [cluster.credentials.access_key]
