"""Uploads that clients share: any of them completes or aborts one that another began, also twice.

The parts and their order are the same whichever client completes, so the object is the same, too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from faults.history import ABORT, COMPLETE, FAILED, LOOK, OK, UNKNOWN, WRITE, Ending
from support.data import KIB, content, multipart_etag
from support.sigv4 import object_path

KEYS = 4
# Begun uploads of a generation that clients still know.
KNOWN = 12


@dataclass
class Shared:
    """An upload in progress, or one that was."""

    key: str
    id: str
    tag: str
    document: bytes


def step(worker, node: int, prefix: str) -> None:
    """One operation of a worker on some upload of this generation."""
    known = worker.load.uploads_of(prefix)
    draw = worker.rng.random()
    if not known or draw < 0.35:
        begin(worker, node, f"{prefix}upload {worker.rng.randrange(KEYS)}")
        return
    upload = worker.rng.choice(known)
    if draw < 0.65:
        complete(worker, node, upload)
        if worker.rng.random() < 0.3:
            complete(worker, worker.rng.choice(worker.nodes), upload)
    elif draw < 0.80:
        end(worker, node, upload, ABORT, "AbortMultipartUpload", "DELETE")
    elif draw < 0.90:
        look(worker, node, upload)
    elif draw < 0.97:
        worker.read(node, upload.key)
    else:
        worker.put(node, upload.key, WRITE)


def begin(worker, node: int, key: str) -> None:
    path = object_path(worker.load.bucket, key)
    begun = worker.request("CreateMultipartUpload", node, "POST", path, [("uploads", "")])
    if begun is None or begun.status != 200:
        return
    upload = begun.xml().findtext("UploadId")
    data = content(worker.rng.choice([100, 100 * KIB]), f"{worker.name} {worker.number} {upload}")
    query = [("partNumber", "1"), ("uploadId", upload)]
    sent = worker.request("UploadPart", worker.rng.choice(worker.nodes), "PUT", path, query, (), data)
    if sent is None or sent.status != 200:
        return
    part = f"<Part><PartNumber>1</PartNumber><ETag>{sent.headers['etag']}</ETag></Part>"
    document = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
    tag = multipart_etag([data])
    worker.load.announce(tag, data)
    worker.load.share(key.rpartition("/")[0] + "/", Shared(key, upload, tag, document), KNOWN)


def look(worker, node: int, upload: Shared) -> None:
    """Asks for its parts, and notes if it goes on."""
    end(worker, node, upload, LOOK, "ListParts", "GET")


def complete(worker, node: int, upload: Shared) -> None:
    end(worker, node, upload, COMPLETE, "CompleteMultipartUpload", "POST", upload.document)


def end(worker, node: int, upload: Shared, kind: str, name: str, method: str, body: bytes = b"") -> None:
    """Sends it, and notes what became of it."""
    ending = Ending(kind, upload.key, upload.id, upload.tag, time.monotonic(), client=worker.name, node=node)
    query = [("uploadId", upload.id)]
    path = object_path(worker.load.bucket, upload.key)
    reply = worker.request(name, node, method, path, query, (), body, may=("NoSuchUpload",))
    if reply is not None:
        ending.answered = time.monotonic()
        ending.outcome = OK if reply.status in (200, 204) else FAILED
    else:
        ending.outcome = UNKNOWN
    worker.load.history.add_ending(ending)
