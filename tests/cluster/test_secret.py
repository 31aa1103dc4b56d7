"""The cluster's secret: it changes under load, and alone it opens nothing."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import pytest
from cluster.loopback import Loopback, configure
from faults.cluster import BUCKET, CLUSTER_PORT, S3_PORT, Cluster, Node, NotServing
from install.test_upgrade import Writer, go_on, healthy
from support.client import Client
from support.server import wait_until

pytestmark = pytest.mark.process

SSE = [("x-amz-server-side-encryption", "AES256")]


def point(node: Node, secret: Path, previous: Path | None) -> None:
    """Names the files of the secrets in a node's settings."""
    file = node.folder / "archipel.toml"
    lines = [line for line in file.read_text().splitlines() if not line.startswith(("secret_file", "previous_secret_file"))]
    file.write_text("\n".join(lines) + "\n")
    configure(node, "cluster", f'secret_file = "{secret}"' + (f'\nprevious_secret_file = "{previous}"' if previous else ""))


def restart_all(cluster: Cluster, writers: list[Writer], secret: Path, previous: Path | None) -> None:
    for node in cluster.nodes:
        cluster.stop(node)
        point(node, secret, previous)
        cluster.start(node)
        cluster.wait_writes(node)
        assert wait_until(lambda: healthy(cluster), 120), [node.log.read_text()[-1500:] for node in cluster.nodes]
        go_on(writers, 2)


def test_secret_changes_under_load(tmp_path):
    """As the manual says it, behind a balancer: each request succeeds, and keys and encrypted objects stay readable."""
    cluster = Cluster(tmp_path, Loopback(3))
    writers = []
    try:
        cluster.form()
        clients = [Client(node.endpoint, cluster.credentials, timeout=30) for node in cluster.nodes]
        assert clients[0].request("PUT", f"/{BUCKET}/sealed", body=b"sealed", headers=SSE).status == 200
        writers = [Writer(number, cluster) for number in range(2)]
        for writer in writers:
            writer.start()
        go_on(writers, 2)
        old, new = tmp_path / "secret", tmp_path / "new-secret"
        new.write_text(secrets.token_hex(32))
        new.chmod(0o600)
        restart_all(cluster, writers, new, old)
        restart_all(cluster, writers, new, None)
        old.unlink()
        for writer in writers:
            writer.ended.set()
        for writer in writers:
            writer.join(60)
            assert not writer.wrong and not writer.is_alive(), writer.wrong
        for client in clients:
            assert client.request("GET", f"/{BUCKET}/sealed").body == b"sealed"
        for node in cluster.nodes:
            ring = node.admin("GET", "/v1/keyring")
            assert (ring["closed_secrets"], ring.get("trouble")) == (0, None)
    finally:
        for writer in writers:
            writer.ended.set()
        cluster.stop_all()


def test_stranger_with_the_secret_reads_nothing(tmp_path):
    """A node that nobody admitted knows the secret and finds the others: it gets to see no row, no key, no content."""
    network = Loopback(4)
    cluster = Cluster(tmp_path, network)
    stranger = cluster.nodes.pop()
    network.nodes = 3
    cluster.members = 3
    mark = f"mark-{secrets.token_hex(8)}"
    try:
        cluster.form()
        client = Client(cluster.nodes[0].endpoint, cluster.credentials, timeout=30)
        assert client.request("PUT", f"/{BUCKET}/{mark}", body=mark.encode() * 3000).status == 200
        cluster.start(stranger)
        cluster.wait_admin(stranger)
        cluster.learn_id(stranger)

        def met() -> bool:
            """The members list it, and it knows them."""
            listed = [{one["id"] for one in node.admin("GET", "/v1/nodes")["items"]} for node in (cluster.nodes[0], stranger)]
            return stranger.id in listed[0] and len(listed[1]) == 4

        assert wait_until(met, 60)
        asks = Client(f"http://{network.address(3)}:{S3_PORT}", cluster.credentials, timeout=10)
        until = time.monotonic() + 5
        while time.monotonic() < until:
            for path in (f"/{BUCKET}/{mark}", f"/{BUCKET}", "/"):
                answer = asks.request("GET", path)
                assert answer.status == 503, (path, answer.status, answer.body)
            with pytest.raises(NotServing):
                stranger.admin("GET", "/v1/buckets")
            time.sleep(0.2)
        kept = b"".join(path.read_bytes() for path in stranger.data.rglob("*") if path.is_file())
        for name in (mark, BUCKET, cluster.credentials.access_key, cluster.credentials.secret_key):
            assert name.encode() not in kept, f"the stranger has {name}"
        # The search finds these names where they are: a member has them.
        own = b"".join(path.read_bytes() for path in cluster.nodes[0].data.rglob("*") if path.is_file())
        assert cluster.credentials.access_key.encode() in own and mark.encode() in own
    finally:
        cluster.nodes.append(stranger)
        cluster.stop_all()
