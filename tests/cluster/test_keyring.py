"""The keyring gets a new key and another secret under load, and what stands on the disks holds no secret."""

from __future__ import annotations

import json
import secrets
import subprocess
import threading
from pathlib import Path

import pytest
from cluster.loopback import configure, running
from faults.cluster import BUCKET, Cluster, Node, NotServing
from install.test_upgrade import Writer as Balanced
from install.test_upgrade import go_on, healthy
from support.client import Client
from support.server import binary, wait_until

pytestmark = pytest.mark.process

SSE = [("x-amz-server-side-encryption", "AES256")]


def shortened(cluster: Cluster) -> None:
    """A lease and a day that a test can wait for."""
    for node in cluster.nodes:
        configure(node, "limits", "control_lease_seconds = 5\nlifecycle_day_seconds = 10")


def keyring(cluster: Cluster) -> dict:
    return cluster.nodes[0].admin("GET", "/v1/keyring")


class Writer(threading.Thread):
    """Writes encrypted objects through one node and reads them through another."""

    def __init__(self, number: int, cluster: Cluster):
        super().__init__(daemon=True)
        self.number, self.ended, self.wrong, self.done = number, threading.Event(), [], 0
        there, here = cluster.nodes[number % 3], cluster.nodes[(number + 1) % 3]
        self.writes = Client(there.endpoint, cluster.credentials, timeout=30)
        self.reads = Client(here.endpoint, cluster.credentials, timeout=30)

    def run(self) -> None:
        while not self.ended.is_set() and not self.wrong:
            path, body = f"/{BUCKET}/load/{self.number}-{self.done % 20}", f"{self.number} {self.done} ".encode() * 3000
            try:
                put = self.writes.request("PUT", path, headers=SSE, body=body)
                got = self.reads.request("GET", path)
            except Exception as error:  # told by the test
                self.wrong.append(repr(error))
                return
            if put.status != 200 or got.status != 200 or got.body != body:
                self.wrong.append((put.status, put.body, got.status, got.body[:100]))
            self.done += 1


def test_rotation_under_load(tmp_path):
    """No request fails, everything is wrapped by the new key, and everything from before can be read."""
    with running(tmp_path, 3, shortened) as cluster:
        client = Client(cluster.nodes[0].endpoint, cluster.credentials, timeout=30)
        bodies = {f"/{BUCKET}/before/{number}": f"<{number}>".encode() * 20_000 for number in range(10)}
        for path, body in bodies.items():
            assert client.request("PUT", path, headers=SSE, body=body).status == 200
        heads = {path: client.request("HEAD", path).headers for path in bodies}
        (earlier,) = [key["id"] for key in keyring(cluster)["keys"]]
        writers = [Writer(number, cluster) for number in range(2)]
        for writer in writers:
            writer.start()
        rotated = cluster.nodes[1].admin("POST", "/v1/keyring/rotate")
        (newest,) = [key["id"] for key in rotated["keys"] if key["newest"]]
        assert newest != earlier and [key["id"] for key in rotated["keys"]] == [earlier, newest]
        assert wait_until(lambda: keyring(cluster)["rewrapped"] >= len(bodies), 120), keyring(cluster)
        assert wait_until(lambda: not keyring(cluster)["rotating"], 180), keyring(cluster)
        for writer in writers:
            writer.ended.set()
        for writer in writers:
            writer.join(60)
            assert writer.done and not writer.wrong and not writer.is_alive(), writer.wrong
        ring = keyring(cluster)
        assert [key["id"] for key in ring["keys"]] == [earlier, newest] and ring["rewrapped"] >= len(bodies)
        assert (ring["failed"], ring["closed_secrets"]) == (0, 0)
        for node in cluster.nodes:
            cluster.stop(node)
            cluster.start(node)
        cluster.wait_serving()
        for path, body in bodies.items():
            got = client.request("GET", path)
            assert (got.status, got.body) == (200, body)
            for name in ("etag", "last-modified"):
                assert got.headers[name] == heads[path][name]
        assert keyring(cluster)["trouble"] is None


def protect(node: Node, key: Path | None, previous: Path | None = None) -> None:
    """Names the files of the keyring's secrets in a node's settings."""
    file = node.folder / "archipel.toml"
    others = file.read_text().split("[encryption]\n")[0]
    named = f'[encryption]\nkey_file = "{key}"\n' if key else ""
    file.write_text(others + named + (f'previous_key_file = "{previous}"\n' if previous else ""))


