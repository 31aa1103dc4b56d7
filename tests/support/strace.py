"""Faults in a running server's system calls, by attaching strace to it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from .server import wait_until


class Injection:
    """The findings of strace: the lines of the calls that it made fail."""

    def __init__(self, log: Path):
        self.log = log

    def hits(self) -> list[str]:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return [line for line in text.splitlines() if "(INJECTED)" in line or "+++ killed" in line]


@contextlib.contextmanager
def inject(pid: int, calls: str, what: str, path: str | None = None):
    """While it lasts, `what` (strace's inject expression) happens to `calls` of the process, in all of its threads."""
    assert shutil.which("strace"), "strace is missing: apt-get install strace"
    folder = tempfile.mkdtemp(prefix="strace-")
    log = Path(folder) / "log"
    only = ["-P", path] if path else []
    command = ["strace", "-f", "-qq", "-o", str(log), *only, "-e", f"trace={calls}", "-e", f"inject={calls}:{what}"]
    tracer = subprocess.Popen([*command, "-p", str(pid)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    injection = Injection(log)
    attached = wait_until(lambda: all_traced(pid) or tracer.poll() is not None, 60)
    try:
        # A call of the server's own may have been the one that kills it, before anybody saw the tracer.
        is_there = attached and (tracer.poll() is None or injection.hits())
        assert is_there, f"strace did not attach: {tracer.poll()} {tracer.stderr.read().decode() if attached else ''}"
        yield injection
    finally:
        if tracer.poll() is None:
            tracer.send_signal(signal.SIGINT)
            try:
                tracer.wait(10)
            except subprocess.TimeoutExpired:
                tracer.kill()
                tracer.wait()
        tracer.stderr.close()
        shutil.rmtree(folder, ignore_errors=True)


def all_traced(pid: int) -> bool:
    """Every thread of the process has a tracer."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        texts = [Path(f"/proc/{pid}/task/{t}/status").read_text() for t in tasks]
    except OSError:
        return False
    return all("TracerPid:\t0\n" not in text for text in texts)
