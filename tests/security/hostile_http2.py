"""Hostile clients over HTTP/2. Their frames are made by hand: no library sends what these send.

See RFC 9113 for frames, and RFC 7541 for the fields of headers.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
from typing import Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
ACK, END_STREAM, END_HEADERS = 1, 1, 4
INITIAL_WINDOW_SIZE, CANCEL = 4, 8
# The field `:status: 200` of the table that both sides know. It comes first.
STATUS_200 = b"\x88"
# Requests of a connection: as many as the server takes at once from one that is alone.
STREAMS = 64


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def start(window: int = 65_535) -> bytes:
    """The beginning of a connection whose answers may have so many bytes before the client asks for more."""
    return PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, window))


def more(stream: int, size: int) -> bytes:
    """Lets the server send so many bytes more of an answer, and of the whole connection."""
    return b"".join(frame(WINDOW_UPDATE, 0, at, struct.pack(">I", size)) for at in (0, stream))


def text(value: str) -> bytes:
    raw, length = value.encode("latin-1"), bytearray()
    left = len(raw)
    if left < 127:
        return bytes([left]) + raw
    length.append(127)
    left -= 127
    while left >= 128:
        length.append(left % 128 + 128)
        left //= 128
    length.append(left)
    return bytes(length) + raw


def fields(method: str, path: str, headers: list[tuple[str, str]]) -> bytes:
    """The headers of a request, each written out."""
    host = next(value for name, value in headers if name == "Host")
    pseudo = [(":method", method), (":scheme", "http"), (":path", path), (":authority", host)]
    others = [(name.lower(), value) for name, value in headers if name != "Host"]
    return b"".join(b"\0" + text(name) + text(value) for name, value in [*pseudo, *others])


def request(stream: int, method: str, path: str, headers: list[tuple[str, str]], ends: bool = True) -> bytes:
    flags = END_HEADERS | (END_STREAM if ends else 0)
    return frame(HEADERS, flags, stream, fields(method, path, headers))


def frames(got: bytearray) -> Iterator[tuple[int, int, int, bytes]]:
    """Takes the whole frames from what came: kind, flags, stream, payload."""
    while len(got) >= 9 and len(got) >= 9 + (length := int.from_bytes(got[:3])):
        kind, flags, stream, payload = got[3], got[4], int.from_bytes(got[5:9]), bytes(got[9 : 9 + length])
        del got[: 9 + length]
        yield kind, flags, stream, payload


def stream_ids(count: int) -> range:
    return range(1, 2 * count, 2)


class Living:
    """Reads from connections, and answers the server's pings: it must not take their clients for dead."""

    def __init__(self, socks: list[socket.socket]):
        self.selector = selectors.DefaultSelector()
        for sock in socks:
            sock.setblocking(False)
            self.selector.register(sock, selectors.EVENT_READ, bytearray())

    def run(self, ended) -> None:
        while not ended.is_set():
            for key, _ in self.selector.select(0.2):
                try:
                    got = key.fileobj.recv(1 << 16)
                except OSError:
                    got = b""
                if not got:
                    self.selector.unregister(key.fileobj)
                    continue
                key.data.extend(got)
                self._answer(key.fileobj, key.data)

    def _answer(self, sock: socket.socket, got: bytearray) -> None:
        for kind, flags, _, payload in frames(got):
            if kind == PING and not flags & ACK:
                with contextlib.suppress(OSError):
                    sock.sendall(frame(PING, ACK, 0, payload))


class Streams:
    """Requests for one object on a connection, one after another, whose answers are read as they come."""

    def __init__(self, sock: socket.socket, path: str, head: list[tuple[str, str]]):
        self.sock, self.path, self.head = sock, path, head
        self.next, self.got = 1, bytearray()
        self.statuses: dict[int, str] = {}

    def get(self) -> int:
        stream, self.next = self.next, self.next + 2
        self.sock.sendall(request(stream, "GET", self.path, self.head))
        return stream

    def cancel(self, stream: int) -> None:
        self.sock.sendall(frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL)))

    def status(self, stream: int) -> str:
        """`200` or `other`, once it is there."""
        while stream not in self.statuses:
            got = self.sock.recv(1 << 16)
            if not got:
                raise ConnectionError("the server has closed the connection")
            self.got.extend(got)
            for kind, _, at, payload in frames(self.got):
                if kind == HEADERS:
                    self.statuses[at] = "200" if payload[:1] == STATUS_200 else "other"
        return self.statuses[stream]


def resets(head: list[tuple[str, str]], path: str, first: int, count: int) -> bytes:
    """Requests that are given up as soon as they are made."""
    cancelled = struct.pack(">I", CANCEL)
    ids = range(first, first + 2 * count, 2)
    return b"".join(request(stream, "GET", path, head) + frame(RST_STREAM, 0, stream, cancelled) for stream in ids)


def endless_headers(head: list[tuple[str, str]], path: str) -> tuple[bytes, bytes]:
    """The beginning of headers that never end, and more of them."""
    begun = frame(HEADERS, END_STREAM, 1, fields("GET", path, head))
    more = frame(CONTINUATION, 0, 1, b"\0" + text("x-more") + text("m" * 8000))
    return begun, more
