"""Nodes that make their cluster themselves: same settings on all, and nobody assigns them."""

from __future__ import annotations

import http.client
import json
from pathlib import Path

from faults.cluster import CLUSTER_PORT, Cluster, Node, NotServing
from support.client import Client
from support.server import wait_until
from support.sigv4 import Credentials

KEY = Credentials("AKfirststart", "first-secret-of-the-cluster", "us-east-1")
BUCKET = "first"
FORM_S = 90


class Group(Cluster):
    """Nodes that find each other by `finds`, lines of `[cluster]`; `wanted` of them form the first layout."""

    def __init__(self, folder: Path, network, finds: str, wanted: int):
        super().__init__(folder, network)
        self.credentials = KEY
        for node in self.nodes:
            self.configure(node, f"{finds}\nfirst_nodes = {wanted}\n")
            node.env["ARCHIPEL_FIRST_START_SECRET_KEY"] = KEY.secret_key
            node.env["ARCHIPEL_LIMITS_DISK_RESERVE"] = "16MiB"

    def configure(self, node: Node, lines: str) -> None:
        file = node.folder / "archipel.toml"
        kept = [line for line in file.read_text().splitlines() if not line.startswith("join =")]
        text = "\n".join(kept).replace("[cluster]\n", f"[cluster]\n{lines}")
        file.write_text(f'{text}\n[first_start]\nbucket = "{BUCKET}"\naccess_key = "{KEY.access_key}"\n')

    def addresses(self) -> list[str]:
        return [f"{node.address}:{CLUSTER_PORT}" for node in self.nodes]

    def layouts(self) -> list[dict | None]:
        """The layout that each node knows; None for none."""
        return [layout_of(node) for node in self.nodes]

    def wait_formed(self, nodes: int) -> list[dict]:
        """Until all nodes that run know a layout of so many; returns these."""
        running = [node for node in self.nodes if node.running()]

        def formed() -> bool:
            layouts = [layout_of(node) for node in running]
            return all(layout and len(layout["nodes"]) == nodes for layout in layouts)

        assert wait_until(formed, FORM_S), [node.log.read_text()[-1500:] for node in running]
        return [layout_of(node) for node in running]

    def wait_first_key(self, key: Credentials = KEY) -> None:
        for node in self.nodes:
            assert wait_until(lambda: put(node, "ready", key=key) == 200, FORM_S), node.log.read_text()[-1500:]


def layout_of(node: Node) -> dict | None:
    try:
        return node.admin("GET", "/v1/layout")
    except (OSError, NotServing):
        return None


def put(node: Node, name: str, body: bytes = b"x", key: Credentials = KEY) -> int:
    try:
        return Client(node.endpoint, key, timeout=10).put(BUCKET, name, body).status
    except OSError:
        return 0


def get(node: Node, name: str, key: Credentials = KEY) -> bytes:
    answer = Client(node.endpoint, key, timeout=10).get(BUCKET, name)
    assert answer.status == 200, answer.status
    return answer.body


def health(node: Node, check: str, method: str = "GET") -> tuple[int, str]:
    """A health check on the address for S3, without a signature; 0 if nobody answers."""
    host, port = node.address, 3900
    connection = http.client.HTTPConnection(host, port, timeout=15)
    try:
        connection.request(method, f"/health/{check}")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def shown(layout: dict) -> str:
    return json.dumps({"version": layout["version"], "nodes": sorted(n["id"] for n in layout["nodes"])})
