"""A proxy for connections that breaks them, as a bad network does."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time

PIECE_BYTES = 64 * 1024


class Dropper:
    """Passes bytes on to a server, until so many came from clients; then it is away for a while, once."""

    def __init__(self, server: tuple[str, int]):
        self.server = server
        # Bytes that came from clients, and how many more may come before all connections break.
        self.passed, self.left = 0, None
        self.drops = 0
        self._away_s = self._away_until = 0.0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def drop_after(self, count: int, away_s: float = math.inf) -> None:
        """All connections break as soon as so many more bytes came, and new ones for so long, or until `back`."""
        with self._lock:
            self.left, self._away_s = count, away_s

    def back(self) -> None:
        """Connections are taken again."""
        self._away_until = 0.0

    def close(self) -> None:
        self._listener.close()
        self._break()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if time.monotonic() < self._away_until:
                client.close()
                continue
            try:
                server = socket.create_connection(self.server, timeout=10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                self._open |= {client, server}
            threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, from_client: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(PIECE_BYTES):
                if from_client and self._is_too_much(len(piece)):
                    self._break()
                    break
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
        if from_client:
            return
        for end in (source, target):
            self._open.discard(end)
            end.close()

    def _is_too_much(self, count: int) -> bool:
        with self._lock:
            self.passed += count
            if self.left is None:
                return False
            self.left -= count
            if self.left > 0:
                return False
            self.left = None
            self.drops += 1
            self._away_until = time.monotonic() + self._away_s
            return True

    def _break(self) -> None:
        with self._lock:
            broken, self._open = self._open, set()
        for end in broken:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
