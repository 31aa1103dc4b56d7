"""What was sent and what was acknowledged, kept outside of what is cut or killed.

Each writer owns its keys, so the history of a key is a sequence. After a crash a key must hold its last acknowledged
content, or that of an operation that was under way and never answered; a deleted key must be gone, or hold the latter.
"""

from __future__ import annotations

import hashlib
import http.client
import random
import threading
from dataclasses import dataclass, field

from support.client import Client
from support.data import KIB, MIB, content
from support.sigv4 import object_path

ABSENT = "absent"
LOST = (OSError, http.client.HTTPException)


@dataclass
class Entry:
    """One key: the state that was last acknowledged, and those that may have taken its place since."""

    acknowledged: str = ABSENT
    pending: list[str] = field(default_factory=list)


def fingerprint(data: bytes) -> str:
    return f"{len(data)} bytes {hashlib.sha256(data).hexdigest()}"


class Ledger:
    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.acknowledged = 0
        self.refused: dict[tuple[int, str | None], int] = {}
        self.lock = threading.Lock()

    def attempt(self, key: str, state: str, send) -> bool:
        """Runs `send() -> Response`; records its outcome. False: no answer came (the server is gone)."""
        entry = self.entries.setdefault(key, Entry())
        entry.pending.append(state)
        try:
            reply = send()
        except LOST:
            return False
        with self.lock:
            if reply.status in (200, 204) and reply.code is None:
                entry.acknowledged, entry.pending = state, []
                self.acknowledged += 1
            else:
                known = (reply.status, reply.code)
                self.refused[known] = self.refused.get(known, 0) + 1
        return True

    def judge(self, key: str, seen: str) -> str | None:
        """None if `seen` is a state that the key may be in; else what is wrong."""
        entry = self.entries[key]
        if seen == entry.acknowledged or seen in entry.pending:
            return None
        return f"{key}: acknowledged {entry.acknowledged}, found {seen}"


def verify(client: Client, bucket: str, ledger: Ledger) -> list[str]:
    """Reads every key, and the listing; returns what is lost, damaged, half there, or back from the dead."""
    wrong = []
    listed = listing(client, bucket)
    for key in sorted(ledger.entries):
        try:
            reply = client.get(bucket, key)
        except http.client.IncompleteRead as error:
            wrong.append(f"{key}: broken off: {error}")
            continue
        if reply.status == 404:
            seen = ABSENT
        elif reply.status == 200:
            seen = fingerprint(reply.body)
            if reply.headers.get("content-length") != str(len(reply.body)):
                wrong.append(f"{key}: shorter than announced")
        else:
            wrong.append(f"{key}: {reply.brief()}")
            continue
        problem = ledger.judge(key, seen)
        if problem:
            wrong.append(problem)
        if (key in listed) != (seen != ABSENT):
            wrong.append(f"{key}: {'listed but absent' if key in listed else 'there but not listed'}")
        ledger.entries[key] = Entry(seen)
    return wrong + [f"{key}: was never written" for key in sorted(listed - set(ledger.entries))]


def listing(client: Client, bucket: str) -> set[str]:
    keys, query = set(), [("list-type", "2")]
    while True:
        reply = client.request("GET", f"/{bucket}", query)
        if reply.status != 200:
            raise AssertionError(f"listing: {reply.brief()}")
        root = reply.xml()
        keys |= {c.findtext("Key") for c in root.iter("Contents")}
        token = root.findtext("NextContinuationToken")
        if not token:
            return keys
        query = [("list-type", "2"), ("continuation-token", token)]


SIZES = [100, 3 * KIB, 20 * KIB, 20 * KIB, 3 * MIB]


class Writer(threading.Thread):
    """Puts, overwrites, deletes and completes uploads under its own keys until the server is gone or it is told to stop."""

    def __init__(self, client: Client, bucket: str, ledger: Ledger, name: str, seed: int, keys: int = 12):
        super().__init__(daemon=True)
        self.client, self.bucket, self.ledger = client, bucket, ledger
        self.prefix, self.rng, self.keys = name, random.Random(seed), keys
        self.done = threading.Event()
        self.number = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.done.is_set() and self.step():
                pass
        except BaseException as error:  # a bug of the harness must not look like a quiet writer
            self.failure = error
        finally:
            self.client.close()

    def step(self) -> bool:
        """One operation; False once the server does not answer."""
        self.number += 1
        key = f"{self.prefix}/{self.rng.randrange(self.keys)}"
        action = self.rng.random()
        if action < 0.15:
            return self.ledger.attempt(key, ABSENT, lambda: self.client.delete(self.bucket, key))
        if action < 0.25:
            return self.multipart(key)
        data = content(self.rng.choice(SIZES), f"{self.prefix} {self.number}")
        return self.ledger.attempt(key, fingerprint(data), lambda: self.client.put(self.bucket, key, data))

    def multipart(self, key: str) -> bool:
        """A part of 5 MiB and a small one, completed; only the completion changes the key."""
        path = object_path(self.bucket, key)
        parts = [content(5 * MIB, f"{self.prefix} {self.number} a"), content(999, f"{self.prefix} {self.number} b")]
        try:
            upload = self.client.request("POST", path, [("uploads", "")])
            if upload.status != 200:
                return True
            upload_id = upload.xml().findtext("UploadId")
            body = "<CompleteMultipartUpload>"
            for number, data in enumerate(parts, 1):
                reply = self.client.request("PUT", path, [("partNumber", str(number)), ("uploadId", upload_id)], body=data)
                if reply.status != 200:
                    return True
                body += f"<Part><PartNumber>{number}</PartNumber><ETag>{reply.headers['etag']}</ETag></Part>"
        except LOST:
            return False
        body = (body + "</CompleteMultipartUpload>").encode()
        state = fingerprint(b"".join(parts))
        return self.ledger.attempt(
            key, state, lambda: self.client.request("POST", path, [("uploadId", upload_id)], body=body)
        )
