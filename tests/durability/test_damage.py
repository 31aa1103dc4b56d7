"""Bits that flip in segment files and in metadata: never served, found on read, by scrub and by verification, repaired from another node."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from pathlib import Path

import pytest
from support.client import Client
from support.data import MIB, content
from support.server import Demo, binary, wait_until
from support.sigv4 import Credentials
from support.unchanged import Admin

pytestmark = pytest.mark.process

OBJECTS = {f"object {n}": content((n + 1) * MIB + 17, f"damage {n}") for n in range(4)}
SMALL = {f"small {n}": content(5_000 + n, f"damage small {n}") for n in range(8)}


class Damaged:
    """A demo of three nodes, and means to look into its second."""

    def __init__(self, folder: Path):
        self.demo = Demo(folder, nodes=3)
        self.info = self.demo.start()
        self.dir = Path(self.info.nodes[1]["dir"])

    def client(self, node: int) -> Client:
        info = self.info
        return Client("http://" + info.nodes[node]["s3"], Credentials(info.access_key, info.secret_key, info.region), timeout=30)

    def put(self, objects: dict[str, bytes] = OBJECTS) -> None:
        for key, body in objects.items():
            reply = self.client(0).put(self.info.bucket, key, body)
            assert reply.status == 200, reply

    def assert_whole(self, node: int, objects: dict[str, bytes] = OBJECTS) -> None:
        for key, body in objects.items():
            reply = self.client(node).get(self.info.bucket, key)
            assert reply.status == 200, reply
            assert reply.body == body, f"{key} through node {node} is not what was put"

    def ask(self, *arguments: str) -> dict:
        """Returns the JSON that a command for the second node prints."""
        command = [str(binary()), *arguments, "--data-dir", str(self.dir), "--json"]
        run = subprocess.run(command, capture_output=True, timeout=60, check=False)
        assert run.stdout, run.stderr
        return json.loads(run.stdout)

    def verify(self, *arguments: str) -> tuple[int, dict]:
        """The exit status of `archipel verify` through the second node, and what it found."""
        command = [str(binary()), "verify", *arguments, "--data-dir", str(self.dir), "--json"]
        run = subprocess.run(command, capture_output=True, timeout=120, check=False)
        return run.returncode, json.loads(run.stdout) if run.stdout else {}

    def blocks(self, node: int = 1) -> list[tuple[Path, int]]:
        """Where records begin, in a node's segments; the second one's by default."""
        found = []
        for segment in sorted(Path(self.info.nodes[node]["dir"]).glob("**/*.segment")):
            data = segment.read_bytes()
            at = data.find(b"\xa7Blk\x01")
            while at >= 0:
                found.append((segment, at))
                at = data.find(b"\xa7Blk\x01", at + 1)
        return found

    def flip(self, places: list[tuple[Path, int]]) -> None:
        for segment, record in places:
            with open(segment, "r+b") as file:
                file.seek(record + 64 + 5)
                byte = file.read(1)[0]
                file.seek(record + 64 + 5)
                file.write(bytes([byte ^ 0x20]))

    def in_metadata(self, body: bytes) -> list[tuple[Path, int]]:
        """Where the middle of a small object stands in the second node's metadata: also where it stood before."""
        found = []
        for segment in self.values():
            data = segment.read_bytes()
            at = data.find(body[1000:1100])
            while at >= 0:
                found.append((segment, at))
                at = data.find(body[1000:1100], at + 1)
        return found

    def values(self) -> list[Path]:
        """The segments of long values: the files after the journal's three."""
        return sorted(path for path in self.dir.glob("**/journal/*.segment") if int(path.stem) >= 3)

    def flip_in_metadata(self, objects: dict[str, bytes]) -> None:
        """Waits until a checkpoint has brought the bodies to segments, and changes a byte of each object there."""
        node = Admin(self.info.nodes[1]["admin"])

        def in_memory() -> bool:
            """Until a checkpoint has ended, what it brings to segments is read from memory."""
            return node.metric("archipel_metadata_journal_memory_bytes") >= min(map(len, objects.values()))

        whole = wait_until(lambda: all(self.in_metadata(body) for body in objects.values()) and not in_memory(), 60)
        assert whole, "not: the second node makes a checkpoint"
        for body in objects.values():
            for segment, at in self.in_metadata(body):
                with open(segment, "r+b") as file:
                    file.seek(at + 50)
                    file.write(bytes([body[1050] ^ 0x20]))

    def repair(self) -> dict:
        return self.ask("scrub", "status")["repair"]

    def repaired(self) -> int:
        return self.repair()["repaired"]

    def repairs_what_is_read(self, count: int, objects: dict[str, bytes] = OBJECTS) -> bool:
        """Reads all, again and again: if the second node is slow, another one may answer, and the damage is not met."""

        def repaired() -> bool:
            self.assert_whole(1, objects)
            return self.repaired() == count

        return wait_until(repaired, 60)


