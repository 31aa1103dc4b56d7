"""A client that listens to events over plain HTTP."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import socket
import threading
import urllib.parse
from urllib.parse import urlsplit

from . import sigv4
from .server import wait_until
from .sigv4 import Credentials

ALL = ("s3:ObjectCreated:*", "s3:ObjectRemoved:*", "s3:ObjectTagging:*", "s3:ObjectAcl:Put", "s3:LifecycleExpiration:*")


class Listener:
    """Listens to a bucket, or to all without one; `with` ends it. Its lines are in `lines`, without pings in `records`."""

    def __init__(self, endpoint: str, credentials: Credentials, bucket: str | None, *events: str, **more: str):
        parts = urlsplit(endpoint)
        query = [*(("events", event) for event in events or ALL), *more.items()]
        path = f"/{bucket or ''}"
        empty = hashlib.sha256(b"").hexdigest()
        headers = sigv4.sign_headers(credentials, "GET", path, query, [("Host", parts.netloc)], empty)
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        self.connection.putrequest("GET", f"{path}?{sigv4.query_string(query)}", skip_host=True, skip_accept_encoding=True)
        for name, value in headers:
            self.connection.putheader(name, value)
        self.connection.endheaders()
        self.socket = self.connection.sock
        self.reply = self.connection.getresponse()
        self.status, self.headers = self.reply.status, self.reply.headers
        self.lines: list[bytes] = []
        self.ended = threading.Event()
        self.thread: threading.Thread | None = None
        if self.status == 200:
            self.thread = threading.Thread(target=self._read, daemon=True)
            self.thread.start()

    def _read(self) -> None:
        try:
            while line := self.reply.readline():
                self.lines.append(line)
        except (OSError, http.client.HTTPException):
            pass  # this end closed it
        self.ended.set()

    def __enter__(self):
        assert self.status == 200, self.reply.read()
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        # The reading thread holds a lock of the answer, so it has to end first.
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        if self.thread:
            self.thread.join()
        self.connection.close()

    @property
    def code(self) -> str:
        """The code of a refusal."""
        return self.reply.read().decode().split("<Code>")[1].split("</Code>")[0]

    @property
    def records(self) -> list[dict]:
        found = [json.loads(line)["Records"] for line in list(self.lines) if line.strip()]
        return [record for records in found for record in records or []]

    @property
    def told(self) -> list[tuple[str, str]]:
        """Names and keys."""
        return [(r["eventName"], urllib.parse.unquote_plus(r["s3"]["object"]["key"])) for r in self.records]

    def hears(self, *wanted: tuple[str, str]) -> None:
        """These events must come, in any order, and no others."""
        assert wait_until(lambda: len(self.told) >= len(wanted), 30), self.told
        assert sorted(self.told) == sorted(wanted)
