"""An operator: changes layouts, has blocks repaired, waits, and has the cluster prove that all is whole."""

from __future__ import annotations

import json
import subprocess
import time

from faults.cluster import Cluster, Node, NotServing
from support.server import binary

CAPACITY = 100_000_000_000
MOVE_S, REPAIR_S = 180, 180
RATE = 1 << 30


class Operator:
    """Acts on a cluster through whichever node answers."""

    def __init__(self, cluster: Cluster, note):
        self.cluster, self.note = cluster, note

    def ask(self, method: str, path: str, body: dict | None = None, nodes: list[Node] | None = None):
        """Returns the answer of the first node that does not refuse or fail; raises the last one's failure else."""
        failure: Exception = NotServing("no node runs")
        for node in nodes or self.cluster.nodes:
            try:
                if node.running() and not node.paused:
                    return node.admin(method, path, body)
            except (OSError, NotServing) as error:
                failure = error
        raise failure

    def members(self) -> list[str]:
        """Ids of the nodes that hold data by the newest layout."""
        return [node["id"] for node in self.ask("GET", "/v1/layout")["nodes"] if node["capacity_bytes"]]

    def assigned(self, node: Node) -> dict:
        """Returns what is staged for a node."""
        return {"node": node.id, "zone": f"zone{node.number}", "capacity_bytes": CAPACITY}

    def change(self, stage: dict, timeout_s: float = MOVE_S, needed: bool = False) -> int:
        """Stages and applies, again until it is done or was not needed: nodes fail, and one change follows another. If it
        is surely `needed`, who is asked does not know yet why, such as that a node came back with another store.
        """
        end, failure = time.monotonic() + timeout_s, None
        while time.monotonic() < end:
            try:
                staged = self.ask("POST", "/v1/layout/stage", stage)["staged"]
                if staged is None and not needed:
                    return 0
                if staged is None or staged.get("refused"):
                    failure = "nothing is staged" if staged is None else staged["refused"]
                else:
                    body = {"version": staged["version"], "revision": staged["revision"]}
                    self.ask("POST", "/v1/layout/apply", body)
                    return staged["version"]
            except (OSError, NotServing) as error:
                failure = error
                if self.is_removed(stage):
                    return 0
            time.sleep(0.5)
        raise NotServing(f"a change of the layout was not accepted within {timeout_s:.0f} s: {stage}: {failure}")

    def is_removed(self, stage: dict) -> bool:
        """Returns true if a change that removes nodes was applied though no answer came: staged again it is refused, as they
        are gone."""
        try:
            members = self.members()
        except (OSError, NotServing):
            return False
        removed, assigned = stage.get("remove", []), [node["node"] for node in stage.get("assign", [])]
        return bool(removed) and not set(removed) & set(members) and set(assigned) <= set(members)

    def admit_spares(self, shown: dict) -> None:
        """Has the others answer the nodes that the layout does not have: clients ask all of them."""
        held = {node["id"] for node in shown["nodes"]}
        for node in self.cluster.nodes:
            if node.id not in held:
                self.ask("PUT", f"/v1/nodes/{node.id}/admission")

    def wait_moved(self, timeout_s: float = MOVE_S) -> float:
        """Until no data moves, and all nodes are answered; in how many seconds."""
        began, shown = time.monotonic(), None
        while time.monotonic() - began < timeout_s:
            try:
                shown = self.ask("GET", "/v1/layout")
                if shown["progress"] is None:
                    self.admit_spares(shown)
                    return time.monotonic() - began
            except (OSError, NotServing) as error:
                shown = error
            time.sleep(0.3)
        raise NotServing(f"data did not arrive within {timeout_s:.0f} s: {shown}")

    def repair_blocks(self, timeout_s: float = REPAIR_S) -> None:
        """All nodes read what they store, and repair it; until they have."""
        end = time.monotonic() + timeout_s
        shown = self.ask("POST", "/v1/repair/blocks", {"rate": RATE})
        while any(busy(node) for node in shown["nodes"]):
            if time.monotonic() > end:
                raise NotServing(f"blocks were not repaired within {timeout_s:.0f} s: {json.dumps(shown)[:3000]}")
            time.sleep(0.3)
            shown = self.ask("GET", "/v1/repair")
        repaired = sum(node["repair"]["repaired"] for node in shown["nodes"])
        self.note(f"blocks are repaired; {repaired} replaced since the nodes' starts")

    def verify(self, *options: str) -> tuple[int, str]:
        """`archipel verify`: its exit status, and what it says."""
        node = next(node for node in self.cluster.nodes if node.running())
        command = [str(binary()), "verify", *options, "--socket", str(node.data / "admin.sock")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=REPAIR_S)
        except subprocess.TimeoutExpired:
            return 2, f"no end within {REPAIR_S} s"
        return done.returncode, done.stdout + done.stderr

    def wait_whole(self, timeout_s: float = REPAIR_S) -> float:
        """Until `archipel verify --deep` ends with status 0; in how many seconds."""
        began, tries = time.monotonic(), 0
        while True:
            status, said = self.verify("--deep")
            tries += 1
            if status == 0:
                took = time.monotonic() - began
                self.note(f"verify --deep: all is whole, {took:.1f} s, {tries} tries")
                return took
            self.note(f"verify --deep: {status}\n{said}")
            if time.monotonic() - began > timeout_s:
                raise NotServing(f"verify --deep is not clean within {timeout_s:.0f} s: {said}")
            time.sleep(1)


def busy(node: dict) -> bool:
    repair = node["repair"]
    return node["scrub"]["running"] or repair["waiting"] > repair["stuck"]
