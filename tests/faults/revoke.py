"""An access key is revoked while a node is cut off: the others refuse it at once, that node at the end of its lease."""

from __future__ import annotations

import http.client
import time

from faults.cluster import Cluster, Node
from support.client import Client
from support.server import wait_until
from support.sigv4 import Credentials

LEASE_S = 6
LATER_S = 5  # for so long after the lease the node must go on refusing
BACK_S = 60


def shorten_lease(cluster: Cluster) -> None:
    for node in cluster.nodes:
        file = node.folder / "archipel.toml"
        file.write_text(file.read_text().replace("[limits]\n", f"[limits]\ncontrol_lease_seconds = {LEASE_S}\n"))


def revoke(run) -> None:
    """Twice: a key that is disabled, and one that is deleted."""
    shorten_lease(run.cluster)
    run.form(calm=True)
    first, away = run.cluster.nodes[0], run.cluster.nodes[-1]
    run.start_workers(2, [node.number for node in run.cluster.nodes[:-1]])
    for how in ("disabled", "deleted"):
        made = first.admin("POST", "/v1/keys", {"name": how})
        key = Credentials(made["id"], made["secret"])
        for node in run.cluster.nodes:
            assert wait_until(lambda: status(node, key) == 200, BACK_S), f"{node.name} does not know the key"
        run.cluster.network.isolate(away.number)
        run.note(f"cut off {away.name}")
        if how == "disabled":
            first.admin("PATCH", f"/v1/keys/{key.access_key}", {"disabled": True})
        else:
            first.admin("DELETE", f"/v1/keys/{key.access_key}")
        revoked = time.monotonic()
        for node in run.cluster.nodes[:-1]:
            found = status(node, key)
            if found != 403:
                run.wrong.append(f"{node.name} answers {found} to a {how} key right after it was {how}")
        watch(run, away, key, how, revoked)
        run.cluster.network.join(away.number)
        run.note("the cut has ended")
        if not wait_until(lambda: status(away, key) == 403, BACK_S):
            run.wrong.append(f"{away.name} does not refuse the {how} key after it is back")
        run.cluster.wait_writes(away)
    run.stop_workers()
    run.read_everything()


def watch(run, away: Node, key: Credentials, how: str, revoked: float) -> None:
    """Asks the node that is cut off until well after its lease."""
    accepted, refused = 0.0, 0
    while (asked := time.monotonic()) < revoked + LEASE_S + LATER_S:
        found = status(away, key)
        if found == 200:
            accepted = max(accepted, asked - revoked)
        else:
            refused += 1
        time.sleep(0.1)
    print(f"the node that was cut off took the {how} key for {accepted:.1f} s more (lease: {LEASE_S} s), then refused it {refused} times")
    if accepted > LEASE_S:
        run.wrong.append(f"{away.name} takes a {how} key {accepted:.1f} s after it was {how}")
    if not refused:
        run.wrong.append(f"{away.name} was not asked after its lease")


def status(node: Node, key: Credentials) -> int:
    """Returns the status of a node's answer to ListBuckets; 0 if there is none."""
    try:
        return Client(node.endpoint, key, timeout=10).request("GET", "/").status
    except (OSError, http.client.HTTPException):
        return 0