def test_move_to_a_key_file_under_load(tmp_path):
    """As the manual says it, behind a balancer: every node serves all the time, and afterwards the file is needed."""
    with running(tmp_path, 3) as cluster:
        clients = [Client(node.endpoint, cluster.credentials, timeout=30) for node in cluster.nodes]
        path, body = f"/{BUCKET}/before", b"before" * 20_000
        assert clients[0].request("PUT", path, headers=SSE, body=body).status == 200
        old, new = tmp_path / "secret", tmp_path / "encryption-key"
        new.write_text(secrets.token_hex(32))
        new.chmod(0o600)
        writers = [Balanced(number, cluster) for number in range(2)]

        def restart(node: Node) -> None:
            cluster.stop(node)
            cluster.start(node)
            cluster.wait_writes(node)
            assert wait_until(lambda: healthy(cluster), 120), [one.log.read_text()[-1500:] for one in cluster.nodes]
            go_on(writers, 2)
            for number, client in enumerate(clients):
                got = client.request("GET", path)
                assert (got.status, got.body) == (200, body), (number, got.status)
                assert client.request("PUT", f"/{BUCKET}/sealed/{number}", headers=SSE, body=body).status == 200
                ring = cluster.nodes[number].admin("GET", "/v1/keyring")
                assert (ring["closed_secrets"], ring.get("trouble")) == (0, None), (number, ring)

        try:
            for writer in writers:
                writer.start()
            for node in cluster.nodes:
                protect(node, new, old)
                restart(node)
                if node is cluster.nodes[0]:
                    restart(cluster.nodes[1])  # with its old settings
            for node in cluster.nodes:
                protect(node, new)
                restart(node)
        finally:
            for writer in writers:
                writer.ended.set()
        for writer in writers:
            writer.join(60)
            assert not writer.wrong and not writer.is_alive(), writer.wrong
        last = cluster.nodes[2]
        protect(last, None)
        cluster.stop(last)
        cluster.start(last)
        cluster.wait_admin(last)

        def trouble() -> str:
            """A node that has read nothing since its start answers 503 to all, also to clients of S3."""
            try:
                return last.admin("GET", "/v1/keyring").get("trouble") or ""
            except NotServing as refused:
                return f"not known: {refused}"

        # The trouble first: after that the 503 of S3 is due to it.
        assert wait_until(lambda: "no secret of this node" in trouble(), 60), trouble()
        assert wait_until(lambda: clients[2].request("GET", path).status == 503, 60)
        assert clients[0].request("GET", path).body == body
        protect(last, new)
        cluster.stop(last)
        cluster.start(last)
        cluster.wait_writes(last)
        assert clients[2].request("GET", path).body == body


def test_a_new_secret_on_one_node_closes_no_other(tmp_path):
    """The first round of the manual is left out: one start of a node takes nothing from the others, and no start takes what others run with."""
    with running(tmp_path, 3) as cluster:
        clients = [Client(node.endpoint, cluster.credentials, timeout=30) for node in cluster.nodes]
        path, body = f"/{BUCKET}/before", b"before" * 20_000
        assert clients[0].request("PUT", path, headers=SSE, body=body).status == 200
        new = tmp_path / "encryption-key"
        new.write_text(secrets.token_hex(32))
        new.chmod(0o600)
        first, second, third = cluster.nodes

        def restart(node: Node) -> None:
            cluster.stop(node)
            cluster.start(node)
            cluster.wait_writes(node)

        def all_serve() -> None:
            for number, client in enumerate(clients):
                got = client.request("GET", path)
                assert (got.status, got.body) == (200, body), (number, got.status, got.body[:200])
                put = client.request("PUT", f"/{BUCKET}/sealed/{number}", headers=SSE, body=body)
                assert put.status == 200, (number, put.body)

        def trouble(node: Node) -> str:
            return node.admin("GET", "/v1/keyring").get("trouble") or ""

        protect(first, new)
        restart(first)
        all_serve()
        restart(second)  # with its old settings
        all_serve()
        assert not any(trouble(node) for node in cluster.nodes)

        restart(first)  # The second node had dropped the wrapping by the new secret.
        restart(first)
        # Now nothing is wrapped by the old secret. The others say what their next start would do.
        held = "after a restart it would refuse"
        assert wait_until(lambda: all(held in trouble(node) for node in (second, third)), 60), trouble(second)
        assert not trouble(first)
        all_serve()
        # Nobody else could open a key that this one adds.
        with pytest.raises(NotServing, match="no secret of this node"):
            second.admin("POST", "/v1/keyring/rotate")
        for node in (second, third):
            protect(node, new)
            restart(node)
        all_serve()
        assert wait_until(lambda: not any(trouble(node) for node in cluster.nodes), 60)


def test_disks_and_snapshots_show_no_secret(tmp_path):
    with running(tmp_path, 3) as cluster:
        client = Client(cluster.nodes[0].endpoint, cluster.credentials, timeout=30)
        assert client.request("PUT", f"/{BUCKET}/one", body=b"one").status == 200
        made = cluster.nodes[1].admin("POST", "/v1/keys", {"name": "another"})
        imported = {"id": "AKIMPORTED", "secret": "a-secret-that-was-imported", "name": "imported"}
        cluster.nodes[2].admin("POST", "/v1/keys", imported)
        keys = {cluster.credentials.access_key: cluster.credentials.secret_key}
        keys |= {key["id"]: key["secret"] for key in (made, imported)}
        # Changes of the row must not bring the secret back.
        for id in keys:
            cluster.nodes[0].admin("PATCH", f"/v1/keys/{id}", {"expires_ms": 4_000_000_000_000})
        for node in cluster.nodes:
            command = [str(binary()), "snapshot", "create", "--socket", str(node.data / "admin.sock"), "--json"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0 and json.loads(done.stdout), done.stderr
            shown = node.admin("GET", f"/v1/keys/{made['id']}/secret")
            assert shown["secret"] == made["secret"]
        for node in cluster.nodes:
            cluster.stop(node)
        for node in cluster.nodes:
            files = {path: path.read_bytes() for path in Path(node.data).rglob("*") if path.is_file()}
            snapshots = [bytes for path, bytes in files.items() if "snapshots" in path.parts]
            assert snapshots
            for id, secret in keys.items():
                # It is the place to look: the row of the key is there, in what is stored and in the snapshot.
                assert any(id.encode() in bytes for bytes in snapshots)
                shows = [path for path, bytes in files.items() if secret.encode() in bytes]
                assert not shows, f"the secret of {id} stands in {shows}"
        assert not any(secret in node.log.read_text() for node in cluster.nodes for secret in keys.values())
