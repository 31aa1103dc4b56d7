"""A bucket that keeps versions: its keys are registers like others, and every version that was acknowledged stays."""

from __future__ import annotations

from faults.history import WRITE

KEYS = 3
BUCKET = "faults-versions"
# The mark before its keys in a history: that bucket's mark, as of one that comes and goes, and its name.
MARK = f"B/{BUCKET}/"


def step(worker, node: int, prefix: str) -> None:
    """One operation of a worker on a key with versions."""
    key, draw = f"{MARK}{prefix}{worker.rng.randrange(KEYS)}", worker.rng.random()
    if draw < 0.35:
        worker.put(node, key, WRITE)
    elif draw < 0.45:
        worker.delete(node, key)
    elif draw < 0.50:
        worker.list(node, f"{MARK}{prefix}")
    elif draw < 0.75:
        worker.read(node, key)
    elif known := worker.load.versions.get(key):
        look(worker, node, key, *worker.rng.choice(known))


def look(worker, node: int, key: str, version: str, tag: str) -> bool:
    """Reads a version that was acknowledged; False if no answer came."""
    reply = worker.ask("GET version", node, "GET", key, query=[("versionId", version)])
    if reply is None:
        return False
    found = reply.headers.get("etag")
    if reply.status != 200 or found != tag:
        worker.load.history.add_damage(f"{key}: version {version} was acknowledged as {tag}; node {node} says {reply.status} {found}")
    return True


def look_at_all(worker, node: int) -> None:
    """Every version that was acknowledged, at the end."""
    for key, known in sorted(worker.load.versions.items()):
        for version, tag in known:
            if not any(look(worker, node, key, version, tag) for _ in range(3)):
                worker.load.surprise(f"{key}: version {version} cannot be read at the end through node {node}")
