"""A ledger of what was sent and what was acknowledged, kept outside of what is cut or killed.

Each writer owns its keys, so the history of a key is a sequence. After a crash a key must hold its last acknowledged
content, or that of an operation that was under way and never answered; a deleted key must be gone, or hold the latter.

With `buffered` a power cut may undo what was acknowledged within the last second, the newest first: see `Buffered`.
"""

from __future__ import annotations

import hashlib
import http.client
import random
import threading
import time
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
    # As it was when the last crash was looked at.
    acknowledged_before: str = ABSENT


def digest(data: bytes) -> str:
    return f"{len(data)} bytes {hashlib.sha256(data).hexdigest()}"


@dataclass
class Operation:
    """An operation of a writer on a key, in its order; `at` is when the answer came (None if none did, or an error)."""

    key: str
    state: str
    at: float | None = None
    etag: str = ""


class Ledger:
    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        # The operations of each writer since the last cut, by the first part of its keys.
        self.done: dict[str, list[Operation]] = {}
        self.acknowledged = 0
        self.refused: dict[tuple[int, str | None], int] = {}
        self.lock = threading.Lock()

    def attempt(self, key: str, state: str, send) -> bool:
        """Runs `send() -> Response`; records its outcome. False: no answer came (the server is gone)."""
        entry = self.entries.setdefault(key, Entry())
        entry.pending.append(state)
        operation = Operation(key, state)
        self.done.setdefault(key.partition("/")[0], []).append(operation)
        try:
            reply = send()
        except LOST:
            return False
        with self.lock:
            if reply.status in (200, 204) and reply.code is None:
                entry.acknowledged, entry.pending = state, []
                operation.at, operation.etag = time.monotonic(), etag_of(reply)
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


    def judge_all(self, seen: dict[str, str]) -> list[str]:
        """Returns what is wrong with all that was seen after a crash; from here on, that is what is known."""
        wrong = [problem for key, state in seen.items() if (problem := self.judge(key, state))]
        for key, state in seen.items():
            self.entries[key] = Entry(state, [], state)
        self.done = {}
        return wrong

    def created(self, until: float | None = None) -> set[tuple[str, str]]:
        """Keys and entity tags of all objects that were acknowledged since the last cut; `until`: before that time."""
        operations = [one for all_ in self.done.values() for one in all_ if one.at and one.etag]
        return {(one.key, one.etag) for one in operations if until is None or one.at < until}


def etag_of(reply) -> str:
    """The entity tag of what was written; empty for a deletion."""
    if "etag" in reply.headers:
        return reply.headers["etag"].strip('"')
    return (reply.xml().findtext("ETag") or "").strip('"') if reply.body else ""


class Buffered(Ledger):
    """The states that a power cut may leave with `buffered`.

    Commits are synced after a second, and a cut undoes any number of the last ones. So of what a writer did, in its
    order, a first part is in effect and the rest is not; the rest was acknowledged within the last second. Contents
    are whole: a key holds one of the states that the writer gave it, to the byte.
    """

    # The second, and the sync itself, on a machine that does much else. Writes acknowledged earlier must be there.
    UNDONE_S = 5.0

    def __init__(self) -> None:
        super().__init__()
        self.cut_at = 0.0
        self.undone = 0
        # The age of the oldest undone write at the cut, in seconds.
        self.oldest = 0.0

    def judge_all(self, seen: dict[str, str]) -> list[str]:
        wrong = []
        for writer in {key.partition("/")[0] for key in seen}:
            operations = self.done.get(writer, [])
            before = {key: self.entries[key].acknowledged_before for key in seen if key.partition("/")[0] == writer}
            kept = kept_part(before, operations, seen)
            if kept is None:
                wrong.append(f"{writer}: no first part of what it did leads to what is there: {self.told(before, operations, seen)}")
                continue
            lost = [one for one in operations[kept:] if one.at is not None]
            self.undone += len(lost)
            for one in lost:
                age = self.cut_at - one.at
                self.oldest = max(self.oldest, age)
                if age > self.UNDONE_S:
                    wrong.append(f"{one.key}: {one.state} was acknowledged {age:.1f} s before the cut, and is undone")
        for key, state in seen.items():
            self.entries[key] = Entry(state, [], state)
        self.done = {}
        return wrong

    def told(self, before: dict[str, str], operations: list[Operation], seen: dict[str, str]) -> str:
        """The keys that hold nothing that their writer gave them; else those that differ from the end."""
        strange = [key for key in before if seen[key] not in {before[key], *(o.state for o in operations if o.key == key)}]
        last = before | {one.key: one.state for one in operations if one.at is not None}
        differ = strange or [key for key in before if seen[key] != last[key]]
        return "; ".join(f"{key} is {seen[key]}, last acknowledged {last[key]}" for key in differ[:4])


def kept_part(before: dict[str, str], operations: list[Operation], seen: dict[str, str]) -> int | None:
    """Returns the number of operations in effect, the most if several numbers fit; None if no number does.

    An operation without an answer may be in effect or not.
    """
    fits = None
    state = {key: {first} for key, first in before.items()}
    wrong = {key for key, possible in state.items() if seen[key] not in possible}
    if not wrong:
        fits = 0
    for number, one in enumerate(operations, 1):
        state[one.key] = {one.state} if one.at is not None else state[one.key] | {one.state}
        (wrong.discard if seen[one.key] in state[one.key] else wrong.add)(one.key)
        if not wrong:
            fits = number
    return fits


def verify(client: Client, bucket: str, ledger: Ledger) -> list[str]:
    """Reads every key, and the listing; returns what is lost, damaged, half there, or back from the dead."""
    wrong, found = [], {}
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
            seen = digest(reply.body)
            if reply.headers.get("content-length") != str(len(reply.body)):
                wrong.append(f"{key}: shorter than announced")
        else:
            wrong.append(f"{key}: {reply.brief()}")
            continue
        found[key] = seen
        if (key in listed) != (seen != ABSENT):
            wrong.append(f"{key}: {'listed but absent' if key in listed else 'there but not listed'}")
    wrong += ledger.judge_all(found)
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
# Most with one block: such an object is overwritten by a row that names another block.
BUFFERED_SIZES = [100, 20 * KIB, MIB, MIB, MIB, 3 * MIB]


class Writer(threading.Thread):
    """Puts, overwrites, deletes and completes uploads under its own keys until the server is gone or it is told to stop."""

    def __init__(
        self, client: Client, bucket: str, ledger: Ledger, name: str, seed: int, keys: int = 12, sizes: list[int] = SIZES
    ):
        super().__init__(daemon=True)
        self.client, self.bucket, self.ledger = client, bucket, ledger
        self.prefix, self.rng, self.keys, self.sizes = name, random.Random(seed), keys, sizes
        # No two contents are the same, whatever run of the writer they are of.
        self.seed = f"{name} {seed}"
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
        data = content(self.rng.choice(self.sizes), f"{self.seed} {self.number}")
        return self.ledger.attempt(key, digest(data), lambda: self.client.put(self.bucket, key, data))

    def multipart(self, key: str) -> bool:
        """A part of 5 MiB and a small one, completed; only the completion changes the key."""
        path = object_path(self.bucket, key)
        parts = [content(5 * MIB, f"{self.seed} {self.number} a"), content(999, f"{self.seed} {self.number} b")]
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
        state = digest(b"".join(parts))
        return self.ledger.attempt(
            key, state, lambda: self.client.request("POST", path, [("uploadId", upload_id)], body=body)
        )
