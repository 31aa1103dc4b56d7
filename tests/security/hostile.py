"""Hostile clients beside an ordinary one: how long does the ordinary one wait, and how much memory does the server take?

`cargo xtask hostile` runs it and prints the table. One node, in its defaults, but for limits of connections that count on
this machine, too. Each kind of hostility comes from addresses of its own. The ordinary client puts and gets 4 KiB, one
request after the other. Its times with nobody else are taken before each kind, because machines change their pace.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import math
import multiprocessing
import os
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterator

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from security import hostile_http2 as http2  # noqa: E402
from support import chunked, sigv4, wire  # noqa: E402
from support.client import Client  # noqa: E402
from support.server import Server, lone_server, memory_kib  # noqa: E402
from support.sigv4 import Credentials, object_path  # noqa: E402

# The pieces that a flood sends on a connection, each with true if an answer comes before the next.
Pieces = Callable[[], Iterator[tuple[bytes, bool]]]
BUCKET, SMALL, LARGE = "hostile", b"s" * 4096, 32 << 20
MOST_RATIO, MOST_MB = 3, 300


@dataclass
class Target:
    """The server under attack, and how much of it there is."""

    server: Server
    client: Client
    connections: int
    floods: int = 2
    held: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def several(self, network: int, count: int) -> list[socket.socket]:
        return [sock for number in range(count) if (sock := self.connect(network, number))]

    def connect(self, network: int, number: int) -> socket.socket | None:
        """A connection from one of the attackers' addresses; None if the server has no place for it."""
        sock = socket.socket()
        sock.settimeout(5)
        try:
            sock.bind((f"127.{network}.0.{1 + number % 250}", 0))
            sock.connect(self.client.address)
        except OSError:
            sock.close()
            return None
        return self.held.enter_context(sock)


def signed(client: Client, method: str, path: str, query=(), payload: str = sigv4.UNSIGNED) -> list[tuple[str, str]]:
    return sigv4.sign_headers(client.credentials, method, path, list(query), [("Host", client.host)], payload)


def trickle(target: Target, start: Callable[[int], bytes], rest: bytes, network: int, each: int) -> None:
    """So many connections that send `start`, and then one byte of `rest` a second, until the server has enough."""
    socks = target.several(network, each)
    for number, sock in enumerate(socks):
        with contextlib.suppress(OSError):
            sock.sendall(start(number))

    def run(ended) -> None:
        at = 0
        while not ended.wait(1) and socks:
            for sock in list(socks):
                try:
                    sock.sendall(rest[at % len(rest) : at % len(rest) + 1])
                except OSError:
                    socks.remove(sock)
            at += 1

    elsewhere(target, run)


def elsewhere(target: Target, run: Callable, *arguments) -> None:
    """Runs `run(*arguments, ended)` until the attack is over, in a process that gives way to others. Attackers have
    machines of their own: here they must not take the ordinary client's processors, nor its lock of Python."""

    def give_way(*given) -> None:
        os.nice(19)
        run(*given)

    ended = multiprocessing.Event()
    worker = multiprocessing.Process(target=give_way, args=(*arguments, ended), daemon=True)
    worker.start()

    def stop() -> None:
        ended.set()
        worker.join(10)
        worker.kill()

    target.held.callback(stop)


