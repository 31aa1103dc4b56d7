"""The first start: one node or several become a store with a bucket and a key, and nobody does anything else."""

from __future__ import annotations

import json
import random
import shutil

import pytest
from cluster.loopback import Loopback
from install.nodes import BUCKET, KEY, Group, get, health, put, shown
from support.server import wait_until

pytestmark = pytest.mark.process


def group(folder, machines: int, wanted: int) -> Group:
    """All may join through any, themselves too: the same settings on all."""
    network = Loopback(machines)
    seeds = [f"{network.address(n)}:3901" for n in range(machines)]
    return Group(folder, network, f"join = {json.dumps(seeds)}", wanted)


def test_one_node_has_its_bucket_and_key_after_the_first_start_only(tmp_path):
    nodes = group(tmp_path, 1, 1)
    file = nodes.nodes[0].folder / "archipel.toml"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if not line.startswith(("join", "first_nodes"))))
    (node,) = nodes.nodes
    try:
        nodes.start(node)
        nodes.wait_first_key()
        assert get(node, "ready") == b"x"
        assert [health(node, check)[0] for check in ("live", "ready", "quorum")] == [200] * 3
        assert health(node, "ready") == (200, '{"healthy":true}')
        assert health(node, "ready", "HEAD") == (200, "")
        assert health(node, "else")[0] == 403
        node.admin("DELETE", f"/v1/keys/{KEY.access_key}")
        nodes.stop(node)
        nodes.start(node)
        nodes.wait_admin(node)
        assert wait_until(lambda: health(node, "ready")[0] == 200)
        assert node.admin("GET", "/v1/keys")["items"] == []
        assert [b["name"] for b in node.admin("GET", "/v1/buckets")["items"]] == [BUCKET]
    finally:
        nodes.stop_all()


@pytest.mark.parametrize("seed", range(3))
def test_three_nodes_in_any_order_with_one_killed_in_the_middle(tmp_path, seed):
    chance = random.Random(seed)
    nodes = group(tmp_path, 3, 3)
    order = chance.sample(nodes.nodes, 3)
    try:
        for node in order:
            nodes.start(node)
            wait_until(lambda: False, chance.uniform(0, 1.5))
        victim = chance.choice(nodes.nodes)
        nodes.kill(victim)
        wait_until(lambda: False, chance.uniform(0, 2))
        nodes.start(victim)
        layouts = nodes.wait_formed(3)
        assert len({shown(layout) for layout in layouts}) == 1
        assert layouts[0]["redundancy"]["replicas"] == 3
        assert {node["zone"] for node in layouts[0]["nodes"]} == {"zone0", "zone1", "zone2"}
        nodes.wait_first_key()
        assert put(nodes.nodes[0], "k", b"through the first") == 200
        assert [get(node, "k") for node in nodes.nodes] == [b"through the first"] * 3
        assert wait_until(lambda: all(health(node, "quorum")[0] == 200 for node in nodes.nodes))
    finally:
        nodes.stop_all()


def test_two_of_three_wait_and_a_node_with_a_layout_is_joined(tmp_path):
    nodes = group(tmp_path, 3, 3)
    old, *new = nodes.nodes
    try:
        for node in new:
            nodes.start(node)
        for node in new:
            nodes.wait_admin(node)
            assert wait_until(lambda: "2 of 3 nodes are there" in node.log.read_text(), 30)
        missing = f"no node answers at {nodes.network.address(nodes.nodes.index(old))}:3901: "
        for node in new:

            def warns(node=node) -> bool:
                warnings = node.admin("GET", "/v1/status").get("warnings", [])
                lost = any(line.startswith(missing) and "; fix: " in line for line in warnings)
                return lost and "the first layout waits: 2 of 3 nodes are there" in warnings

            assert wait_until(warns, 30), node.admin("GET", "/v1/status")
        assert nodes.layouts() == [None] * 3
        assert health(new[0], "live")[0] == 200 and health(new[0], "ready")[0] == 503
        # The third is no new node: it has founded a cluster of its own before.
        file = old.folder / "archipel.toml"
        settings = file.read_text()
        lines = settings.splitlines(keepends=True)
        file.write_text("".join(line for line in lines if not line.startswith(("join", "first_nodes"))))
        nodes.start(old)
        layouts = nodes.wait_formed(1)
        assert len({shown(layout) for layout in layouts}) == 1

        def listed() -> list[bool]:
            return sorted(node["in_layout"] for node in old.admin("GET", "/v1/nodes")["items"])

        # One of the new nodes may have heard of the layout from the other.
        assert wait_until(lambda: listed() == [False, False, True], 30), listed()
    finally:
        nodes.stop_all()


def test_a_machine_with_an_empty_disk_joins_the_cluster_that_exists(tmp_path):
    nodes = group(tmp_path, 3, 3)
    lost = nodes.nodes[0]
    try:
        for node in nodes.nodes:
            nodes.start(node)
        before = nodes.wait_formed(3)[1]
        nodes.wait_first_key()
        assert put(lost, "kept", b"by the others") == 200
        nodes.kill(lost)
        shutil.rmtree(lost.data)
        lost.data.mkdir()
        nodes.start(lost)
        after = nodes.wait_formed(3)[0]
        assert shown(after) == shown(before)
        id = lost.admin("GET", "/v1/status")["node_id"]
        assert id not in shown(after)
        # The others answer it once an operator says so.
        assert put(lost, "before", b"x") == 503
        nodes.nodes[1].admin("PUT", f"/v1/nodes/{id}/admission")
        assert wait_until(lambda: put(lost, "after", b"x") == 200, 60)
        assert get(lost, "kept") == b"by the others"
    finally:
        nodes.stop_all()
