"""Nodes as processes, each with an address of its own, made one cluster over the admin API."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from faults.network import Network
from support.client import Client
from support.server import binary, wait_until
from support.sigv4 import Credentials
from support.unchanged import watched

S3_PORT, CLUSTER_PORT, K2V_PORT = 3900, 3901, 3904
START_S, FORM_S = 60, 120
BUCKET = "faults"


class NotServing(Exception):
    """A node or the cluster did not get as far as it must."""


class AdminConnection(http.client.HTTPConnection):
    """HTTP over the admin socket."""

    def __init__(self, path: Path, timeout: float = 20):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


@dataclass
class Node:
    """One node: its folder, and its process while it runs."""

    number: int
    folder: Path
    address: str
    program: Path | None = None  # another build than the one under test
    id: str = ""  # known once the cluster is formed
    process: subprocess.Popen | None = None
    paused: bool = False
    skew: float = 0.0  # of its clock against the machine's, in seconds, for the whole run
    starts: int = 0
    env: dict[str, str] = field(default_factory=lambda: {"ARCHIPEL_LIMITS_DISK_RESERVE": "256MiB"})
    lock: threading.Lock = field(default_factory=threading.Lock)  # of who kills, pauses or starts it

    @property
    def name(self) -> str:
        return f"node {self.number}"

    @property
    def data(self) -> Path:
        """Returns the folder of the node's data; log and configuration lie beside it."""
        return self.folder / "data"

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}:{S3_PORT}"

    @property
    def k2v(self) -> str:
        return f"http://{self.address}:{K2V_PORT}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: int) -> None:
        if self.running():
            self.process.send_signal(number)

    def admin(self, method: str, path: str, body: dict | None = None):
        """Returns the answer of the admin API; raises `OSError` if there is none, `NotServing` if it refuses."""
        answer = self._ask(method, path, None if body is None else json.dumps(body))
        return json.loads(answer) if answer else None

    def metric(self, name: str) -> float:
        """The sum of a metric's values."""
        lines = self._ask("GET", "/metrics", None).decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)

    def _ask(self, method: str, path: str, text: str | None) -> bytes:
        connection = AdminConnection(self.data / "admin.sock")
        try:
            connection.request(method, path, text, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            answer = reply.read()
        except http.client.HTTPException as error:
            raise OSError(f"{self.name}: {error!r}") from None
        finally:
            connection.close()
        if reply.status >= 300:
            raise NotServing(f"{self.name}: {method} {path}: {reply.status} {answer.decode(errors='replace')}")
        return answer


class Cluster:
    """Nodes in zones of their own, all replicas of everything if there are three.

    `members` are in the layout at first, the others stand by, admitted; `disks` are folders of blocks in each node's data folder.
    """

    def __init__(
        self, folder: Path, network: Network, level: str = "info", members: int | None = None, disks: tuple[str, ...] = ()
    ):
        self.folder, self.network, self.members, self.disks = folder, network, members or network.nodes, disks
        self.nodes = [
            Node(number, folder / f"node{number}", network.address(number)) for number in range(network.nodes)
        ]
        self.credentials: Credentials | None = None
        folder.mkdir(parents=True, exist_ok=True)
        secret = folder / "secret"
        secret.write_text(secrets.token_hex(32))
        secret.chmod(0o600)
        for node in self.nodes:
            node.data.mkdir(parents=True, exist_ok=True)
            (node.folder / "archipel.toml").write_text(self._config(node, level))

    def join_any(self) -> None:
        """From its next start, each node may join through any other: also the first, should it lose what it knows."""
        for node in self.nodes:
            others = [f"{other.address}:{CLUSTER_PORT}" for other in self.nodes if other is not node]
            file = node.folder / "archipel.toml"
            lines = file.read_text().splitlines()
            file.write_text("".join(f"join = {json.dumps(others)}\n" if line.startswith("join =") else f"{line}\n" for line in lines))

    def _config(self, node: Node, level: str) -> str:
        join = [f"{self.network.address(0)}:{CLUSTER_PORT}"] if node.number else []
        return (
            f'data_dir = "{node.data}"\n[s3]\nlisten = "{node.address}:{S3_PORT}"\n'
            f'[k2v]\nlisten = "{node.address}:{K2V_PORT}"\n'
            f'[cluster]\nlisten = "{node.address}:{CLUSTER_PORT}"\nsecret_file = "{self.folder}/secret"\n'
            f'join = {json.dumps(join)}\nzone = "zone{node.number}"\n'
            f'[log]\nlevel = "{level}"\n[limits]\nshutdown_seconds = 10\n'
            + "".join(f'[[disks]]\npath = "{node.data / disk}"\n' for disk in self.disks)
        )

    def start(self, node: Node) -> None:
        command = self.network.command(
            node.number, [str(node.program or binary()), "server", "--config", str(node.folder / "archipel.toml")]
        )
        with open(node.log, "ab") as log:
            log.write(start_line(node.starts + 1).encode())
            log.flush()
            node.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **node.env},
                start_new_session=True,
            )
        node.starts += 1
        node.paused = False

    def kill(self, node: Node) -> None:
        """SIGKILL: it does not get to say a word."""
        node.signal(signal.SIGKILL)
        node.process.wait()
        node.paused = False

    def stop(self, node: Node, wait_s: float = 30) -> None:
        """SIGTERM, and until it ended."""
        node.signal(signal.SIGTERM)
        try:
            status = node.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self.kill(node)
            raise NotServing(f"{node.name} did not end on SIGTERM within {wait_s} s") from None
        # One that was started a moment ago may not have come as far as its signal handlers: it has said no more than what is wrong with its settings.
        said = log_end(node).rpartition(start_line(node.starts))[2].splitlines()
        unborn = status == -signal.SIGTERM and all(" archipel::server: " in line for line in said)
        if status != 0 and not unborn:
            raise NotServing(f"{node.name} ended with {status}: {log_end(node)}")

    def pause(self, node: Node) -> None:
        node.signal(signal.SIGSTOP)
        node.paused = True

    def go_on(self, node: Node) -> None:
        node.signal(signal.SIGCONT)
        node.paused = False

    def form(self) -> None:
        """Starts all nodes and makes them one cluster with a key and a bucket."""
        for node in self.nodes:
            self.start(node)
        for node in self.nodes:
            self.wait_admin(node)
        first = self.nodes[0]
        # Each of them: who knows only the first could do nothing without it.
        known = [self._wait(lambda: self._known(node), FORM_S, f"{node.name} does not know the others") for node in self.nodes][0]
        for node, id in zip(self.nodes, known):
            node.id = id
        self._lay_out(first, known[: self.members])
        for id in known[self.members :]:
            first.admin("PUT", f"/v1/nodes/{id}/admission")
        key = first.admin("POST", "/v1/keys", {"name": "faults", "create_bucket": True})
        self.credentials = Credentials(key["id"], key["secret"])
        first.admin("POST", "/v1/buckets", {"name": BUCKET, "owner": key["id"]})
        self.wait_serving()
        watched.add([str(node.data / "admin.sock") for node in self.nodes[: self.members]])

    def learn_id(self, node: Node) -> None:
        """After its key may have changed."""
        node.id = node.admin("GET", "/v1/status")["node_id"]

    def _known(self, by: Node) -> list[str] | None:
        """The ids of all nodes in their order, once this one knows them."""
        listed = by.admin("GET", "/v1/nodes")["items"]
        ids = []
        for node in self.nodes:
            address = f"{node.address}:{CLUSTER_PORT}"
            there = [n["id"] for n in listed if address in reached(n) and n["state"] in ("alive", "self")]
            ids += there[:1]
        return ids if len(ids) == len(self.nodes) else None

    def _lay_out(self, first: Node, ids: list[str]) -> None:
        stage = {
            "assign": [
                {"node": id, "zone": f"zone{number}", "capacity_bytes": 100_000_000_000}
                for number, id in enumerate(ids)
            ],
            "redundancy": {"replicas": min(3, len(ids))},
        }
        staged = first.admin("POST", "/v1/layout/stage", stage)
        first.admin("POST", "/v1/layout/apply", {"version": staged["staged"]["version"]})

        def settled() -> bool:
            layout = first.admin("GET", "/v1/layout")
            return layout["progress"] is None and len(layout["nodes"]) == len(ids)

        self._wait(settled, FORM_S, "the layout does not come into force")

    def wait_admin(self, node: Node, timeout_s: float = START_S) -> None:
        self._wait(lambda: node.admin("GET", "/v1/status"), timeout_s, f"{node.name} does not start", node)

    def wait_serving(self, timeout_s: float = FORM_S) -> None:
        """Until every node reads and writes, and says that nothing is wrong."""
        for node in self.nodes:
            self.wait_admin(node)
        for node in self.nodes:
            self.wait_writes(node, timeout_s)

    def wait_writes(self, node: Node, timeout_s: float = FORM_S) -> None:
        client = Client(node.endpoint, self.credentials, timeout=10)

        def serves() -> bool:
            try:
                return client.put(BUCKET, f"ready/{node.number}", b"x").status == 200
            except http.client.HTTPException as error:
                raise OSError(str(error)) from None

        self._wait(serves, timeout_s, f"{node.name} does not serve", node)

    def _wait(self, probe, timeout_s: float, what: str, node: Node | None = None):
        """Returns what `probe` gives once it gives something; a node that ended is waited for no longer."""
        end, last = time.monotonic() + timeout_s, ""
        while time.monotonic() < end:
            try:
                found = probe()
                if found:
                    return found
            except (OSError, NotServing) as error:
                last = str(error)
            if node and not node.running():
                break
            time.sleep(0.1)
        ends = "\n".join(f"{n.name}: {log_end(n, 600)}" for n in self.nodes)
        raise NotServing(f"{what} within {timeout_s:.0f} s; last: {last}; the logs' ends:\n{ends}")

    def stop_all(self) -> None:
        watched.remove([str(node.data / "admin.sock") for node in self.nodes[: self.members]])
        for node in self.nodes:
            if node.running():
                self.go_on(node)
                node.signal(signal.SIGTERM)
        wait_until(lambda: not any(node.running() for node in self.nodes), 15)
        for node in self.nodes:
            if node.running():
                self.kill(node)


def reached(listed: dict) -> list[str]:
    """Where a listed node is reached, over whatever transport."""
    return [address.removeprefix("tcp://") for address in listed["addresses"]]


def start_line(number: int) -> str:
    """Returns the line in a node's log before its process is started for the so manieth time."""
    return f"--- start {number}\n"


def log_end(node: Node, size: int = 2000) -> str:
    return node.log.read_bytes()[-size:].decode(errors="replace") if node.log.exists() else ""
