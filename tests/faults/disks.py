"""Faults of a node's disks: bits flip, a folder of blocks or everything is lost, there is no room left."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from pathlib import Path

from faults.cluster import Node

MAGIC = b"\xa7Blk\x01"
HEADER = 64
ROOM = 3 << 30  # of each node's file system; memory is taken for what is stored only
EARLY = 200 << 20  # less than what a node keeps in reserve: it refuses writes
FILL_TRIES = 20
DISKS = ("disk0", "disk1")


def mount(node: Node) -> None:
    """A file system of its own for the node's data, which ends with this process's namespaces."""
    node.data.mkdir(exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={ROOM}", "none", str(node.data))


def unmount(node: Node) -> None:
    subprocess.run(["umount", "-l", str(node.data)], capture_output=True)


def fill(node: Node, left: int) -> None:
    """Shrinks the file system so that about so many bytes are left."""
    for tries_left in reversed(range(FILL_TRIES)):
        room = os.statvfs(node.data)
        used = (room.f_blocks - room.f_bfree) * room.f_frsize
        try:
            return _run("mount", "-o", f"remount,size={used + left}", str(node.data))
        except RuntimeError:  # more was written meanwhile than was to be left
            if tries_left == 0:
                raise


def give_room(node: Node) -> None:
    _run("mount", "-o", f"remount,size={ROOM}", str(node.data))


def flip(node: Node, most: int, rng: random.Random) -> int:
    """Flips a bit in each of at most so many stored blocks; how many there were."""
    places = records(node)
    chosen = rng.sample(places, min(most, len(places)))
    for segment, record in chosen:
        flip_bit(segment, record + HEADER + rng.randrange(64), rng)
    return len(chosen)


def records(node: Node) -> list[tuple[Path, int]]:
    """Where records of blocks begin."""
    found = []
    for segment in sorted(node.data.glob("**/*.segment")):
        data = segment.read_bytes()
        at = data.find(MAGIC)
        while at >= 0:
            found.append((segment, at))
            at = data.find(MAGIC, at + 1)
    return found


def flip_bit(file: Path, at: int, rng: random.Random) -> None:
    with open(file, "r+b") as out:
        out.seek(at)
        byte = out.read(1)
        if byte:
            out.seek(at)
            out.write(bytes([byte[0] ^ 1 << rng.randrange(8)]))


def lose_blocks(node: Node, names: list[str]) -> None:
    """Empties folders of blocks of a node that does not run, and says that they are lost for good, as
    docs/operations/disk-failed.md tells."""
    registry = node.data / "disks.json"
    known = json.loads(registry.read_text())
    for name in names:
        folder = node.data / name
        shutil.rmtree(folder)
        folder.mkdir()
        known["disks"] = [disk for disk in known["disks"] if disk["path"] != str(folder)]
    registry.write_text(json.dumps(known))


def lose_everything(node: Node, key_too: bool) -> None:
    """Empties the data folder of a node that does not run, as docs/operations/node-lost.md tells."""
    for entry in node.data.iterdir():
        if entry.name == "node.key" and not key_too:
            continue
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.decode().strip()}")
