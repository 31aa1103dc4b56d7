"""Pictures of the whole store: all that clients can see, and what stands behind it.

A refused request must change nothing. Its answer alone does not show that: a part may have been replaced, or a
question asked whose answer destroys an object minutes later. So tests of refusals compare two pictures.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import socket
import time
from urllib.parse import unquote

from .client import Client
from .server import Endpoint
from .sigv4 import Credentials, object_path

GC_S = 60
EVERY_S = 0.1
# They differ from answer to answer.
PASSING = {"date", "x-amz-request-id", "x-amz-id-2", "connection"}


class Admin:
    """The admin API of one node, through its socket."""

    def __init__(self, path: str):
        self.path = path

    def call(self, method: str, target: str, body: dict | None = None):
        return json.loads(self.text(target, method, body))

    def text(self, target: str, method: str = "GET", body: dict | None = None) -> str:
        """The answer as it is."""
        connection = http.client.HTTPConnection("localhost", timeout=30)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.sock.settimeout(30)
            connection.sock.connect(self.path)
            text = None if body is None else json.dumps(body)
            connection.request(method, target, text, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            answer = reply.read().decode()
            assert reply.status < 300, f"{method} {target}: {reply.status} {answer}"
            return answer
        finally:
            connection.close()

    def gc_tasks(self) -> int:
        return self.call("GET", "/v1/status")["upkeep"]["gc"]["tasks"]

    def verified(self) -> list[dict]:
        """What a verification that begins now finds on each node."""
        self.call("POST", "/v1/verify", {})
        end = time.monotonic() + GC_S
        while True:
            found = self.call("GET", "/v1/verify")
            if found["ended_ms"]:
                return found["nodes"]
            assert time.monotonic() < end, f"the verification does not end: {found}"
            time.sleep(EVERY_S / 5)


class Observer:
    """Takes pictures of a server: with `nodes` that can be asked also of what clients do not see."""

    def __init__(self, server: Endpoint, credentials: Credentials):
        self.client = Client(server.endpoint, credentials, keep_alive=True)
        sockets = [node["admin"] for node in server.nodes if node.get("admin", "").startswith("/")]
        self.admins = [Admin(path) for path in sockets]

    @contextlib.contextmanager
    def nothing_changes(self):
        """What is requested inside must be refused, and leave the store as it is, also after garbage collection."""
        self.collect_garbage()
        before, held = self.visible(), self.held()
        yield
        same(before, self.visible(), "at once")
        if self.collect_garbage():
            same(before, self.visible(), "after garbage collection")
        self.nothing_was_added(held)

    def collect_garbage(self) -> bool:
        """Waits until no node has garbage; tells whether there was some."""
        waited, end = False, time.monotonic() + GC_S
        while any(admin.gc_tasks() for admin in self.admins):
            assert time.monotonic() < end, "garbage is not collected"
            waited = True
            time.sleep(EVERY_S)
        return waited

    def nothing_was_added(self, held: dict[str, int]) -> None:
        """No node holds more than `held`. It may hold less: what an earlier request left goes bit by bit."""
        end = time.monotonic() + GC_S
        while more := {name: (held[name], now) for name, now in self.held().items() if now > held[name]}:
            assert time.monotonic() < end, f"more is stored than before (before, now): {more}"
            time.sleep(EVERY_S)

    def held(self) -> dict[str, int]:
        """How many rows and blocks each node has, and how many things are wrong."""
        if not self.admins:
            return {}
        nodes = self.admins[0].verified()
        return {f"{what} of {node['short']}": node[what] for node in nodes for what in ("rows", "blocks", "problems")}

    def blocks(self) -> int:
        """How many blocks all nodes have."""
        return sum(n for what, n in self.held().items() if what.startswith("blocks"))

    def visible(self) -> dict[str, object]:
        """All that clients and operators can see, by name."""
        self.client.close()  # the server closes connections that rest
        seen: dict[str, object] = {}
        names = [b.findtext("Name") for b in self.ask("GET", "/").xml().iter("Bucket")]
        for name in names:
            seen[f"bucket {name}"] = "there"
            seen |= self.settings(name) | self.objects(name) | self.uploads(name)
        if self.admins:
            admin = self.admins[0]
            for key in admin.call("GET", "/v1/keys")["items"]:
                seen[f"key {key['id']}"] = key
            for bucket in admin.call("GET", "/v1/buckets")["items"]:
                info = admin.call("GET", f"/v1/buckets/{bucket['name']}")
                seen[f"usage and grants of {bucket['name']}"] = info
        return seen

    def settings(self, bucket: str) -> dict[str, object]:
        seen = {}
        for part in ("acl", "cors", "ownershipControls", "policy", "publicAccessBlock"):
            reply = self.client.request("GET", object_path(bucket), [(part, "")])
            seen[f"{part} of {bucket}"] = (reply.status, reply.code or reply.body)
        return seen

    def objects(self, bucket: str) -> dict[str, object]:
        """Each object's headers, and the hash of its content as it is read now."""
        seen: dict[str, object] = {}
        query = [("list-type", "2"), ("encoding-type", "url")]
        for page in self.pages(bucket, query, "NextContinuationToken", "continuation-token"):
            for entry in page.iter("Contents"):
                key = unquote(entry.findtext("Key").replace("+", "%20"))
                listed = {child.tag: child.text for child in entry}
                seen[f"object {bucket}/{key}"] = (listed, *self.content(bucket, key))
        return seen

    def content(self, bucket: str, key: str) -> tuple:
        try:
            reply = self.client.get(bucket, key)
        except http.client.IncompleteRead:
            return ("breaks off",)
        headers = {n: v for n, v in reply.headers.items() if n not in PASSING}
        return reply.status, headers, hashlib.sha256(reply.body).hexdigest()

    def uploads(self, bucket: str) -> dict[str, object]:
        """Each upload in progress, with its parts."""
        seen: dict[str, object] = {}
        root = self.ask("GET", object_path(bucket), [("uploads", ""), ("encoding-type", "url")]).xml()
        assert root.findtext("IsTruncated") == "false", f"{bucket} has too many uploads for a picture"
        for entry in root.iter("Upload"):
            key, upload = unquote(entry.findtext("Key").replace("+", "%20")), entry.findtext("UploadId")
            parts = self.ask("GET", object_path(bucket, key), [("uploadId", upload)])
            seen[f"upload {upload} of {bucket}/{key}"] = parts.body
        return seen

    def pages(self, bucket: str, query, token: str, parameter: str):
        more = []
        while True:
            root = self.ask("GET", object_path(bucket), [*query, *more]).xml()
            yield root
            if root.findtext("IsTruncated") != "true":
                return
            more = [(parameter, root.findtext(token))]

    def ask(self, method: str, path: str, query=()):
        reply = self.client.request(method, path, query)
        assert reply.status == 200, f"{method} {path} {query}: {reply.brief()}"
        return reply


def same(before: dict[str, object], after: dict[str, object], when: str) -> None:
    """Says which things differ, not all that are there."""
    differ = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    told = [f"{name}: {before.get(name, 'absent')} -> {after.get(name, 'absent')}" for name in sorted(differ)]
    assert not told, f"a refused request changed the store {when}:\n" + "\n".join(told)
