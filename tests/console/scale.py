"""The time that each page of the console takes with much in the store, and the memory of an idle node.

`cargo xtask console-scale` runs it: python scale.py [--buckets 1000] [--keys 20000] [--nodes 100] [--rounds 9].
It measures from the request to the last byte of the page, on the same machine. It asserts nothing about time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]
from faults.cluster import AdminConnection, NotServing  # noqa: E402
from support.browser import Browser  # noqa: E402
from support.client import Client  # noqa: E402
from support.server import Demo, Server, free_port, memory_kib  # noqa: E402
from support.sigv4 import Credentials  # noqa: E402

LIMIT_MS = 300
BIG = "demo"


class Admin:
    """The admin API at a node's socket."""

    def __init__(self, socket: str):
        self.socket = socket

    def ask(self, method: str, path: str, body: dict | None = None):
        connection = AdminConnection(Path(self.socket))
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            answer = reply.read()
        finally:
            connection.close()
        if reply.status >= 300:
            raise NotServing(f"{method} {path}: {reply.status} {answer.decode(errors='replace')}")
        return json.loads(answer) if answer else None


def idle_memory(folder: Path) -> None:
    """Prints what a node takes that has just started and is asked nothing."""
    port = free_port()
    text = f'data_dir = "{folder}/data"\n[s3]\nlisten = "127.0.0.1:0"\n[console]\nlisten = "127.0.0.1:{port}"\n'
    (folder / "archipel.toml").write_text(text)
    server = Server(folder)
    server.start()
    time.sleep(20)  # until what starts has started; nothing depends on it but the figure
    pid = server.process.pid
    all_kib, own_kib = memory_kib(pid), memory_kib(pid, "RssAnon")
    print(f"idle node: {all_kib / 1024:.1f} MiB resident, of them {own_kib / 1024:.1f} MiB its own (limit: 30 MB)")
    server.stop()


def fill(demo: Demo, admin: Admin, options) -> None:
    """Makes buckets, access keys, users, and objects in one bucket."""
    for number in range(options.buckets):
        admin.ask("POST", "/v1/buckets", {"name": f"bucket-{number:05}", "owner": demo.info.access_key})
    for number in range(options.people):
        admin.ask("POST", "/v1/keys", {"name": f"key {number}"})
        admin.ask("POST", "/v1/users", {"name": f"user-{number:05}"})
    credentials = Credentials(demo.info.access_key, demo.info.secret_key)
    failed = []

    def write(first: int) -> None:
        client = Client(demo.info.endpoint, credentials, keep_alive=True)
        for number in range(first, options.keys, options.writers):
            # One folder with many objects, and many folders.
            key = f"{number:07}.txt" if number % 2 else f"folder-{number % 5000:04}/{number:07}.txt"
            if client.put(BIG, key, b"x").status != 200:
                failed.append(key)

    began = time.monotonic()
    writers = [threading.Thread(target=write, args=(first,)) for first in range(options.writers)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not failed, failed[:3]
    took = max(time.monotonic() - began, 0.001)
    print(f"{options.keys} objects in {BIG}, written at {options.keys / took:.0f} a second")


def many_nodes(folder: Path, options) -> None:
    """Measures the pages about nodes with so many of them, all in the layout, and with a change staged."""
    demo = Demo(folder, nodes=options.nodes)
    demo.start(ready_s=60 + 10 * options.nodes)
    try:
        print(f"{options.nodes} nodes, each a process")
        time.sleep(options.settle)  # until what forming the cluster began has ended
        browser = Browser(demo.printed["console"])
        assert browser.follow(demo.printed["console_login"]).status == 303
        about = {"cluster": "/cluster", "cluster, live": "/cluster/live", "layout": "/layout"}
        measure(browser, about, options.rounds)
        admin = Admin(demo.info.nodes[0]["admin"])
        leaves = admin.ask("GET", "/v1/layout")["nodes"][-1]["id"]
        admin.ask("POST", "/v1/layout/stage", {"remove": [leaves]})
        measure(browser, {"layout, a node leaves": "/layout"}, options.rounds)
    finally:
        demo.stop(wait_s=120)


def pages(options) -> dict[str, str]:
    half = options.keys // 2
    last = half + (half + 1) % 2
    return {
        "cluster": "/cluster",
        "cluster, live": "/cluster/live",
        "buckets": "/buckets",
        "buckets, from the middle": f"/buckets?after=bucket-{options.buckets // 2:05}",
        "objects": f"/buckets/{BIG}",
        "objects, from the middle": f"/buckets/{BIG}?after={last:07}.txt",
        "objects, in a folder": f"/buckets/{BIG}?prefix=folder-0000/",
        "object": f"/buckets/{BIG}/object?o={last:07}.txt",
        "versions": f"/buckets/{BIG}/versions",
        "history": f"/buckets/{BIG}/history?o={last:07}.txt",
        "rules": f"/buckets/{BIG}/rules",
        "settings": f"/buckets/{BIG}/settings",
        "keys": "/keys",
        "users": "/users",
        "user": "/users/user-00000",
        "groups": "/groups",
        "roles": "/roles",
        "policies": "/policies",
        "why": f"/access?key=anonymous&action=s3:GetObject&resource={BIG}/x",
        "tokens": "/tokens",
        "layout": "/layout",
        "activity": "/activity",
        "charts": "/activity/data",
        "audit": "/audit",
    }


def measure(browser: Browser, all_pages: dict[str, str], rounds: int) -> None:
    """Prints the median and the longest time of each page."""
    print(f"{'page':30} {'median':>9} {'longest':>9}   (milliseconds; limit {LIMIT_MS})")
    for name, path in all_pages.items():
        times = []
        for _ in range(rounds):
            began = time.monotonic()
            page = browser.ask("GET", path)
            times.append((time.monotonic() - began) * 1000)
            assert page.status == 200, f"{path}: {page.status} {page.text[-400:]}"
        middle = statistics.median(times)
        above = "  ABOVE THE LIMIT" if middle > LIMIT_MS else ""
        print(f"{name:30} {middle:9.1f} {max(times):9.1f}{above}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--buckets", type=int, default=1000)
    parser.add_argument("--keys", type=int, default=20_000, help="objects in one bucket")
    parser.add_argument("--writers", type=int, default=16, help="connections that store them")
    parser.add_argument("--people", type=int, default=500, help="access keys, and users")
    parser.add_argument("--nodes", type=int, default=100, help="nodes of another store, each a process; 0 for none")
    parser.add_argument("--settle", type=int, default=120, help="seconds until the nodes are measured")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        idle = Path(folder) / "idle"
        idle.mkdir()
        idle_memory(idle)
        demo = Demo(Path(folder) / "demo")
        demo.start()
        try:
            admin = Admin(demo.info.nodes[0]["admin"])
            fill(demo, admin, options)
            browser = Browser(demo.printed["console"])
            assert browser.follow(demo.printed["console_login"]).status == 303
            measure(browser, pages(options), options.rounds)
            all_kib, own_kib = demo.memory_kib(), demo.memory_kib("RssAnon")
            print(f"node after that: {all_kib / 1024:.1f} MiB resident, of them {own_kib / 1024:.1f} MiB its own")
        finally:
            demo.stop()
        if options.nodes:
            many_nodes(Path(folder) / "many", options)


if __name__ == "__main__":
    main()
