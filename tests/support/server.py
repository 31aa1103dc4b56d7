"""A server process of its own: started, watched, stopped or killed by its process id."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from .unchanged import watched

READY_S = 60


class ServerFailed(Exception):
    """The server did not come up, or ended by itself."""


@dataclass
class Endpoint:
    """The output of `archipel demo --json`."""

    endpoint: str
    region: str
    access_key: str
    secret_key: str
    bucket: str
    nodes: list[dict] = field(default_factory=list)
    k2v: str = ""

    def sockets(self) -> list[str]:
        """The admin sockets of its nodes, where they can be reached as files."""
        return [node["admin"] for node in self.nodes if node.get("admin", "").startswith("/")]

    @staticmethod
    def parse(text: str) -> "Endpoint":
        known = json.loads(text)
        names = ("endpoint", "region", "access_key", "secret_key", "bucket")
        return Endpoint(*(known[n] for n in names), nodes=known.get("nodes", []), k2v=known.get("k2v", ""))


def binary() -> Path:
    """The server under test: $ARCHIPEL_BIN, or what `cargo xtask` builds for tests."""
    default = Path(__file__).resolve().parents[2] / "target/checked/archipel"
    return Path(os.environ.get("ARCHIPEL_BIN", default))


class Demo:
    """`archipel demo` in the foreground, under a wrapper (such as strace) if given.

    One node by default, which is then one process: what kills or watches it knows where it is.
    """

    def __init__(self, folder: Path, port: int = 0, wrapper: list[str] | None = None, env=None, nodes: int = 1):
        self.folder, self.port, self.nodes = folder, port, nodes
        self.wrapper = wrapper or []
        self.env = {**os.environ, **(env or {})}
        self.process: subprocess.Popen | None = None
        self.info: Endpoint | None = None
        self.printed: dict = {}
        self.log = folder.parent / f"{folder.name}.log"

    def start(self, ready_s: float = READY_S) -> Endpoint:
        """Starts it and waits for its one line; raises `ServerFailed` with the log's end."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [str(binary()), "demo", "--dir", str(self.folder), "--port", str(self.port)]
        command += ["--nodes", str(self.nodes)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.wrapper, *command, "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self.env,
                start_new_session=True,
            )
        line = self._first_line(ready_s)
        if not line:
            self.kill()
            raise ServerFailed(f"not ready: {self.log_end()}")
        self.printed = json.loads(line)
        self.info = Endpoint.parse(line)
        watched.add(self.info.sockets())
        return self.info

    def _forget(self) -> None:
        """Refusals look at it no longer."""
        if self.info:
            watched.remove(self.info.sockets())

    def _first_line(self, ready_s: float) -> str:
        lines: queue.Queue[str] = queue.Queue()
        out = self.process.stdout

        def drain() -> None:
            for raw in out:
                lines.put(raw.decode())
            lines.put("")

        threading.Thread(target=drain, daemon=True).start()
        try:
            return lines.get(timeout=ready_s)
        except queue.Empty:
            return ""

    @property
    def server_pid(self) -> int:
        """The node's own process: not the wrapper's."""
        return int(self.info.nodes[0]["pid"])

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self, wait_s: float = 20) -> int:
        """Asks it to end (SIGTERM) and returns its exit status; kills it after `wait_s`."""
        self._forget()
        if self.process is None:
            return 0
        pid = self.server_pid if self.info and self.wrapper else self.process.pid
        _signal(pid, signal.SIGTERM)
        try:
            return self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerFailed("did not end on SIGTERM") from None

    def kill(self) -> None:
        """SIGKILL, to the server and its wrapper (a process group of our own), and waits until none of it is left.

        A server under a wrapper is nobody's to wait for, and lives on until the sync that one of its threads is in has ended.
        """
        self._forget()
        if self.process is None:
            return
        group = self.process.pid
        if self.process.poll() is None:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        if not wait_until(lambda: not group_lives(group), 60):
            raise ServerFailed(f"processes of group {group} live on after SIGKILL")

    def log_end(self, size: int = 2000) -> str:
        return self.log.read_bytes()[-size:].decode(errors="replace") if self.log.exists() else ""

    def memory_kib(self, field_name: str = "VmRSS") -> int:
        return memory_kib(self.server_pid, field_name)


