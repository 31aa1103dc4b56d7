"""Tells if any row changed in the servers that a test uses: the quick look that every refusal takes.

A node's verification tells how many rows and blocks it has, a digest of all rows of every kind (buckets, objects,
versions, tags, parts, items, keys, users, policies, tokens), and what is wrong. If nothing of that differs after a
refusal, nothing was written: then there is no need to look at all that clients can see. `picture` does look, and tells
what differs.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time

GC_S = 60
EVERY_S = 0.02
COUNTED = ("digest", "rows", "blocks", "problems")


class Admin:
    """The admin API of one node, through its socket."""

    def __init__(self, path: str):
        self.path = path

    def call(self, method: str, target: str, body: dict | None = None):
        return json.loads(self.text(target, method, body))

    def text(self, target: str, method: str = "GET", body: dict | None = None) -> str:
        """The answer as it is."""
        status, answer = self.ask(target, method, body)
        assert status < 300, f"{method} {target}: {status} {answer}"
        return answer

    def ask(self, target: str, method: str = "GET", body: dict | None = None) -> tuple[int, str]:
        """Status and body of the answer, also of a refusal."""
        connection = http.client.HTTPConnection("localhost", timeout=30)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.sock.settimeout(30)
            connection.sock.connect(self.path)
            text = None if body is None else json.dumps(body)
            connection.request(method, target, text, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def metric(self, name: str) -> float:
        """The sum of a metric's values."""
        lines = self.text("/metrics").splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)

    def has_garbage(self) -> bool:
        gc = self.call("GET", "/v1/status")["upkeep"]["gc"]
        return gc["tasks"] > 0 or gc["dead_grants"]

    def verified(self, deep: bool = False) -> list[dict]:
        """Returns what a verification that begins now finds on each node; `deep` reads all blocks."""
        self.call("POST", "/v1/verify", {"deep": deep})
        end, pause = time.monotonic() + GC_S, 0.002
        while True:
            found = self.call("GET", "/v1/verify")
            if found["ended_ms"]:
                return found["nodes"]
            assert time.monotonic() < end, f"the verification does not end: {found}"
            time.sleep(pause)
            pause = min(2 * pause, 0.1)


def collect_garbage(admins: list[Admin]) -> bool:
    """Waits until no node has garbage; tells whether there was some."""
    waited, end = False, time.monotonic() + GC_S
    while any(admin.has_garbage() for admin in admins):
        assert time.monotonic() < end, "garbage is not collected"
        waited = True
        time.sleep(EVERY_S)
    return waited


def held(admins: list[Admin]) -> dict[str, tuple]:
    """Returns what each node of the cluster has, by its name."""
    if not admins:
        return {}
    return {node["short"]: tuple(node[name] for name in COUNTED) for node in admins[0].verified()}


def written(nodes: dict[str, tuple]) -> dict[str, tuple]:
    """Without the number of rows where there are several nodes: a condition that is looked at there promises a row that was
    never written, which holds nothing, and goes with the next floor. The digest is one of all rows that were written.
    """
    return nodes if len(nodes) == 1 else {name: (digest, *rest) for name, (digest, _, *rest) in nodes.items()}


class Watched:
    """The servers that run, each as the admin APIs of its nodes."""

    def __init__(self) -> None:
        self.servers: dict[tuple[str, ...], list[Admin]] = {}
        # Servers that many tests share, by the fixture that gives them to those that use them.
        self.shared: dict[tuple[str, ...], str] = {}
        self.fixtures: list[str] = []
        self.inside = threading.local()

    def add(self, sockets: list[str]) -> None:
        """A server with nodes of these sockets started."""
        self.servers[tuple(sockets)] = [Admin(path) for path in sockets]

    def share(self, sockets: list[str], fixture: str) -> None:
        """This server concerns only tests that use the fixture."""
        self.shared[tuple(sockets)] = fixture

    def remove(self, sockets: list[str]) -> None:
        """It is being stopped."""
        self.servers.pop(tuple(sockets), None)

    def looked_at(self) -> list[list[Admin]]:
        """Those that concern the running test, whose fixtures are `fixtures`."""
        others = {server for server, fixture in self.shared.items() if fixture not in self.fixtures}
        return [admins for server, admins in self.servers.items() if server not in others]

    @contextlib.contextmanager
    def not_here(self):
        """No looks inside: something else looks, or others write at the same time."""
        before = getattr(self.inside, "off", False)
        self.inside.off = True
        try:
            yield
        finally:
            self.inside.off = before


watched = Watched()


class Look:
    """A look at what the servers that the test uses have, once garbage is collected."""

    def __init__(self) -> None:
        self.servers = watched.looked_at()
        for admins in self.servers:
            collect_garbage(admins)
        self.before = self.now()
        # Earlier writes may still be on their way to the last of several replicas.
        end = time.monotonic() + GC_S
        while any(len(nodes) > 1 for nodes in self.before) and self.before != (now := self.now()):
            assert time.monotonic() < end, f"the rows do not come to rest: {self.before}, {now}"
            self.before = now

    def now(self) -> list[dict[str, tuple]]:
        return [written(held(admins)) for admins in self.servers]

    def same(self) -> None:
        """Nothing may differ since then."""
        now = self.now()
        told = "digest of rows, rows where there is one node, blocks, problems"
        assert now == self.before, f"a refused request changed rows ({told}): {self.before} -> {now}"


@contextlib.contextmanager
def unchanged():
    """Requests inside must be refused, and must change no row of any server that the test uses."""
    if getattr(watched.inside, "off", False):
        yield
        return
    look = Look()
    with watched.not_here():
        yield
    look.same()
