"""A file of 5 GiB and 100,000 small ones through rclone, up and down, compared byte for byte, and the server's memory.

About 10 minutes and 16 GB of disk. The server's resident size must stay below 200 MB, and below 30 MB when idle. It
counts the pages of the metadata file that are mapped, which the engine bounds.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.data import content  # noqa: E402
from support.server import Demo, memory_kib  # noqa: E402
from support.tools import run  # noqa: E402

LARGE_BYTES = 5 << 30
SMALL_FILES = 100_000
MOST_KIB = 200_000_000 // 1024
IDLE_KIB = 30_000_000 // 1024


def main() -> int:
    options = arguments()
    folder = Path(tempfile.mkdtemp(prefix="big-data-", dir=options.folder))
    demo = Demo(folder / "node")
    try:
        info = demo.start()
        idle = settled(demo.server_pid)
        say(f"idle: {mb(idle):.1f} MB resident (must stay below {mb(IDLE_KIB):.0f})")
        with Watch(demo.server_pid) as watch:
            large(folder, info, options.large_bytes)
            small(folder, info, options.small_files)
        resident = memory_kib(demo.server_pid, "VmHWM")
        say(f"largest: {mb(resident):.1f} MB resident (must stay below {mb(MOST_KIB):.0f})")
        say(f"         up to {mb(watch.held):.1f} MB of its own, up to {mb(watch.mapped):.1f} MB mapped pages of files")
        good = idle < IDLE_KIB and resident < MOST_KIB
        print("big data: passed" if good else "big data: FAILED, too much memory", flush=True)
        return 0 if good else 1
    finally:
        demo.kill()
        shutil.rmtree(folder, ignore_errors=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--large-bytes", type=int, default=LARGE_BYTES)
    parser.add_argument("--small-files", type=int, default=SMALL_FILES)
    parser.add_argument("--folder", default=None, help="where to work; the temporary folder by default")
    return parser.parse_args()


def large(folder: Path, info, size: int) -> None:
    source, back = folder / "large", folder / "large-back"
    source.mkdir()
    with timed(f"made {size / 1e9:.1f} GB"), open(source / "file", "wb") as file:
        for number in range(0, size, 64 << 20):
            file.write(content(min(64 << 20, size - number), str(number)))
    with timed("large file up"):
        rclone(info, "copy", source, f"undertest:{info.bucket}/large")
    with timed("large file down"):
        rclone(info, "copy", f"undertest:{info.bucket}/large", back)
    compare(source, back)
    shutil.rmtree(source)
    shutil.rmtree(back)


def small(folder: Path, info, count: int) -> None:
    source, back = folder / "small", folder / "small-back"
    with timed(f"made {count} files"):
        for number in range(count):
            path = source / f"{number % 317:03}" / f"{number}.txt"
            if number < 317:
                path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content(number % 3000, str(number)))
    many = ["--transfers", "32", "--checkers", "32", "--fast-list"]
    with timed("small files up"):
        rclone(info, "copy", source, f"undertest:{info.bucket}/small", "--no-check-dest", *many)
    with timed("small files down"):
        rclone(info, "copy", f"undertest:{info.bucket}/small", back, *many)
    compare(source, back)


def rclone(info, *arguments) -> None:
    prefix = "RCLONE_CONFIG_UNDERTEST_"
    env = {
        "RCLONE_CONFIG": "/dev/null",
        prefix + "TYPE": "s3",
        prefix + "PROVIDER": "Other",
        prefix + "ENDPOINT": info.endpoint,
        prefix + "REGION": info.region,
        prefix + "ACCESS_KEY_ID": info.access_key,
        prefix + "SECRET_ACCESS_KEY": info.secret_key,
    }
    run(["rclone", *arguments, "--retries", "1", "--low-level-retries", "1"], env, timeout=3000)


def compare(one: Path, other: Path) -> None:
    """Both hold the same files, byte for byte; raises if not."""
    with timed("compared"):
        names = {str(p.relative_to(one)) for p in one.rglob("*") if p.is_file()}
        back = {str(p.relative_to(other)) for p in other.rglob("*") if p.is_file()}
        if names != back:
            raise SystemExit(f"FAILED: {len(names - back)} files are missing, {len(back - names)} are not ours")
        _, different, unreadable = filecmp.cmpfiles(one, other, names, shallow=False)
        if different or unreadable:
            raise SystemExit(f"FAILED: {len(different) + len(unreadable)} files differ, such as {different[:3]}")


class Watch:
    """Samples what a process holds, and what is mapped into it."""

    def __init__(self, pid: int):
        self.pid, self.held, self.mapped, self.done = pid, 0, 0, threading.Event()
        self.thread = threading.Thread(target=self._sample, daemon=True)

    def _sample(self) -> None:
        while not self.done.wait(0.2):
            self.held = max(self.held, memory_kib(self.pid, "RssAnon"))
            self.mapped = max(self.mapped, memory_kib(self.pid, "RssFile"))

    def __enter__(self) -> "Watch":
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.done.set()
        self.thread.join()


def mb(kib: int) -> float:
    return kib * 1024 / 1e6


def settled(pid: int) -> int:
    """The resident size after some seconds without requests."""
    time.sleep(5)
    return memory_kib(pid)


class timed:
    """Says how long what is inside took."""

    def __init__(self, what: str):
        self.what = what

    def __enter__(self) -> None:
        self.started = time.monotonic()

    def __exit__(self, kind, *_) -> None:
        if kind is None:
            say(f"{self.what}: {time.monotonic() - self.started:.1f} s")


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