def slow_headers(target: Target) -> None:
    trickle(target, lambda _: b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ", b"a", 201, target.connections)


def slow_bodies(target: Target) -> None:
    def start(number: int) -> bytes:
        path = object_path(BUCKET, f"slow-{number}")
        headers = signed(target.client, "PUT", path)
        return wire.head("PUT", path, [*headers, ("Content-Length", str(1 << 30))]) + b"x" * 65_536

    trickle(target, start, b"x", 202, target.connections)


def slow_readers(target: Target) -> None:
    path = object_path(BUCKET, "large")
    for number in range(target.connections):
        if sock := target.connect(203, number):
            with contextlib.suppress(OSError):
                sock.sendall(wire.head("GET", path, signed(target.client, "GET", path, payload=sigv4.EMPTY_SHA256)))


def silent(target: Target) -> None:
    for number in range(target.connections):
        target.connect(204, number)


def flood(target: Target, kind: str) -> None:
    client = target.client
    for number in range(target.floods):
        elsewhere(target, flooding, client.address, client.host, client.credentials, kind, number)


def flooding(address, host: str, credentials: Credentials, kind: str, number: int, ended) -> None:
    """Connections without an end, each with as much as the server takes, as fast as it takes it."""
    pieces = FLOODS.get(kind, http1_requests)(host, credentials, kind, number)
    while not ended.is_set():
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.settimeout(5)
            sock.bind((f"127.205.{number}.1", 0))
            sock.connect(address)
            for piece, is_answered in pieces():
                sock.sendall(piece)
                if ended.is_set() or not read_what_is_there(sock, is_answered):
                    break


def read_what_is_there(sock: socket.socket, waits: bool) -> bool:
    """Reads what the server has sent; false if it has closed the connection."""
    try:
        return bool(sock.recv(1 << 20, 0 if waits else socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True


def http1_requests(host: str, credentials: Credentials, kind: str, number: int) -> Pieces:
    requests = []
    for at in range(200):
        path = object_path(BUCKET, f"{kind}-{at}")
        named = f"AKUNKNOWN{number}{at:06}" if kind == "unknown keys" else credentials.access_key
        false = Credentials(named, "false" * 8, credentials.region)
        headers = sigv4.sign_headers(false, "GET", path, [], [("Host", host)], sigv4.EMPTY_SHA256)
        requests.append(wire.head("GET", path, headers))
    # Several are under way at once.
    return lambda: ((b"".join(requests[at : at + 8]), True) for at in itertools.cycle(range(0, 200, 8)))


def http2_resets(host: str, credentials: Credentials, _kind: str, _number: int) -> Pieces:
    """Requests that are given up at once, some hundreds with each write."""
    path = object_path(BUCKET, "large")
    head = sigv4.sign_headers(credentials, "GET", path, [], [("Host", host)], sigv4.EMPTY_SHA256)

    def pieces() -> Iterator[tuple[bytes, bool]]:
        yield http2.start(), True
        for first in range(1, 1 << 24, 200):
            yield http2.resets(head, path, first, 100), False

    return pieces


def http2_endless_headers(host: str, credentials: Credentials, _kind: str, _number: int) -> Pieces:
    """Headers that go on and on."""
    begun, more = http2.endless_headers([("Host", host)], object_path(BUCKET, "large"))

    def pieces() -> Iterator[tuple[bytes, bool]]:
        yield http2.start() + begun, True
        yield from itertools.repeat((more * 100, False))

    return pieces


FLOODS: dict[str, Callable[..., Pieces]] = {
    "HTTP/2 resets": http2_resets,
    "HTTP/2 endless headers": http2_endless_headers,
}


def http2_slow_readers(target: Target) -> None:
    """Each asks for as much as it may, and reads one byte of each answer."""
    path = object_path(BUCKET, "large")
    socks = target.several(208, target.connections // 8)
    head = signed(target.client, "GET", path, payload=sigv4.EMPTY_SHA256)
    asks = b"".join(http2.request(stream, "GET", path, head) for stream in http2.stream_ids(http2.STREAMS))
    for sock in socks:
        send_what_is_taken(sock, http2.start(window=1) + asks)
    elsewhere(target, http2.Living(socks).run)


def http2_slow_bodies(target: Target) -> None:
    """Each sends as many objects as it may, and of each a beginning."""
    socks = target.several(209, target.connections // 8)
    for number, sock in enumerate(socks):
        sent = http2.start()
        for stream in http2.stream_ids(http2.STREAMS):
            path = object_path(BUCKET, f"slow-{number}-{stream}")
            head = [*signed(target.client, "PUT", path), ("content-length", str(1 << 30))]
            sent += http2.request(stream, "PUT", path, head, ends=False)
            sent += http2.frame(http2.DATA, 0, stream, b"x" * 1000)
        send_what_is_taken(sock, sent)
    elsewhere(target, http2.Living(socks).run)


def huge_documents(target: Target) -> None:
    """Lists of deletions that announce as much as is allowed, and never end."""
    body = b"<Delete>" + b"<Object><Key>%s</Key></Object>" % (b"k" * 1000) * 1900
    for number in range(target.connections):
        if sock := target.connect(206, number):
            headers = signed(target.client, "POST", f"/{BUCKET}", [("delete", "")])
            head = wire.head("POST", f"/{BUCKET}?delete=", [*headers, ("Content-Length", str(2 << 20))])
            send_what_is_taken(sock, head + body)


def unfinished_chunks(target: Target) -> None:
    """Signed chunks of 16 MiB, of each of which something is missing."""
    for number in range(target.connections):
        if sock := target.connect(207, number):
            upload = chunked.Upload([b""], decoded_length=1 << 30)
            head, _ = chunked.build(target.client, "PUT", object_path(BUCKET, f"chunk-{number}"), [], upload)
            lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
            head = b"\r\n".join([lines[0], b"Content-Length: 1073741900", *lines[1:]])
            frame = b"1000000;chunk-signature=" + b"0" * 64 + b"\r\n"
            send_what_is_taken(sock, head + frame + b"c" * (1 << 20))


def send_what_is_taken(sock: socket.socket, data: bytes) -> None:
    """Sends until the server reads no further."""
    sock.settimeout(0.02)
    with contextlib.suppress(OSError):
        sock.sendall(data)


ATTACKS: dict[str, Callable[[Target], None]] = {
    "slow headers": slow_headers,
    "slow bodies": slow_bodies,
    "slow readers": slow_readers,
    "silent connections": silent,
    "unknown keys": lambda target: flood(target, "unknown keys"),
    "bad signatures": lambda target: flood(target, "bad signatures"),
    "huge documents": huge_documents,
    "unfinished chunks": unfinished_chunks,
    "HTTP/2 slow readers": http2_slow_readers,
    "HTTP/2 slow bodies": http2_slow_bodies,
    "HTTP/2 resets": lambda target: flood(target, "HTTP/2 resets"),
    "HTTP/2 endless headers": lambda target: flood(target, "HTTP/2 endless headers"),
}


@dataclass
class Row:
    """One kind of hostility, and what the ordinary client had of it."""

    name: str
    quiet_ms: float
    ms: float
    requests: int
    failures: list[str]
    peak_mb: float

    @property
    def ratio(self) -> float:
        return self.ms / self.quiet_ms

    @property
    def failed(self) -> int:
        return len(self.failures)


def p99(times: list[float]) -> float:
    return sorted(times)[max(0, math.ceil(len(times) * 0.99) - 1)] * 1000


def ordinary(client: Client, seconds: float, least: int, watch: Callable[[], None] = lambda: None) -> tuple[list[float], list[str]]:
    """The times of an ordinary client's requests, and what went wrong."""
    times, failures, until = [], [], time.monotonic() + seconds
    while time.monotonic() < until or len(times) < least:
        key = f"ordinary-{len(times) % 50}"
        for ask in (lambda: client.put(BUCKET, key, SMALL), lambda: client.get(BUCKET, key)):
            began = time.monotonic()
            try:
                answer = ask()
                if answer.status != 200:
                    failures.append(f"{answer.status} {answer.body[:200]!r}")
            except (OSError, http.client.HTTPException) as error:
                failures.append(repr(error))
            times.append(time.monotonic() - began)
        watch()
    return times, failures


def attack(name: str, target: Target, seconds: float, least: int = 200) -> Row:
    """The ordinary client alone, and beside the attack."""
    quiet, lost = ordinary(target.client, seconds, least)
    assert not lost, f"failed with nobody else there: {lost}"
    peak = [0]

    def watch() -> None:
        peak[0] = max(peak[0], memory_kib(target.server.process.pid))

    with target.held:
        ATTACKS[name](target)
        times, failures = ordinary(target.client, seconds, least, watch)
    return Row(name, p99(quiet), p99(times), len(times), failures, peak[0] * 1024 / 1e6)


@contextlib.contextmanager
def under_attack(folder: Path, connections: int) -> Iterator[Target]:
    """A server in its defaults, with what the attacks need."""
    with lone_server(folder, "[limits]\nconnections_per_address = 512\n") as (server, port):
        key = server.cli_json("key", "create", "hostile", "--create-bucket")
        credentials = Credentials(key["id"], key["secret"], "us-east-1")
        client = Client(f"http://127.0.0.1:{port}", credentials, keep_alive=True, timeout=60)
        assert client.request("PUT", f"/{BUCKET}").status == 200
        assert client.put(BUCKET, "large", os.urandom(1 << 20) * (LARGE >> 20)).status == 200
        yield Target(server, client, connections)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=10, help="of each measurement")
    arguments.add_argument("--connections", type=int, default=2048, help="of an attack that holds connections")
    arguments.add_argument("--only", choices=sorted(ATTACKS), action="append", help="only this kind")
    chosen = arguments.parse_args()
    rows = []
    for name in chosen.only or ATTACKS:
        with tempfile.TemporaryDirectory() as folder, under_attack(Path(folder), chosen.connections) as target:
            rows.append(attack(name, target, chosen.seconds))
        row = rows[-1]
        print(f"# {row.name}: {row.requests} requests, {row.failed} failed {row.failures[:3]}", file=sys.stderr)
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} processors, load {load:.1f}; {chosen.connections} connections; {chosen.seconds:g} s each\n")
    print("| beside | p99, nobody else | p99 | ratio | failed | memory |\n|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row.name} | {row.quiet_ms:.1f} ms | {row.ms:.1f} ms | {row.ratio:.1f} | {row.failed} of {row.requests} "
            f"| {row.peak_mb:.0f} MB |"
        )
    missed = [row.name for row in rows if row.ratio > MOST_RATIO or row.peak_mb > MOST_MB or row.failed]
    if missed:
        print(f"\nmissed (more than {MOST_RATIO} times as long, or more than {MOST_MB} MB): {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
