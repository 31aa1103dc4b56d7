"""A full disk: writes are refused early and clearly, reads and deletes go on, and space comes back."""

from __future__ import annotations

import errno
import subprocess

import pytest
from durability.ledger import Ledger, digest, verify
from durability.test_kill import client_of
from support.data import MIB, content
from support.server import Demo, wait_until

pytestmark = pytest.mark.process

RESERVE = {"ARCHIPEL_LIMITS_DISK_RESERVE": "256MiB"}  # the default


@pytest.fixture
def small_disk(tmp_path):
    """700 MiB of tmpfs: a node keeps some 256 MiB of it in reserve."""
    where = tmp_path / "disk"
    where.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700m", "tmpfs", str(where)], capture_output=True)
    assert made.returncode == 0, f"mounting needs root: {made.stderr.decode()}"
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


def test_fill_read_delete_and_write_again(small_disk):
    demo, ledger = Demo(small_disk / "node", env=RESERVE), Ledger()
    try:
        info = demo.start()
        client = client_of(info)
        for number in range(200):
            data = content(8 * MIB, str(number))
            ledger.attempt(f"k{number:03}", digest(data), lambda: client.put(info.bucket, f"k{number:03}", data))
            if ledger.refused:
                break
        assert ledger.acknowledged > 10
        for (status, code), _ in ledger.refused.items():
            assert status in (503, 507) and code, f"not a clear error: {status} {code}"
        assert not verify(client, info.bucket, ledger)
        for key in [k for k, e in ledger.entries.items() if e.acknowledged != "absent"]:
            assert client.delete(info.bucket, key).status == 204
        again = content(10 * MIB, "again")
        assert wait_until(lambda: client.put(info.bucket, "again", again).status == 200, 30, 0.5)
        assert client.get(info.bucket, "again").body == again
    finally:
        demo.kill()


@pytest.mark.parametrize("ends", ["killed", "stopped"])
def test_a_node_without_a_byte_left_starts_and_serves(small_disk, ends):
    """Another program filled its disk, and it went down, or was restarted in the hope that this helps."""
    demo = Demo(small_disk / "node", env=RESERVE)
    try:
        info = demo.start()
        client = client_of(info)
        stored = {f"k{number}": content(MIB // 3, str(number)) for number in range(20)}
        for key, data in stored.items():
            assert client.put(info.bucket, key, data).status == 200
        demo.kill() if ends == "killed" else demo.stop()
        fill(small_disk)
        info = demo.start()
        client = client_of(info)
        for key, data in stored.items():
            assert client.get(info.bucket, key).body == data
        refused = client.put(info.bucket, "more", b"more")
        assert refused.status in (503, 507) and refused.code, refused
        (small_disk / "filled").unlink()
        assert wait_until(lambda: client.put(info.bucket, "more", b"more").status == 200, 30, 0.5)
    finally:
        demo.kill()


def fill(folder) -> None:
    with open(folder / "filled", "wb", buffering=0) as file:
        for size in (MIB, 4096, 1):
            try:
                while True:
                    file.write(b"f" * size)
            except OSError as error:
                assert error.errno == errno.ENOSPC
