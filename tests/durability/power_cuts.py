"""Cuts the power under load, again and again, and looks for what was acknowledged.

The server's folder lies on a file system of its own on a loop file. While clients write, that file system is shut down
without flushing (XFS_IOC_GOINGDOWN, EXT4_IOC_SHUTDOWN), the server is killed, the file system mounted again, the server
started, and every key read. Data that was not synced is gone then, as after a power cut. Acknowledgements are kept outside.

With `--durability buffered` the cut may undo what was acknowledged within the last second, and no more: a key holds what
it held before or after each write, whole, and what is undone of one writer is the last that it did.

A webhook must be told of each acknowledged write at least once, in spite of the cut.

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

from durability.ledger import BUFFERED_SIZES, SIZES, Buffered, Ledger, Writer, verify  # noqa: E402
from support.client import Client  # noqa: E402
from support.hook import Hook  # noqa: E402
from support.server import Server, free_port, wait_until  # noqa: E402
from support.sigv4 import Credentials  # noqa: E402
from support.unchanged import Admin  # noqa: E402

# _IOR('X', 125, __u32): XFS_IOC_GOINGDOWN and EXT4_IOC_SHUTDOWN are the same number.
GOING_DOWN = 0x8004587D
NO_LOG_FLUSH = 2
WRITERS = 6
IMAGE_BYTES = 2 << 30
# The time for which clients write before a cut, in seconds: long enough with `buffered` that some of it must be there.
WRITES_S = {"fsync": (0.05, 1.2), "buffered": (0.5, 9.0)}
EVENTS_S = 120
BUCKET = "power-cuts"
INSIDE = "ARCHIPEL_POWER_CUTS_INSIDE"
RULES = (
    "<NotificationConfiguration><QueueConfiguration><Id>all</Id><Queue>arn:archipel:events::hook:webhook</Queue>"
    "<Event>s3:ObjectCreated:*</Event></QueueConfiguration></NotificationConfiguration>"
)


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    if os.geteuid() != 0:
        print("power cuts need root: they mount file systems", file=sys.stderr)
        return 2
    by_itself()
    losses = cut = 0
    for kind in options.fs:
        found, rounds = run_on(kind, options)
        losses, cut = losses + found, cut + rounds
    return verdict(losses, cut, options)


def by_itself() -> None:
    """Runs this program again with mounts that nobody else sees, unless it has them.

    Another program that makes itself a mount namespace meanwhile would else keep the file system mounted there: then it
    is not mounted again after a cut, but stays shut down.
    """
    if os.environ.get(INSIDE):
        return
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=200, help="cuts in all, shared between the file systems")
    parser.add_argument("--fs", action="append", choices=["ext4", "xfs"], help="both by default")
    parser.add_argument("--durability", choices=["fsync", "buffered"], default="fsync", help="what the server promises")
    parser.add_argument("--control", action="store_true", help="without fsync: losses must be found")
    parser.add_argument("--seed", type=int, default=0, help="0 takes one from the clock; it is printed")
    options = parser.parse_args()
    options.fs = options.fs or ["ext4", "xfs"]
    options.seed = options.seed or int(time.time())
    return options


def verdict(losses: int, rounds: int, options) -> int:
    print(f"{rounds} cuts, {options.durability}, seed {options.seed}: {losses} losses", flush=True)
    if options.control:
        print("control passed: without fsync the losses are seen" if losses else "CONTROL FAILED: no loss was seen")
        return 0 if losses else 1
    kept = "nothing acknowledged was lost" if options.durability == "fsync" else "no more than the last second was undone"
    print(f"passed: {kept}" if not losses else "FAILED")
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
                        f"{losses} losses, {plant.told} events told{plant.undone()}, {each:.1f} s a round",
                        flush=True,
                    )
                if options.control and plant.seen:
                    return plant.seen, number
        finally:
            plant.stop()
    return plant.seen if options.control else losses, rounds


class Report:
    def __init__(self, wrong: list[str], acknowledged: int, pending: int):
        self.wrong, self.acknowledged, self.pending = wrong, acknowledged, pending


class Plant:
    """The server with its data on the volume, its clients, a webhook, and the ledger."""

    def __init__(self, volume: "Volume", options):
        self.volume, self.rng, self.durability = volume, random.Random(options.seed), options.durability
        self.control = options.control
        if options.control:
            os.environ["ARCHIPEL_UNSAFE_NO_FSYNC"] = "1"
        self.hook, self.told = Hook(), 0
        self.seen = 0  # losses that the ledger saw, in a store that could be opened
        folder, port = volume.folder / "server", free_port()
        folder.mkdir()
        self.server = Server(folder)
        self.server.data = volume.mount_point / "data"
        (folder / "archipel.toml").write_text(
            f'data_dir = "{self.server.data}"\ndurability = "{options.durability}"\n'
            f'[s3]\nlisten = "127.0.0.1:{port}"\n[limits]\ndisk_reserve = "16MiB"\n'
            f'[[event_targets]]\nname = "hook"\nurl = "http://127.0.0.1:{self.hook.server_port}/"\n'
        )
        self.endpoint = f"http://127.0.0.1:{port}"
        self.begin()

    def begin(self) -> None:
        """With nothing stored, and nothing known."""
        self.server.data.mkdir()
        self.ledger = Buffered() if self.durability == "buffered" else Ledger()
        self.server.start()
        key = self.server.cli_json("key", "create", "writer", "--create-bucket")
        self.credentials = Credentials(key["id"], key["secret"], "us-east-1")
        client = self.client()
        for query, body in (((), b""), ([("notification", "")], RULES.encode())):
            reply = client.request("PUT", f"/{BUCKET}", query, body=body)
            if reply.status != 200:
                raise SystemExit(f"the bucket or its rules are refused: {reply.brief()}")
        client.close()
        # A cut may undo these too, as any other commit.
        time.sleep(Buffered.UNDONE_S if self.durability == "buffered" else 0)
        self.sync_control()

    def sync_control(self) -> None:
        """A server that syncs nothing loses its whole store at the first cut, before the ledger could see what is lost."""
        if self.control:
            command(["sync", "-f", str(self.volume.mount_point)])

    def undone(self) -> str:
        """Describes what cuts undid of what was acknowledged, where they may."""
        if not isinstance(self.ledger, Buffered):
            return ""
        return f", {self.ledger.undone} acknowledged writes undone, the oldest {self.ledger.oldest:.2f} s old"

    def client(self) -> Client:
        return Client(self.endpoint, self.credentials, keep_alive=True, timeout=30)

    def round(self, number: int) -> Report:
        """Writes for a random while, cuts, comes back, and looks."""
        before, sizes = self.ledger.acknowledged, BUFFERED_SIZES if self.durability == "buffered" else SIZES
        writers = [
            Writer(self.client(), BUCKET, self.ledger, f"w{n}", self.rng.randrange(1 << 30), sizes=sizes)
            for n in range(WRITERS)
        ]
        for writer in writers:
            writer.start()
        time.sleep(self.rng.uniform(*WRITES_S[self.durability]))
        if self.server.process.poll() is not None:
            raise SystemExit(f"the server ended by itself: {self.server.log_text()[-2000:]}")
        cut_at = time.monotonic()
        self.volume.cut()
        self.kill()
        for writer in writers:
            writer.done.set()
            writer.join(60)
            if writer.failure:
                raise writer.failure
        acknowledged = self.ledger.acknowledged - before
        if isinstance(self.ledger, Buffered):
            self.ledger.cut_at = cut_at
        # With `buffered`, the event of what was undone is undone with it.
        told = self.ledger.created(cut_at - Buffered.UNDONE_S if self.durability == "buffered" else None)
        done = [one for all_ in self.ledger.done.values() for one in all_ if one.etag]
        pending = sum(bool(entry.pending) for entry in self.ledger.entries.values())
        self.volume.remount()
        try:
            self.server.start()
            wrong = verify(self.client(), BUCKET, self.ledger)
            # An object that is there has its event, whenever it was written.
            told |= {(one.key, one.etag) for one in done if self.ledger.entries[one.key].acknowledged == one.state}
            wrong += self.untold(told) + self.problems()
            self.sync_control()
        except Exception as error:
            wrong = [f"after the cut the server does not come up or answer: {error}"]
            if not self.restarted_empty():
                raise SystemExit(f"round {number}: {wrong[0]}") from error
            return Report(wrong, acknowledged, pending)
        self.seen += len(wrong)
        return Report(wrong, acknowledged, pending)

    def untold(self, created: set[tuple[str, str]]) -> list[str]:
        """The objects, by key and entity tag, of which the webhook is not told within the time that it has."""
        wait_until(lambda: created <= self.hook.objects(), 5 if self.control else EVENTS_S)
        missing = created - self.hook.objects()
        self.told += len(created) - len(missing)
        self.hook.messages.clear()
        return [f"{key}: no event told of {tag}" for key, tag in sorted(missing)]

    def problems(self) -> list[str]:
        """Returns the findings of a deep verification."""
        [node] = Admin(str(self.server.data / "admin.sock")).verified(deep=True)
        return [f"verification: {what}" for what in [*node["told"], *node["unchecked"]]]

    def restarted_empty(self) -> bool:
        """Begins again in an empty folder, so that a control run can go on after a ruined database."""
        self.kill()
        shutil.rmtree(self.server.data, ignore_errors=True)
        try:
            self.begin()
        except Exception:
            return False
        return True

    def kill(self) -> None:
        if self.server.process is not None:
            self.server.process.kill()
            self.server.process.wait()
            self.server.process = None

    def stop(self) -> None:
        self.kill()
        self.hook.shutdown()


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
