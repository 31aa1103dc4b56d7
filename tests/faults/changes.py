"""The cost of a cluster's own work: growing and shrinking under load, and catching up after a time away.

Not pass or fail alone: figures. Bytes are those that nodes received from one another, as their metrics count them.
"""

from __future__ import annotations

import threading
import time

from faults.cluster import BUCKET, Node, NotServing
from faults.operate import Operator
from support.client import Client
from support.data import KIB, content
from support.sigv4 import object_path

QUIET_S = 20
OBJECTS, SIZE = 2000, 50 * KIB
FILLERS = 8
CHANGED = 1000
SAME = 90  # seconds: a store looks that often for what it need not hold any more
LARGE = 64_000_000
SPACE_S = 120
AWAY_S = 30  # after the last change: nothing is on its way any more


def grow(run) -> None:
    """Three nodes become five, and three again: under load, then without it, which tells the bytes."""
    run.form(calm=True)
    operator = Operator(run.cluster, run.note)
    added = run.cluster.nodes[run.cluster.members :]
    stages = [
        ("growing", {"assign": [operator.assigned(node) for node in added]}),
        ("shrinking", {"remove": [node.id for node in added]}),
    ]
    fill(run, OBJECTS, SIZE)
    # The others are shut out when the layout drops them.
    run.start_workers(run.args.clients, [node.number for node in run.cluster.nodes[: run.cluster.members]])
    periods = [("before", *quiet())]
    for name, stage in stages:
        began = time.monotonic()
        operator.change(stage)
        operator.wait_moved(run.args.seconds)
        periods.append((name, began, time.monotonic()))
        run.note(f"{name} took {time.monotonic() - began:.1f} s under load")
        periods.append((f"after {name}", *quiet()))
    run.stop_workers()
    for name, began, ended in periods:
        tell_latencies(run, name, began, ended)
    run.wrong += [f"failed: {failure}" for failure in run.load.failures]
    print(f"{len(run.load.failures)} failed requests of {len(run.load.latencies)}")
    for name, stage in stages:
        tell_bytes(run, operator, name, stage)
    print(f"verify --deep is clean after {operator.wait_whole():.1f} s")
    run.read_everything()


def quiet() -> tuple[float, float]:
    """A time in which nothing is changed."""
    began = time.monotonic()
    time.sleep(QUIET_S)
    return began, time.monotonic()


def fill(run, objects: int, size: int, prefix: str = "fill", first: int = 0) -> float:
    """Stores objects through all nodes; in how many seconds."""
    began, failures = time.monotonic(), []

    def some(worker: int) -> None:
        node = run.cluster.nodes[worker % run.cluster.members]
        client = Client(node.endpoint, run.cluster.credentials, keep_alive=True, timeout=60)
        for number in range(first + worker, first + objects, FILLERS):
            reply = client.put(BUCKET, f"{prefix}/{number:07}", content(size, f"{prefix} {number}"))
            if reply.status != 200:
                failures.append(reply.brief())
        client.close()

    together(some)
    if failures:
        raise NotServing(f"{len(failures)} objects were not stored: {failures[0]}")
    return time.monotonic() - began


