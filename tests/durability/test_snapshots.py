"""Snapshots of metadata: a node that is alone goes back to one; a node of a cluster is refused."""

from __future__ import annotations

import json
import subprocess

import pytest
from support.client import Client
from support.data import MIB, content
from support.server import Demo, binary
from support.sigv4 import Credentials

pytestmark = pytest.mark.process


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([str(binary()), *arguments], capture_output=True, text=True, timeout=60, check=False)


def client_of(info) -> Client:
    return Client(info.endpoint, Credentials(info.access_key, info.secret_key, info.region), timeout=20)


def test_a_node_that_is_alone_goes_back(tmp_path):
    """What was there at the snapshot is whole; what came later is gone; what was there before the restore is kept."""
    folder = tmp_path / "node"
    demo = Demo(folder)
    config = tmp_path / "archipel.toml"
    config.write_text(f'data_dir = "{folder}"\n')
    try:
        info = demo.start()
        assert client_of(info).put(info.bucket, "before", content(2 * MIB, "before")).status == 200
        made = run("snapshot", "create", "--data-dir", str(folder), "--json")
        (snapshot,) = json.loads(made.stdout)
        assert client_of(info).put(info.bucket, "after", content(2 * MIB, "after")).status == 200
        refused = run("snapshot", "restore", snapshot["name"], "--config", str(config))
        assert refused.returncode == 1 and "in use" in refused.stderr, refused
        demo.stop()
        restored = run("snapshot", "restore", snapshot["name"], "--config", str(config))
        assert restored.returncode == 0, restored
        assert (folder / f"metadata.before-{snapshot['name']}" / "engine.json").exists()
        info = demo.start()
        assert client_of(info).get(info.bucket, "before").body == content(2 * MIB, "before")
        assert client_of(info).get(info.bucket, "after").status == 404
        assert client_of(info).put(info.bucket, "later", content(2 * MIB, "later")).status == 200
        verified = run("verify", "--deep", "--data-dir", str(folder))
        assert verified.returncode == 0, verified
        listed = json.loads(run("snapshot", "list", "--data-dir", str(folder), "--json").stdout)
        assert [one["name"] for one in listed] == [snapshot["name"]]
    finally:
        demo.kill()


def test_a_node_of_a_cluster_does_not(tmp_path):
    demo = Demo(tmp_path / "nodes", nodes=3)
    try:
        info = demo.start()
        node = info.nodes[1]
        made = run("snapshot", "create", "--data-dir", node["dir"], "--json")
        (snapshot,) = json.loads(made.stdout)
        demo.stop()
        refused = run("snapshot", "restore", snapshot["name"], "--config", node["config"])
        assert refused.returncode == 1 and "belongs to a cluster" in refused.stderr, refused
        # Nor does it if somebody takes the cluster out of its configuration.
        config = tmp_path / "alone.toml"
        config.write_text(f'data_dir = "{node["dir"]}"\n')
        refused = run("snapshot", "restore", snapshot["name"], "--config", str(config))
        assert refused.returncode == 1 and "belongs to a cluster" in refused.stderr, refused
    finally:
        demo.kill()