def test_flipped_bits_are_never_served_and_are_repaired(tmp_path):
    """Half of the second node's blocks rot: every object is whole through it; what was read is repaired, a scrub finds the rest."""
    world = Damaged(tmp_path / "nodes")
    try:
        world.put()
        assert wait_until(lambda: len(world.blocks()) >= 14, 30), "not: the second node holds all blocks"
        places = world.blocks()
        rotten = random.Random(5).sample(places, 7)
        world.flip(rotten)
        assert world.repairs_what_is_read(7), f"not: what was read is repaired: {world.repair()}"
        # Nobody reads these; the good copies that were written for the others are among them.
        world.flip([place for place in places if place not in rotten])
        world.ask("scrub", "start")
        assert wait_until(lambda: world.repaired() == 14, 60), "not: what the scrub found is repaired"
        world.ask("scrub", "start", "--rate", "1000")
        assert wait_until(lambda: not world.ask("scrub", "status")["scrub"]["running"], 60), "not: the scrub ends"
        scrub = world.ask("scrub", "status")
        assert scrub["scrub"]["damaged"] == 0 and scrub["repair"]["waiting"] == 0, scrub
        assert scrub["scrub"]["blocks"] >= 14, scrub
    finally:
        world.demo.stop()


@pytest.mark.long
def test_flipped_bits_in_metadata_are_never_served_and_are_repaired(tmp_path):
    """Small objects stand in metadata. All of them rot at the second node: they are whole through it, and repaired; so is what only a verification finds."""
    world = Damaged(tmp_path / "nodes")
    try:
        world.put(SMALL)
        assert wait_until(lambda: world.verify()[0] == 0, 30), "not: the second node knows all others"
        world.flip_in_metadata(SMALL)
        assert not any(world.in_metadata(body) for body in SMALL.values())
        assert world.repairs_what_is_read(len(SMALL), SMALL), f"not: what was read is repaired: {world.repair()}"
        world.flip_in_metadata(SMALL)
        status, found = world.verify()
        assert status == 1, found
        assert wait_until(lambda: world.repaired() == 2 * len(SMALL), 60), "not: what the verification found is repaired"
        assert world.verify("--deep")[0] == 0
        world.flip_in_metadata(SMALL)
        world.ask("scrub", "start", "--rate", "1000")
        assert wait_until(lambda: not world.ask("scrub", "status")["scrub"]["running"], 60), "not: the scrub ends"
        scrub = world.ask("scrub", "status")
        assert scrub["scrub"]["damaged"] == len(SMALL) and scrub["repair"]["repaired"] == 3 * len(SMALL), scrub
        # Nobody reads what is overwritten or deleted: that it is damaged does not matter.
        world.flip_in_metadata(SMALL)
        new = {key: body[::-1] for key, body in SMALL.items()}
        world.put(new)
        world.assert_whole(1, new)
        assert wait_until(lambda: world.verify("--deep")[0] == 0, 30)
        assert world.repaired() == 3 * len(SMALL)
    finally:
        world.demo.stop()


def test_verify_tells_what_is_wrong(tmp_path):
    """Whole: status 0. A block that rotted where nobody reads: 1 if content is read, then repaired by `repair blocks`. A node away: 2."""
    world = Damaged(tmp_path / "nodes")
    try:
        world.put()

        def is_whole() -> bool:
            status, found = world.verify("--deep")
            return status == 0 and [node["verified"] for node in found["nodes"]] == [14, 14, 14]

        # A write is answered before the last node has it.
        assert wait_until(lambda: all(len(world.blocks(node)) >= 14 for node in range(3)), 30), "not: all hold all blocks"
        assert wait_until(is_whole, 60), world.verify("--deep")
        world.flip(world.blocks()[:1])
        assert world.verify()[0] == 0, "nobody read it"
        status, found = world.verify("--deep")
        assert status == 1, found
        assert sorted(node["problems"] for node in found["nodes"]) == [0, 0, 1], found
        assert wait_until(lambda: world.repaired() == 1, 60), "not: what was found is repaired"
        world.flip(world.blocks()[1:2])
        repaired = world.ask("repair", "blocks")
        assert sum(node["repair"]["repaired"] for node in repaired["nodes"]) == 2, repaired
        assert world.verify("--deep")[0] == 0
        os.kill(int(world.info.nodes[2]["pid"]), signal.SIGKILL)
        status, found = world.verify()
        assert status == 2, found
        assert sum(node["away"] is not None for node in found["nodes"]) == 1, found
    finally:
        world.demo.stop()