def together(work) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(FILLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def tell_latencies(run, name: str, began: float, ended: float) -> None:
    """Of the answers to requests of a time."""
    rows = [row for row in run.load.latencies if began <= row[0] < ended]
    for kind in ("GET", "HEAD", "PUT write", "PUT swap", "UploadPart", "LIST"):
        times = sorted(took * 1000 for _, took, what, _ in rows if what == f"{kind} 200")
        if times:
            median, high = times[len(times) // 2], times[int(len(times) * 0.99)]
            print(f"{name:16} {kind:10} {len(times):6}  p50 {median:7.1f} ms  p99 {high:7.1f} ms  most {times[-1]:7.1f} ms")


def tell_bytes(run, operator: Operator, name: str, stage: dict) -> None:
    """Prints the bytes that a change moves while nobody asks for anything, and the few that would have been enough: each
    partition that a node did not hold before, once."""
    stored = settled_bytes(operator)
    print(f"{stored / 1e6:.1f} MB are stored on all nodes")
    before = held(operator)
    started, bytes_before = time.monotonic(), received(run)
    operator.change(stage)
    operator.wait_moved(run.args.seconds)
    took, moved = time.monotonic() - started, received(run) - bytes_before
    after = held(operator)
    arrived = sum(max(0, count - before.get(node, 0)) for node, count in after.items())
    least = stored * arrived / sum(before.values())
    print(
        f"{name} without load: {took:.1f} s, {moved / 1e6:.1f} MB received by all nodes; {arrived} places are new: "
        f"{least / 1e6:.1f} MB of content at least, {100 * moved / least - 100:+.1f} %"
    )


def held(operator: Operator) -> dict[str, int]:
    """Returns the number of partitions that each node holds."""
    return {node["id"]: node["partitions"] for node in operator.ask("GET", "/v1/layout")["nodes"]}


def stored_bytes(operator: Operator) -> int:
    """Bytes of blocks on all nodes."""
    return sum(node["scrub"]["stored_bytes"] for node in operator.ask("GET", "/v1/repair")["nodes"])


def settled_bytes(operator: Operator, timeout_s: float = 300) -> int:
    """The same once it stays as it is: what a node need not hold any more goes a while after a change."""
    seen, end = [stored_bytes(operator)], time.monotonic() + timeout_s
    while time.monotonic() < end and (len(seen) < SAME or len(set(seen[-SAME:])) > 1):
        time.sleep(1)
        seen.append(stored_bytes(operator))
    return seen[-1]


def received(run) -> float:
    """Bytes that all nodes have received from one another."""
    return sum(node.metric("archipel_peer_received_bytes") for node in run.cluster.nodes)


def come_back(run) -> None:
    """A node is away while some objects of many change: what its return costs."""
    run.form(calm=True)
    operator, away = Operator(run.cluster, run.note), run.cluster.nodes[-1]
    took = fill(run, run.args.objects, 100)
    print(f"{run.args.objects} objects of 100 bytes stored in {took:.0f} s")
    operator.wait_whole()
    run.cluster.kill(away)
    change_some(run)
    time.sleep(AWAY_S)
    run.cluster.start(away)
    began = time.monotonic()
    run.cluster.wait_admin(away)
    seconds = wait_repaired(away, began)
    names = {
        "calls": "archipel_anti_entropy_calls_total",
        "bytes of calls": "archipel_anti_entropy_call_bytes_total",
        "bytes of blocks": "archipel_anti_entropy_fetched_bytes_total",
        "rows": "archipel_anti_entropy_applied_rows_total",
    }
    told = ", ".join(f"{away.metric(metric):.0f} {name}" for name, metric in names.items())
    print(f"back after {seconds:.1f} s since its start: {told}")
    print(f"verify --deep is clean after {operator.wait_whole():.1f} s")


def change_some(run) -> None:
    """Of the objects some are replaced, some removed; some are new."""
    run.cluster.members -= 1
    client = Client(run.cluster.nodes[0].endpoint, run.cluster.credentials, keep_alive=True, timeout=60)
    step = max(1, run.args.objects // CHANGED)
    for number in range(CHANGED * 8 // 10):
        client.put(BUCKET, f"fill/{number * step:07}", content(100, f"changed {number}"))
    for number in range(CHANGED // 10):
        client.request("DELETE", object_path(BUCKET, f"fill/{(number + CHANGED * 8 // 10) * step:07}"))
    client.close()
    fill(run, CHANGED // 10, 100, "new")
    run.cluster.members += 1


def wait_repaired(node: Node, began: float, timeout_s: float = 300) -> float:
    """Until a whole pass with each other node has ended that found no more to fetch; when, since `began`."""
    rows, last = -1.0, began
    while time.monotonic() - began < timeout_s:
        now = node.metric("archipel_anti_entropy_applied_rows_total")
        if now != rows:
            rows, last = now, time.monotonic()
        passed = node.metric("archipel_anti_entropy_whole_timestamp_seconds") > 0
        if passed and node.metric("archipel_anti_entropy_rows") == 0 and time.monotonic() - last > 3:
            return last - began
        time.sleep(0.1)
    raise NotServing(f"{node.name} was not brought up to date within {timeout_s:.0f} s")


def space(run) -> None:
    """Large objects are written and deleted: what stays on disk, as `du` tells."""
    run.form(calm=True)
    nodes, count = run.cluster.nodes, max(1, round(run.args.gigabytes * 1000 / 64))
    empty = used(nodes)
    client = Client(nodes[0].endpoint, run.cluster.credentials, keep_alive=True, timeout=120)
    began, filler = time.monotonic(), content(LARGE, "space")
    for number in range(count):
        reply = client.put(BUCKET, f"space/{number:05}", number.to_bytes(8, "big") + filler[8:])
        if reply.status != 200:
            raise NotServing(reply.brief())
        # Each block of it differs from those of the others.
        filler = filler[4099:] + filler[:4099]
    print(f"{count} objects of 64 MB stored in {time.monotonic() - began:.0f} s; on disk: {told(used(nodes), empty)}")
    began = time.monotonic()
    for number in range(count):
        client.request("DELETE", object_path(BUCKET, f"space/{number:05}"))
    deleted = time.monotonic()
    while sum(used(nodes)) > sum(empty) + len(nodes) * LARGE and time.monotonic() < deleted + SPACE_S:
        time.sleep(1)
    left = used(nodes)
    print(f"deleted in {deleted - began:.1f} s; {time.monotonic() - deleted:.1f} s later on disk: {told(left, empty)}")
    if sum(left) > sum(empty) + len(nodes) * LARGE:
        run.wrong.append(f"the space did not come back within {SPACE_S} s")


def used(nodes: list[Node]) -> list[int]:
    """Bytes that each node's data takes on disk."""
    return [sum(file.stat().st_blocks * 512 for file in node.data.rglob("*") if file.is_file()) for node in nodes]


def told(now: list[int], before: list[int]) -> str:
    return ", ".join(f"{(a - b) / 1e6:+.0f} MB" for a, b in zip(now, before))
