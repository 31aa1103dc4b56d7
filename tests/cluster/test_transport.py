"""Nodes that talk over TCP, alone or beside others that talk over QUIC."""

from __future__ import annotations

import os

import pytest
from cluster.loopback import configure, join_over_tcp, running
from faults.cluster import BUCKET, Cluster
from support.client import Client

pytestmark = pytest.mark.process
SIZE = 3_000_000


def put_and_get_through_each(cluster: Cluster) -> None:
    clients = [Client(node.endpoint, cluster.credentials) for node in cluster.nodes]
    for number, client in enumerate(clients):
        body = os.urandom(SIZE)
        assert client.put(BUCKET, f"from-{number}", body).status == 200
        for other in clients:
            read = other.get(BUCKET, f"from-{number}")
            assert (read.status, read.body) == (200, body), other.host


def shown(cluster: Cluster) -> list[dict[str, str]]:
    """For each node: what it says by which transport it reaches each other, by address."""
    listed = (node.admin("GET", "/v1/nodes")["items"] for node in cluster.nodes)
    return [{n["addresses"][0]: n["transport"] for n in nodes} for nodes in listed]


def udp_sockets(cluster: Cluster, number: int) -> list[str]:
    """Lines of /proc/net/udp for the node's address."""
    octets = cluster.network.address(number).split(".")
    address = "".join(f"{int(octet):02X}" for octet in reversed(octets))
    with open("/proc/net/udp", encoding="ascii") as table:
        return [line for line in table if f" {address}:" in line]


def test_a_cluster_over_tcp(tmp_path):
    def tcp(cluster: Cluster) -> None:
        for node in cluster.nodes:
            configure(node, "cluster", 'transport = "tcp"')

    with running(tmp_path, 3, tcp) as cluster:
        put_and_get_through_each(cluster)
        for number, node in enumerate(cluster.nodes):
            assert node.admin("GET", "/v1/status")["transport"] == "tcp"
            assert not udp_sockets(cluster, number)
        for transports in shown(cluster):
            assert set(transports.values()) == {"tcp"}, transports
            assert all(address.startswith("tcp://") for address in transports)


def test_a_node_of_tcp_among_nodes_of_quic(tmp_path):
    def one(cluster: Cluster) -> None:
        configure(cluster.nodes[0], "cluster", 'transport = "tcp"')
        for node in cluster.nodes[1:]:
            join_over_tcp(cluster, node)

    with running(tmp_path, 3, one) as cluster:
        put_and_get_through_each(cluster)
        first, second, third = shown(cluster)
        assert set(first.values()) == {"tcp"}
        for transports in (second, third):
            assert sorted(transports.values()) == ["quic", "quic", "tcp"], transports
        assert not udp_sockets(cluster, 0)
        assert udp_sockets(cluster, 1)
