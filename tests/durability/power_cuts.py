"""Cuts the power under load, again and again, and looks for what was acknowledged.

The server's folder lies on a file system of its own on a loop file. While clients write, that file system is shut down
without flushing (XFS_IOC_GOINGDOWN, EXT4_IOC_SHUTDOWN), the server is killed, the file system mounted again, the server
started, and every key read. What was not synced is gone then, as after a power cut. Acknowledgements are kept outside.

With `--control` the server is told not to sync: the run must then report losses, or it proves nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from durability.ledger import Ledger, Writer, verify  # noqa: E402
from support.client import Client  # noqa: E402
from support.server import Demo, wait_until  # noqa: E402
from support.sigv4 import Credentials  # noqa: E402

# _IOR('X', 125, __u32): XFS_IOC_GOINGDOWN and EXT4_IOC_SHUTDOWN are the same number.
GOING_DOWN = 0x8004587D
NO_LOG_FLUSH = 2
WRITERS = 6
IMAGE_BYTES = 2 << 30


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    if os.geteuid() != 0:
        print("power cuts need root: they mount file systems", file=sys.stderr)
        return 2
    losses = cut = 0
    for kind in options.fs:
        found, rounds = run_on(kind, options)
        losses, cut = losses + found, cut + rounds
    return verdict(losses, cut, options)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=200, help="cuts in all, shared between the file systems")
    parser.add_argument("--fs", action="append", choices=["ext4", "xfs"], help="both by default")
    parser.add_argument("--control", action="store_true", help="without fsync: losses must be found")
    parser.add_argument("--seed", type=int, default=0, help="0 takes one from the clock; it is printed")
    options = parser.parse_args()
    options.fs = options.fs or ["ext4", "xfs"]
    options.seed = options.seed or int(time.time())
    return options


def verdict(losses: int, rounds: int, options) -> int:
    print(f"{rounds} cuts, seed {options.seed}: {losses} losses", flush=True)
    if options.control:
        print("control passed: without fsync the losses are seen" if losses else "CONTROL FAILED: no loss was seen")
        return 0 if losses else 1
    print("passed: nothing acknowledged was lost" if not losses else "FAILED")
    return 1 if losses else 0


def run_on(kind: str, options) -> tuple[int, int]:
    """All rounds of one file system; returns (losses, rounds)."""
    rounds = max(1, options.rounds // len(options.fs))
    losses = acknowledged = unsynced = 0
    started = time.monotonic()
    with Volume(kind) as volume:
        plant = Plant(volume, options)
        try:
            for number in range(1, rounds + 1):
                report = plant.round(number)
                losses += len(report.wrong)
                acknowledged += report.acknowledged
                unsynced += report.pending
                for line in report.wrong[:5]:
                    print(f"  {kind} round {number}: {line}", flush=True)
                if number % 10 == 0 or number == rounds or report.wrong:
                    each = (time.monotonic() - started) / number
                    print(
                        f"{kind} {number}/{rounds}: {acknowledged} acknowledged, {unsynced} under way at a cut, "
                        f"{losses} losses, {each:.1f} s a round",
                        flush=True,
                    )
                if options.control and losses:
                    return losses, number
        finally:
            plant.stop()
    return losses, rounds


class Report:
    def __init__(self, wrong: list[str], acknowledged: int, pending: int):
        self.wrong, self.acknowledged, self.pending = wrong, acknowledged, pending


class Plant:
    """The server on its volume, its clients, and the ledger."""

    def __init__(self, volume: "Volume", options):
        self.volume, self.rng = volume, random.Random(options.seed)
        env = {"ARCHIPEL_UNSAFE_NO_FSYNC": "1"} if options.control else {}
        self.demo = Demo(volume.mount_point / "node", env=env)
        self.demo.log = volume.folder / "server.log"
        self.ledger = Ledger()
        self.info = self.demo.start()

    def client(self) -> Client:
        credentials = Credentials(self.info.access_key, self.info.secret_key, self.info.region)
        return Client(self.info.endpoint, credentials, keep_alive=True, timeout=30)

    def round(self, number: int) -> Report:
        """Writes for a random while, cuts, comes back, and looks."""
        before = self.ledger.acknowledged
        writers = [
            Writer(self.client(), self.info.bucket, self.ledger, f"w{n}", self.rng.randrange(1 << 30))
            for n in range(WRITERS)
        ]
        for writer in writers:
            writer.start()
        time.sleep(self.rng.uniform(0.05, 1.2))
        if not self.demo.alive():
            raise SystemExit(f"the server ended by itself: {self.demo.log_end()}")
        self.volume.cut()
        self.demo.kill()
        for writer in writers:
            writer.done.set()
            writer.join(60)
            if writer.failure:
                raise writer.failure
        acknowledged = self.ledger.acknowledged - before
        pending = sum(bool(entry.pending) for entry in self.ledger.entries.values())
        self.volume.remount()
        try:
            self.info = self.demo.start()
            wrong = verify(self.client(), self.info.bucket, self.ledger)
        except Exception as error:
            wrong = [f"after the cut the server does not come up or answer: {error}"]
            if not self.restarted_empty():
                raise SystemExit(f"round {number}: {wrong[0]}") from error
        return Report(wrong, acknowledged, pending)

    def restarted_empty(self) -> bool:
        """Begins anew in an empty folder, so that a control run can go on after a ruined database."""
        self.demo.kill()
        shutil.rmtree(self.demo.folder, ignore_errors=True)
        self.ledger = Ledger()
        try:
            self.info = self.demo.start()
        except Exception:
            return False
        return True

    def stop(self) -> None:
        self.demo.kill()


class Volume:
    """A file system on a loop file, unmounted and removed however the run ends."""

    def __init__(self, kind: str):
        self.kind = kind
        self.folder = Path(tempfile.mkdtemp(prefix=f"power-cuts-{kind}-"))
        self.image = self.folder / "image"
        self.mount_point = self.folder / "mount"
        self.loop = ""

    def __enter__(self) -> "Volume":
        try:
            with open(self.image, "wb") as image:
                image.truncate(IMAGE_BYTES)
            make = ["mkfs.ext4", "-q", "-F"] if self.kind == "ext4" else ["mkfs.xfs", "-q", "-f"]
            command([*make, str(self.image)])
            self.loop = command(["losetup", "-f", "--show", str(self.image)])
            self.mount_point.mkdir()
            self.mount()
        except BaseException:
            self.__exit__()
            raise
        return self

    def mount(self) -> None:
        command(["mount", "-t", self.kind, "-o", "noatime", self.loop, str(self.mount_point)])

    def cut(self) -> None:
        """From here on nothing reaches the disk, and what was not synced never did."""
        handle = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, GOING_DOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(handle)

    def remount(self) -> None:
        self.unmount()
        self.mount()

    def unmount(self) -> None:
        def gone() -> bool:
            return subprocess.run(["umount", str(self.mount_point)], capture_output=True).returncode == 0

        if not wait_until(gone, 20):
            raise SystemExit(f"cannot unmount {self.mount_point}: is a process left in it?")

    def __exit__(self, *_) -> None:
        if os.path.ismount(self.mount_point):
            subprocess.run(["umount", "-l", str(self.mount_point)], capture_output=True)
        if self.loop:
            wait_until(lambda: subprocess.run(["losetup", "-d", self.loop], capture_output=True).returncode == 0, 5)
        with contextlib.suppress(OSError):
            shutil.rmtree(self.folder)


def command(parts: list[str]) -> str:
    try:
        done = subprocess.run(parts, capture_output=True, text=True)
    except FileNotFoundError:
        raise SystemExit(f"{parts[0]} is missing: apt-get install e2fsprogs xfsprogs mount") from None
    if done.returncode:
        raise SystemExit(f"{' '.join(parts)}: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
