"""Hostile clients beside an ordinary one, in short: it is served, and memory stays bounded. `hostile.py` measures the times."""

from __future__ import annotations

import contextlib
import os
import socket

import pytest
from security import hostile
from security import hostile_http2 as http2
from support import sigv4
from support.data import MIB, content
from support.expect import answer
from support.sigv4 import object_path

pytestmark = pytest.mark.process


@pytest.mark.parametrize("name", hostile.ATTACKS)
def test_ordinary_client_is_served_beside(tmp_path, name):
    with hostile.under_attack(tmp_path, 300) as target:
        target.floods = 1
        row = hostile.attack(name, target, seconds=0, least=60)
    assert not row.failures
    assert row.peak_mb < hostile.MOST_MB


def parked(pid: int) -> int:
    """The number of scratch files that a server has open: they hold content that waits for clients."""
    count = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            count += "/scratch/" in os.readlink(f"/proc/{pid}/fd/{name}")
    return count


def receive(sock: socket.socket, got: bytearray, answers: dict[int, bytearray]) -> set[int]:
    """Adds what comes of the answers of a connection. Returns the streams of those that have ended."""
    piece = sock.recv(1 << 16)
    assert piece, "the server has closed the connection"
    got.extend(piece)
    ended = set()
    for kind, flags, stream, payload in http2.frames(got):
        if kind == http2.DATA:
            answers[stream].extend(payload)
            if flags & http2.END_STREAM:
                ended.add(stream)
    return ended


def test_nothing_is_parked_for_clients_that_read_nothing(tmp_path):
    """256 answers, of each of which the client reads a byte. At most 52 of them find memory for a block, and one more block may
    be parked for each of these. Nothing is parked for the others. An answer whose client reads on arrives whole."""
    data, stream = content(3 * MIB, "waits"), 1
    with hostile.under_attack(tmp_path, 0) as target, target.held:
        answer(target.client.put(hostile.BUCKET, "waits", data), 200)
        path = object_path(hostile.BUCKET, "waits")
        head = hostile.signed(target.client, "GET", path, payload=sigv4.EMPTY_SHA256)
        streams = http2.stream_ids(http2.STREAMS)
        asks = b"".join(http2.request(at, "GET", path, head) for at in streams)
        socks = target.several(210, 4)
        assert len(socks) == 4
        for sock in socks:
            sock.sendall(http2.start(window=1) + asks)
            got, answers = bytearray(), {at: bytearray() for at in streams}
            while not all(answers.values()):
                receive(sock, got, answers)
        assert parked(target.server.process.pid) < 64
        sock.sendall(http2.more(stream, 1 << 24))
        while stream not in receive(sock, got, answers):
            pass
        assert answers[stream] == data
