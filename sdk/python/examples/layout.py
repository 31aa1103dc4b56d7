"""Gives all nodes that hold no data yet a place in the layout, and waits until the data has moved.

    python layout.py http://127.0.0.1:3903 TOKEN 500000000000
"""

import sys

from archipel_admin import Archipel
from archipel_admin.models import Assign


def main(url: str, token: str, capacity_bytes: str) -> None:
    with Archipel(url, token) as admin:
        idle = [node for node in admin.nodes() if not node.in_layout and node.zone]
        if not idle:
            print("all nodes with a zone are in the layout")
            return
        staged = admin.stage([Assign(node=node.id, capacity_bytes=int(capacity_bytes)) for node in idle]).staged
        if not staged:
            print("the layout already has these values")
            return
        print(*staged.plan, sep="\n")
        admin.apply(wait_s=3600)
        print("done")


if __name__ == "__main__":
    main(*sys.argv[1:4])
