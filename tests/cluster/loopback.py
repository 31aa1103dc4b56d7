"""Clusters of processes on loopback addresses of their own: no namespaces, no root, no faults but kills."""

from __future__ import annotations

import random
import socket
from contextlib import contextmanager, suppress
from pathlib import Path

from faults.cluster import CLUSTER_PORT, S3_PORT, Cluster, Node


def unused_prefix() -> str:
    """Three octets of addresses on which no other cluster runs."""
    for _ in range(100):
        prefix = f"127.{random.randint(64, 127)}.{random.randint(1, 254)}"
        with socket.socket() as probe, suppress(OSError):
            probe.bind((f"{prefix}.1", S3_PORT))
            return prefix
    raise AssertionError(f"port {S3_PORT} cannot be had on any of 100 addresses")


class Loopback:
    """Takes the place of `faults.network.Network`: an address of 127/8 for each node."""

    def __init__(self, nodes: int):
        self.nodes = nodes
        self.prefix = unused_prefix()

    def address(self, number: int) -> str:
        return f"{self.prefix}.{number + 1}"

    def command(self, _number: int, command: list[str]) -> list[str]:
        return command


def configure(node: Node, section: str, setting: str) -> None:
    """Adds a setting to a section of a node's configuration."""
    file = node.folder / "archipel.toml"
    file.write_text(file.read_text().replace(f"[{section}]\n", f"[{section}]\n{setting}\n"))


def join_over_tcp(cluster: Cluster, node: Node) -> None:
    """The node is told that the first one is reached over TCP."""
    first = f"{cluster.network.address(0)}:{CLUSTER_PORT}"
    file = node.folder / "archipel.toml"
    file.write_text(file.read_text().replace(f'join = ["{first}"]', f'join = ["tcp://{first}"]'))


@contextmanager
def running(folder: Path, nodes: int, prepare=lambda cluster: None):
    """So many nodes in as many zones, one cluster; stopped at the end."""
    cluster = Cluster(folder, Loopback(nodes))
    prepare(cluster)
    try:
        cluster.form()
        yield cluster
    finally:
        cluster.stop_all()
