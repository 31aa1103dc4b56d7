"""Buckets that clients make, fill, empty and delete, through all nodes, and make again under the same name.

A deletion succeeds only where no object is. So one that was acknowledged has seen each key of the bucket absent, at one
moment between its call and its answer; the histories of these keys must have room for that.
"""

from __future__ import annotations

import time

from faults.history import ABSENT, DELETE, OK, READ, WRITE, Operation
from support.sigv4 import object_path

BUCKETS, OBJECTS = 2, 2
# The mark before the keys of these buckets in a history: `B/<bucket>/<key>`.
MARK = "B/"
# The error of a request while the bucket is not there, or as far as the node knows.
GONE = ("NoSuchBucket",)


def step(worker, node: int, prefix: str) -> None:
    """One operation of a worker on a bucket of this generation, or in it."""
    bucket = f"{prefix.rstrip('/')}-{worker.rng.randrange(BUCKETS)}"
    key, draw = f"{MARK}{bucket}/{worker.rng.randrange(OBJECTS)}", worker.rng.random()
    if draw < 0.25:
        worker.request("CreateBucket", node, "PUT", f"/{bucket}", may=("BucketAlreadyOwnedByYou", "OperationAborted"))
    elif draw < 0.50:
        unmake(worker, node, bucket)
    elif draw < 0.60:
        worker.put(node, key, WRITE)
    elif draw < 0.85:
        worker.change(worker.begin(DELETE, key, node), lambda: worker.ask("DELETE", node, "DELETE", key))
    else:
        worker.read(node, key)


def unmake(worker, node: int, bucket: str) -> None:
    """Deletes the bucket, and notes of each key what an acknowledgement says."""
    called = time.monotonic()
    may = (*GONE, "BucketNotEmpty", "OperationAborted")
    reply = worker.request("DeleteBucket", node, "DELETE", f"/{bucket}", may=may)
    if reply is None or reply.status != 204:
        return
    answered = time.monotonic()
    for number in range(OBJECTS):
        seen = Operation(READ, f"{MARK}{bucket}/{number}", called, answered, OK, found=ABSENT)
        seen.client, seen.node, seen.note = worker.name, node, "the bucket was deleted"
        worker.load.history.add(seen)


def where(bucket: str, key: str) -> tuple[str, str]:
    """Bucket and key of a key in a history; `bucket` is that of all keys without a mark."""
    if not key.startswith(MARK):
        return bucket, key
    bucket, _, key = key[len(MARK) :].partition("/")
    return bucket, key


def path_of(bucket: str, key: str) -> str:
    return object_path(*where(bucket, key))
