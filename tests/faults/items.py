"""K2V items that clients insert with and without tokens, delete and read, and the rules that their history must obey."""

from __future__ import annotations

import base64
import json
import time

from faults.history import OK, ItemOperation
from support.sigv4 import object_path

ITEMS = 3
TOKEN = "X-Garage-Causality-Token"
INSERT, REMOVE, SEE = "insert", "remove", "see"


def step(worker, node: int, prefix: str) -> None:
    """One operation of a worker: a read, or a read and what is written upon it, or a blind insert."""
    item, draw = f"{prefix.rstrip('/')}:{worker.rng.randrange(ITEMS)}", worker.rng.random()
    if draw < 0.2:
        insert(worker, node, item, [], None)
        return
    found = see(worker, node, item)
    if found is None or draw < 0.5:
        return
    values, token = found
    node = worker.rng.choice(worker.nodes)
    if token is None or draw < 0.85:
        insert(worker, node, item, values, token)
    else:
        change(worker, node, ItemOperation(REMOVE, item, replaced=values), "DELETE", b"", token)


def insert(worker, node: int, item: str, values: list[str], token: str | None) -> None:
    value = f"{worker.name} {worker.number} {item}"
    change(worker, node, ItemOperation(INSERT, item, value=value, replaced=values), "PUT", value.encode(), token)


def change(worker, node: int, operation: ItemOperation, method: str, body: bytes, token: str | None) -> None:
    headers = [(TOKEN, token)] if token else []
    operation.called, operation.client, operation.node = time.monotonic(), worker.name, node
    reply = ask(worker, node, f"K2V {operation.kind}", method, operation.item, headers, body)
    if reply is not None:
        operation.answered, operation.outcome = time.monotonic(), OK
        if reply.status not in (200, 204):
            worker.load.surprise(f"{worker.name} node {node}: K2V {operation.kind}: {reply.brief()}")
            return
    worker.load.history.add_item(operation)


def see(worker, node: int, item: str) -> tuple[list[str], str | None] | None:
    """The values and the token, or None: nothing is known."""
    operation = ItemOperation(SEE, item, called=time.monotonic(), client=worker.name, node=node)
    reply = ask(worker, node, "K2V read", "GET", item, [("Accept", "application/json")])
    if reply is None or reply.status not in (200, 404):
        return None
    values = json.loads(reply.body) if reply.status == 200 else []
    # A deletion is no value.
    operation.found = [base64.b64decode(value).decode() for value in values if value is not None]
    operation.answered, operation.outcome = time.monotonic(), OK
    worker.load.history.add_item(operation)
    return operation.found, reply.headers.get(TOKEN.lower())


def ask(worker, node: int, kind: str, method: str, item: str, headers=(), body: bytes = b""):
    """Sends a request about an item to the node's K2V address."""
    partition, _, sort = item.partition(":")
    path, query = object_path(worker.load.bucket, partition), [("sort_key", sort)]
    return worker.request(kind, node, method, path, query, headers, body, k2v=True)


def wrong_items(operations: list[ItemOperation]) -> list[str]:
    """Returns breaches of a rule: an acknowledged value is there until something that saw it replaces it, and not later."""
    by_item: dict[str, list[ItemOperation]] = {}
    for operation in operations:
        by_item.setdefault(operation.item, []).append(operation)
    return [problem for item in sorted(by_item) for problem in of_item(item, by_item[item])]


def of_item(item: str, operations: list[ItemOperation]) -> list[str]:
    reads = sorted((one for one in operations if one.kind == SEE), key=lambda one: one.called)
    writes = [one for one in operations if one.kind != SEE]
    inserted = {one.value: one for one in writes if one.kind == INSERT}
    wrong = []
    for read in reads:
        for value in read.found:
            if value not in inserted or inserted[value].called > read.answered:
                wrong.append(f"item {item}: {told(read)} has {value!r}, which nobody inserted before")
    for value, insertion in inserted.items():
        covers = [one for one in writes if value in one.replaced]
        wrong += of_value(item, value, insertion, covers, reads)
    return wrong


def of_value(item: str, value: str, insertion: ItemOperation, covers: list[ItemOperation], reads: list[ItemOperation]) -> list[str]:
    """The rules of one value. `there`: since when it is surely in; `gone`: since when surely replaced."""
    wrong = []
    there = insertion.answered if insertion.outcome == OK else float("inf")
    gone = min((one.answered for one in covers if one.outcome == OK), default=float("inf"))
    first_cover = min((one.called for one in covers), default=float("inf"))
    for read in reads:
        seen = value in read.found
        if seen and gone < read.called:
            wrong.append(f"item {item}: {told(read)} has {value!r}, which was replaced at {gone:.4f}")
        if not seen and there < read.called and first_cover > read.answered:
            wrong.append(f"item {item}: {told(read)} lacks {value!r}, which was there at {there:.4f}")
        if seen:
            there = min(there, read.answered)
        elif there < read.called:
            # Something of unknown outcome replaced it: it does not come back.
            gone = min(gone, read.answered)
    return wrong


def told(read: ItemOperation) -> str:
    return f"the read by {read.client}, node {read.node}, {read.called:.4f} – {read.answered:.4f}"