class Server:
    """`archipel server` on `archipel.toml` in a folder whose `data` is the data folder."""

    def __init__(self, folder: Path):
        self.folder, self.data = folder, folder / "data"
        self.log = folder / "server.log"
        self.process: subprocess.Popen | None = None

    @staticmethod
    def check(folder: Path, text: str) -> str:
        """Returns what `archipel config check` says against a configuration."""
        file = folder / "checked.toml"
        file.write_text(text)
        command = [str(binary()), "config", "check", "--config", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0, "nothing is wrong"
        return done.stderr

    def start(self, ready_s: float = READY_S, in_layout: bool = True) -> None:
        """Waits until the server answers: requests of S3, or of administration only if it is in no layout."""
        command = [str(binary()), "server", "--config", str(self.folder / "archipel.toml")]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        command = ["status"] if in_layout else ["node", "id"]
        wait_until(lambda: self.process.poll() is not None or self._answers(*command), ready_s)
        if self.process.poll() is not None or not self._answers(*command):
            self.stop()
            raise ServerFailed(f"not ready: {self.log_text()[-2000:]}")
        if in_layout:
            watched.add([str(self.data / "admin.sock")])

    def _answers(self, *command: str) -> bool:
        command = [str(binary()), *command, "--data-dir", str(self.data)]
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0

    def cli(self, *arguments: str) -> str:
        command = [str(binary()), *arguments, "--data-dir", str(self.data)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    def cli_json(self, *arguments: str) -> dict:
        return json.loads(self.cli(*arguments, "--json"))

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def stop(self, wait_s: float = 40) -> None:
        watched.remove([str(self.data / "admin.sock")])
        if self.process is None:
            return
        _signal(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise ServerFailed("did not end on SIGTERM") from None
        finally:
            self.process = None


def _ports():
    """Ports that neither the system nor a demo picks for others, each once, in an order that other processes do not share."""
    ports = list(range(10_000, 20_000))
    random.SystemRandom().shuffle(ports)
    yield from ports


_unused = _ports()


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens.

    A server may begin to listen on it seconds later, or again after a restart: nothing else gets it meanwhile, since the
    system takes the ports of connections and of `bind(0)` from 32768 on, and a demo takes its own from 20000 on.
    """
    for port in _unused:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("all ports were used")


@contextlib.contextmanager
def lone_server(folder: Path, settings: str):
    """A server outside any cluster, with these settings; and its port for S3."""
    port = free_port()
    (folder / "data").mkdir()
    (folder / "archipel.toml").write_text(
        f'data_dir = "{folder}/data"\n[s3]\nlisten = "127.0.0.1:{port}"\n{settings}'
    )
    server = Server(folder)
    server.start()
    try:
        yield server, port
    finally:
        server.stop()


def group_lives(group: int) -> bool:
    """Returns true if a thread of a process of the group still runs: what it had open may be open until the last one has
    ended."""
    return any(
        _runs_in(group, f"/proc/{process}/task/{task}/stat")
        for process in _numbers("/proc")
        for task in _numbers(f"/proc/{process}/task")
    )


def _runs_in(group: int, stat: str) -> bool:
    try:
        text = Path(stat).read_text()
    except OSError:  # the thread has ended since it was listed
        return False
    # After the name, which may hold anything: state, parent, group.
    state, _, its_group = text.rpartition(")")[2].split()[:3]
    return int(its_group) == group and state not in ("Z", "X")


def _numbers(folder: str) -> list[str]:
    """The processes or threads that a folder of /proc lists; none if the process has ended since it was listed itself."""
    try:
        return [name for name in os.listdir(folder) if name.isdigit()]
    except OSError:
        return []


def memory_kib(pid: int, field_name: str = "VmRSS") -> int:
    """A figure of /proc/PID/status, such as VmRSS or VmHWM."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field_name + ":"):
            return int(line.split()[1])
    raise LookupError(field_name)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def wait_until(condition, timeout_s: float = 20, every_s: float = 0.05) -> bool:
    """True as soon as `condition` holds; False if it did not within the bound."""
    begin = time.monotonic()
    while (waited := time.monotonic() - begin) < timeout_s:
        if condition():
            return True
        # Many conditions run a program. Long waits ask less often.
        time.sleep(max(every_s, min(waited / 10, 0.25)))
    return False
