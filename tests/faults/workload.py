"""Clients that read, write, delete, race conditional writes and list, through all nodes, and write down what they saw.

Keys come in generations, which are left for new ones after a while, so that the history of a key stays short. A
generation has plain keys, keys that many try to create, and counters that many try to swap.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import unquote

from faults import buckets, items, uploads, versions
from faults.history import ABSENT, CREATE, DELETE, FAILED, OK, READ, SWAP, UNKNOWN, WRITE, History, Listing, Operation
from support.client import Client
from support.data import KIB, MIB, content, etag, multipart_etag
from support.sigv4 import Credentials, object_path
from support.wire import Response

LOST = (OSError, http.client.HTTPException)
SIZES = [(0.6, 100), (0.9, 100 * KIB), (1.0, 3 * MIB)]
GENERATION_OPERATIONS = 400
# The share of operations that are about more than keys of one bucket, where a run has them.
OTHERS = 0.35
OTHER_KINDS = [(buckets.step, 4), (uploads.step, 4), (items.step, 3), (versions.step, 3)]
PLAIN, ONCE, COUNTERS = 6, 3, 3
TIMEOUT_S = 10.0


@dataclass
class Workload:
    """The state that the clients of one run share."""

    endpoints: list[str]
    credentials: Credentials
    bucket: str
    history: History = field(default_factory=History)
    fresh_connections: bool = False  # one per request, so that none is lost with an idle one
    writers: int = 0  # if not 0, each client writes keys of its own, and reads those of so many: no race makes an outcome unknown
    rest_s: float = 0.0  # of each client after each operation
    others: bool = False  # shared uploads, buckets that come and go, versions, K2V items
    k2v: list[str] = field(default_factory=list)
    shared: dict[str, list] = field(default_factory=dict)  # uploads, by prefix
    versions: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # names and ETags, by key
    answers: Counter = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    latencies: list[tuple[float, float, str, int]] = field(default_factory=list)
    contents: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    operations: int = 0

    def generation(self) -> int:
        """Counts one operation; tells the generation that it belongs to."""
        with self.lock:
            self.operations += 1
            return self.operations // GENERATION_OPERATIONS

    def client(self, node: int, timeout: float = TIMEOUT_S) -> Client:
        return Client(self.endpoints[node], self.credentials, not self.fresh_connections, timeout)

    def k2v_client(self, node: int) -> Client:
        return Client(self.k2v[node], self.credentials, not self.fresh_connections, TIMEOUT_S)

    def share(self, prefix: str, upload, most: int) -> None:
        """Others may complete or abort it from now on; the oldest of too many is forgotten."""
        with self.lock:
            self.shared.setdefault(prefix, []).append(upload)
            del self.shared[prefix][:-most]

    def uploads_of(self, prefix: str) -> list:
        with self.lock:
            return list(self.shared.get(prefix, ()))

    def add_version(self, key: str, version: str, tag: str) -> None:
        with self.lock:
            self.versions.setdefault(key, []).append((version, tag))

    def path(self, key: str) -> str:
        """Where a key of the history is: most are keys of the one bucket."""
        return buckets.path_of(self.bucket, key)

    def announce(self, tag: str, data: bytes) -> None:
        """This content may be found from now on."""
        with self.lock:
            self.contents[tag] = hashlib.sha256(data).hexdigest()

    def count(self, kind: str, node: int, began: float, answer: str) -> None:
        with self.lock:
            self.answers[kind, answer] += 1
            self.latencies.append((began, time.monotonic() - began, f"{kind} {answer}", node))

    def fail(self, what: str) -> None:
        """No answer, or a refusal: no fault by itself, but some runs allow none."""
        with self.lock:
            self.failures.append(what)

    def surprise(self, what: str) -> None:
        """An answer that no fault excuses."""
        with self.lock:
            self.unexpected.append(what)


class Refused(Exception):
    """The node takes no connections: nothing was asked."""


class Worker(threading.Thread):
    """One client: one operation after another, each through a node of its choice."""

    def __init__(self, load: Workload, name: str, seed: int, nodes: list[int] | None = None):
        super().__init__(daemon=True, name=name)
        self.load, self.rng = load, random.Random(seed)
        self.nodes = nodes or list(range(len(load.endpoints)))
        self.clients = {node: load.client(node) for node in self.nodes}
        self.k2v_clients = {node: load.k2v_client(node) for node in self.nodes} if load.k2v else {}
        self.final = False  # nothing changes any more, so that all nodes know which buckets there are
        self.done = threading.Event()
        self.failure: BaseException | None = None
        self.number = 0

    def run(self) -> None:
        try:
            while not self.done.is_set():
                self.step()
                self.done.wait(self.load.rest_s)
        except BaseException as error:  # a bug of the harness must not look like a quiet client
            self.failure = error
        finally:
            self.close()

    def close(self) -> None:
        for client in [*self.clients.values(), *self.k2v_clients.values()]:
            client.close()

    def step(self) -> None:
        """One operation."""
        self.number += 1
        prefix = f"g{self.load.generation():05}/"
        node, draw = self.rng.choice(self.nodes), self.rng.random()
        try:
            if self.load.others and self.rng.random() < OTHERS:
                steps, weights = zip(*OTHER_KINDS)
                self.rng.choices(steps, weights)[0](self, node, prefix)
            elif draw < 0.05:
                self.list(node, prefix)
            elif draw < 0.20:
                self.create_or_look(node, prefix, f"once{self.rng.randrange(ONCE)}")
            elif draw < 0.45:
                self.count_up(node, self.own(prefix, f"counter{self.rng.randrange(COUNTERS)}"))
            else:
                self.plain(node, prefix, f"plain {self.rng.randrange(PLAIN)}")
        except Refused:
            self.load.count("any", node, time.monotonic(), "connection refused")
            time.sleep(0.02)

    def own(self, prefix: str, name: str) -> str:
        """The key to write."""
        return f"{prefix}{self.name} {name}" if self.load.writers else f"{prefix}{name}"

    def any(self, prefix: str, name: str) -> str:
        """The key to read."""
        return f"{prefix}c{self.rng.randrange(self.load.writers)} {name}" if self.load.writers else f"{prefix}{name}"

    def plain(self, node: int, prefix: str, name: str) -> None:
        draw, key = self.rng.random(), self.own(prefix, name)
        if draw < 0.40:
            self.read(node, self.any(prefix, name))
        elif draw < 0.55:
            self.read(node, self.any(prefix, name), "HEAD")
        elif draw < 0.80:
            self.put(node, key, WRITE)
        elif draw < 0.92:
            self.delete(node, key)
        elif draw < 0.95:
            self.multipart(node, key)
        else:
            self.put(node, key, CREATE)

    def create_or_look(self, node: int, prefix: str, name: str) -> None:
        draw = self.rng.random()
        if draw < 0.5:
            self.put(node, self.own(prefix, name), CREATE)
        elif draw < 0.85:
            self.read(node, self.any(prefix, name))
        else:
            self.delete(node, self.own(prefix, name))

    def count_up(self, node: int, key: str) -> None:
        """Reads and swaps; begins with a creation."""
        found = self.read(node, key, "HEAD" if self.rng.random() < 0.5 else "GET")
        if found is UNKNOWN:
            return
        node = self.rng.choice(self.nodes) if self.rng.random() < 0.3 else node
        if found is ABSENT:
            self.put(node, key, CREATE)
        else:
            self.put(node, key, SWAP, found)

    def ask(self, kind: str, node: int, method: str, key: str, headers=(), body=b"", query=()) -> Response | None:
        """A request about a key of the history; a bucket that comes and goes may be gone."""
        may = buckets.GONE if key.startswith(buckets.MARK) else ()
        return self.request(kind, node, method, self.load.path(key), query, headers, body, may)

    def request(
        self, kind: str, node: int, method: str, path: str, query=(), headers=(), body=b"", may: tuple[str, ...] = (), k2v=False
    ) -> Response | None:
        """The answer, or None: whether it took effect is not known. Raises `Refused` if nothing was sent.

        `may`: errors that are right beside those of any request.
        """
        began, client = time.monotonic(), (self.k2v_clients if k2v else self.clients)[node]
        try:
            reply = client.request(method, path, query, headers, body, service="k2v" if k2v else "s3")
        except ConnectionRefusedError:
            raise Refused from None
        except LOST as error:
            self.load.count(kind, node, began, type(error).__name__)
            self.load.fail(f"{began:.3f} {self.name} node {node}: {kind} {path}: {error!r}")
            return None
        code = (k2v_code(reply) if k2v else reply.code) if reply.status >= 300 or reply.body.startswith(b"<?xml") else None
        self.load.count(kind, node, began, f"{reply.status} {code or ''}".strip())
        if reply.status >= 500 or (reply.status == 200 and code):
            self.load.fail(f"{began:.3f} {self.name} node {node}: {kind} {path}: {reply.status} {code}")
            return None
        if code not in may and not expected(reply.status, code):
            self.load.surprise(f"{began:.3f} {self.name} node {node}: {kind} {path}: {reply.brief()}")
        return reply

    def begin(self, kind: str, key: str, node: int, **more) -> Operation:
        return Operation(kind, key, time.monotonic(), client=self.name, node=node, **more)

    def end(self, operation: Operation, outcome: str) -> None:
        if outcome != UNKNOWN:
            operation.answered = time.monotonic()
        operation.outcome = outcome
        self.load.history.add(operation)

    def read(self, node: int, key: str, method: str = "GET") -> str | None:
        """The ETag, ABSENT, or UNKNOWN."""
        operation = self.begin(READ, key, node, note=method)
        method = "GET" if key.startswith(buckets.MARK) else method  # which says whether it is the bucket that is gone
        reply = self.ask(method, node, method, key)
        if reply is None or reply.status not in (200, 404):
            return UNKNOWN
        if reply.status == 404 and reply.code in buckets.GONE and not self.final:
            return UNKNOWN
        operation.found = reply.headers.get("etag") if reply.status == 200 else ABSENT
        self.end(operation, OK)
        if reply.status == 200 and method == "GET":
            self.compare(operation, reply)
        return operation.found

    def compare(self, operation: Operation, reply: Response) -> None:
        wanted = self.load.contents.get(operation.found)
        if wanted is not None and hashlib.sha256(reply.body).hexdigest() != wanted:
            self.load.history.add_damage(
                f"{operation.key}: what node {operation.node} gave {operation.client} at {operation.called:.3f} "
                f"({len(reply.body)} bytes) is not the content of {operation.found}"
            )

    def put(self, node: int, key: str, kind: str, wanted: str | None = ABSENT) -> None:
        size = next(size for share, size in SIZES if self.rng.random() < share)
        if kind == SWAP:
            size = 100
        data = content(size, f"{self.name} {self.number} {key}")
        tag = etag(data)
        self.load.announce(tag, data)
        headers = {WRITE: [], CREATE: [("If-None-Match", "*")], SWAP: [("If-Match", wanted)]}[kind]
        operation = self.begin(kind, key, node, value=tag, expected=wanted)
        reply = self.change(operation, lambda: self.ask(f"PUT {kind}", node, "PUT", key, headers, data))
        if reply is not None and reply.status == 200 and key.startswith(versions.MARK):
            self.load.add_version(key, reply.headers["x-amz-version-id"], tag)

    def delete(self, node: int, key: str) -> None:
        operation = self.begin(DELETE, key, node)
        self.change(operation, lambda: self.ask("DELETE", node, "DELETE", key))

    def change(self, operation: Operation, send) -> Response | None:
        """Sends and notes what became of it; nothing if nothing was sent, or nothing changed for another reason."""
        reply = send()
        if reply is None:
            self.end(operation, UNKNOWN)
        elif reply.status in (200, 204):
            self.end(operation, OK)
        elif operation.kind in (CREATE, SWAP) and reply.status in (404, 412):
            self.end(operation, FAILED)
        elif reply.status != 409 and reply.code not in buckets.GONE:
            self.load.surprise(f"{operation.called:.3f} {self.name} node {operation.node}: {operation.kind}: {reply.brief()}")
        return reply

    def multipart(self, node: int, key: str) -> None:
        """Two parts, sent through nodes of any choice; only the completion changes the key."""
        path = object_path(self.load.bucket, key)
        parts = [content(size, f"{self.name} {self.number} {size}") for size in (5 * MIB, 999)]
        upload = self.request("CreateMultipartUpload", node, "POST", path, [("uploads", "")])
        if upload is None or upload.status != 200:
            return
        upload_id, body = upload.xml().findtext("UploadId"), "<CompleteMultipartUpload>"
        for number, data in enumerate(parts, 1):
            query = [("partNumber", str(number)), ("uploadId", upload_id)]
            reply = self.request("UploadPart", self.rng.choice(self.nodes), "PUT", path, query, (), data)
            if reply is None or reply.status != 200:
                return
            body += f"<Part><PartNumber>{number}</PartNumber><ETag>{reply.headers['etag']}</ETag></Part>"
        body = (body + "</CompleteMultipartUpload>").encode()
        tag = multipart_etag(parts)
        self.load.announce(tag, b"".join(parts))
        operation = self.begin(WRITE, key, node, value=tag, note="multipart")
        query = [("uploadId", upload_id)]
        self.change(operation, lambda: self.request("CompleteMultipartUpload", node, "POST", path, query, (), body))

    def list(self, node: int, prefix: str) -> list[str] | str:
        """All keys, each page through a node of any choice; UNKNOWN if one of them did not come."""
        began, keys = time.monotonic(), []
        bucket, within = buckets.where(self.load.bucket, prefix)
        size = self.rng.choice([1000, 1000, 3])
        query = [("list-type", "2"), ("prefix", within), ("max-keys", str(size)), ("encoding-type", "url")]
        token: list[tuple[str, str]] = []
        while True:
            reply = self.request("LIST", node, "GET", f"/{bucket}", query + token)
            if reply is None or reply.status != 200:
                return UNKNOWN
            root = reply.xml()
            mark = prefix.removesuffix(within)
            keys += [mark + unquote(c.findtext("Key").replace("+", " ")) for c in root.iter("Contents")]
            following = root.findtext("NextContinuationToken")
            if not following:
                break
            token = [("continuation-token", following)]
            node = self.rng.choice(self.nodes)
        self.load.history.add_listing(Listing(prefix, began, time.monotonic(), keys, self.name, node))
        return keys


def expected(status: int, code: str | None) -> bool:
    """Answers that are right whatever others do at the same time."""
    if status in (404, 409):
        return code in (None, "NoSuchKey", "ConditionalRequestConflict")
    return status in (200, 204, 412)


def k2v_code(reply: Response) -> str | None:
    """The code of an error of K2V, which is JSON."""
    try:
        return json.loads(reply.body).get("code") if reply.body else None
    except (ValueError, AttributeError):
        return None
