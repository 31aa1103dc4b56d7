"""Snapshots of metadata: a node that is alone goes back to one; a node of a cluster is refused. Copies of all nodes, restored together."""

from __future__ import annotations

import json
import shutil
import subprocess
import time

import pytest
from support.client import Client
from support.data import MIB, content
from support.server import Demo, binary
from support.sigv4 import Credentials

pytestmark = pytest.mark.process


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([str(binary()), *arguments], capture_output=True, text=True, timeout=60, check=False)


def wait_for(condition, what: str, wait_s: float = 60):
    """The first answer that is one."""
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        if answer := condition():
            return answer
        time.sleep(0.2)
    raise AssertionError(f"not within {wait_s} s: {what}")


def client_of(info) -> Client:
    return Client(info.endpoint, Credentials(info.access_key, info.secret_key, info.region), timeout=20)


def test_a_node_that_is_alone_goes_back(tmp_path):
    """Objects of the snapshot are whole; later ones are gone; what was there before the restore is kept."""
    folder = tmp_path / "node"
    demo = Demo(folder)
    config = tmp_path / "archipel.toml"
    config.write_text(f'data_dir = "{folder}"\n')
    try:
        info = demo.start()
        assert client_of(info).put(info.bucket, "before", content(2 * MIB, "before")).status == 200
        made = run("snapshot", "create", "--data-dir", str(folder), "--json")
        snapshot = json.loads(made.stdout)
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
        snapshot = json.loads(made.stdout)
        demo.stop()
        refused = run("snapshot", "restore", snapshot["name"], "--config", node["config"])
        assert refused.returncode == 1 and "belongs to a cluster" in refused.stderr, refused
        # Nor does it if an operator takes the cluster out of its configuration.
        config = tmp_path / "alone.toml"
        config.write_text(f'data_dir = "{node["dir"]}"\n')
        refused = run("snapshot", "restore", snapshot["name"], "--config", str(config))
        assert refused.returncode == 1 and "belongs to a cluster" in refused.stderr, refused
    finally:
        demo.kill()


def test_nodes_that_were_all_put_back_believe_one_another(tmp_path):
    """Copies of different moments contradict one another, and nobody answers, until each node is told to be believed."""
    folder, copies = tmp_path / "nodes", tmp_path / "copies"
    demo = Demo(folder, nodes=3)
    servers = []
    try:
        info = demo.start()
        assert client_of(info).put(info.bucket, "early", content(2 * MIB, "early")).status == 200
        demo.stop()
        nodes = [node["dir"] for node in info.nodes]
        for number, node in enumerate(nodes[:2]):
            shutil.copytree(node, copies / str(number), ignore=shutil.ignore_patterns("*.sock"))
        info = demo.start()
        assert client_of(info).put(info.bucket, "late", content(2 * MIB, "late")).status == 200
        # A node tells the others how far it is once they have borne it out.
        time.sleep(5)
        demo.stop()
        configs = [node["config"] for node in info.nodes]
        for number, node in enumerate(nodes[:2]):
            shutil.rmtree(node)
            shutil.copytree(copies / str(number), node)
        logs = [tmp_path / f"server-{number}.log" for number in range(3)]
        for config, log in zip(configs, logs, strict=True):
            with open(log, "wb") as out:
                servers.append(subprocess.Popen([str(binary()), "server", "--config", config], stderr=out))
        told = "rolled back to an older state"
        wait_for(lambda: all(told in log.read_text(errors="replace") for log in logs[:2]), "they are noticed")
        refused = run("snapshot", "accept", "--config", configs[0])
        assert refused.returncode == 1 and "in use" in refused.stderr, refused
        for server in servers:
            server.terminate()
        assert [server.wait(60) for server in servers] == [0, 0, 0]
        for config in configs:
            accepted = run("snapshot", "accept", "--config", config)
            assert accepted.returncode == 0 and "is accepted" in accepted.stdout, accepted
        info = demo.start()
        client = client_of(info)
        assert client.get(info.bucket, "early").body == content(2 * MIB, "early")
        # One node has it: no quorum knows it until the others have fetched it.
        wait_for(lambda: client.get(info.bucket, "late").status == 200, "what one node has comes to the others")
        assert client.get(info.bucket, "late").body == content(2 * MIB, "late")
        assert client.put(info.bucket, "later", content(2 * MIB, "later")).status == 200
        verify = ("verify", "--deep", "--data-dir", nodes[0])
        wait_for(lambda: run(*verify).returncode == 0, "all is whole", 120)
    finally:
        for server in servers:
            server.kill()
            server.wait()
        demo.kill()


def test_a_node_that_was_in_no_cluster_is_not_believed(tmp_path):
    config = tmp_path / "archipel.toml"
    config.write_text(f'data_dir = "{tmp_path / "nothing"}"\n')
    refused = run("snapshot", "accept", "--config", str(config))
    assert refused.returncode == 1 and "there is no folder" in refused.stderr, refused
    assert not (tmp_path / "nothing").exists()
