"""The state at the end of a run, when nothing is broken any more: read through every node, and judged with the rest."""

from __future__ import annotations

import threading
import time

from faults import buckets, items, uploads, versions
from faults.history import ABSENT, UNKNOWN
from faults.workload import Worker

PASSES = 10


def read_everything(run) -> None:
    """Reads every key through every node, into the history, until all see and list the same.

    They may differ at first: an operation of unknown outcome takes effect when a reader sees it.
    """
    history = run.load.history
    keys, differing = sorted({one.key for one in [*history.operations, *history.endings]}), {}
    for _ in range(PASSES):
        differing = read_pass(run, differing or keys)
        if not differing:
            break
        run.note(f"{len(differing)} keys differ")
        time.sleep(1)
    run.wrong += [f"{key} differs at the end: {what}" for key, what in differing.items()]
    look_again(run)
    run.note(f"read {len(keys)} keys through every node")


def look_again(run) -> None:
    """Every version, every K2V item and every shared upload, through every node."""
    history = run.load.history
    things = sorted({one.item for one in history.items})
    shared = {one.upload: uploads.Shared(one.key, one.upload, one.value, b"") for one in history.endings}

    def through(node: int) -> None:
        reader = Worker(run.load, f"last{node}", 0, [node])
        try:
            versions.look_at_all(reader, node)
            for item in things:
                items.see(reader, node, item)
            for upload in shared.values():
                uploads.look(reader, node, upload)
        except Exception as error:  # in a thread of its own, it would go unseen
            run.wrong.append(f"not all is read again through node {node}: {error!r}")
        finally:
            reader.close()

    readers = [threading.Thread(target=through, args=(node.number,)) for node in run.cluster.nodes]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()


def read_pass(run, keys) -> dict[str, str]:
    """Keys that the nodes see or list differently, and how."""
    seen: list[dict[str, str | None]] = [{} for _ in run.cluster.nodes]
    jobs = [(node.number, list(keys), seen[node.number]) for node in run.cluster.nodes]
    readers = [threading.Thread(target=read_through, args=(run, *job)) for job in jobs]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    differing = {}
    for key in keys:
        found = [s[key] for s in seen]
        if len(set(found)) > 1 or " but " in str(found[0]):
            differing[key] = ", ".join(map(str, found))
    return differing


def read_through(run, node: int, keys: list[str], seen: dict) -> None:
    """Notes what one node gives for each key, and whether it lists it."""
    reader = Worker(run.load, f"final{node}", 0, [node])
    reader.final = True
    etags = {key: next(filter(answered, (reader.read(node, key) for _ in range(3))), UNKNOWN) for key in keys}
    prefixes = ["g", f"{versions.MARK}g"] if run.load.others else ["g"]
    lists = [next(filter(answered, (reader.list(node, prefix) for _ in range(3))), UNKNOWN) for prefix in prefixes]
    listed = UNKNOWN if UNKNOWN in lists else {key for keys in lists for key in keys}
    for key, etag in etags.items():
        if key.startswith(buckets.MARK) and not key.startswith(versions.MARK):
            seen[key] = etag  # its bucket may be gone, and then there is nothing to list
            continue
        there = "no listing" if listed is UNKNOWN else "listed" if key in listed else "not listed"
        right = "not listed" if etag is ABSENT else "listed"
        seen[key] = etag if there == right else f"{etag} but {there} (node {node})"
    reader.close()


def answered(found) -> bool:
    return found != UNKNOWN
