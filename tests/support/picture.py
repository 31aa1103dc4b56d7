"""Pictures of the whole store: all that clients can see, and what stands behind it.

A refused request must change nothing. Its answer alone does not show that: a part may have been replaced, or a
GC task queued that destroys an object minutes later. So tests of refusals compare two pictures.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import time
from urllib.parse import quote, unquote

from .client import Client
from .server import Endpoint
from .sigv4 import Credentials, object_path
from .unchanged import EVERY_S, GC_S, Admin, collect_garbage, held, watched

# They differ from answer to answer.
PASSING = {"date", "x-amz-request-id", "x-amz-id-2", "connection"}
SETTINGS = (
    "acl", "cors", "encryption", "lifecycle", "notification", "object-lock", "ownershipControls", "policy",
    "publicAccessBlock", "tagging", "versioning", "website",
)  # fmt: skip
# The things that operators see, by what names one of them.
OPERATED = {"keys": "id", "users": "name", "groups": "name", "roles": "name", "policies": "name", "tokens": "id"}
# The beginnings of the names of what nodes keep in memory.
KEPT = ("bucket ", "usage, ", "inline ", *(f"{kind}: " for kind in OPERATED))


class Observer:
    """Takes pictures of a server: with `nodes` that can be asked also of what clients do not see."""

    def __init__(self, server: Endpoint, credentials: Credentials):
        self.client = Client(server.endpoint, credentials, keep_alive=True)
        self.k2v = Client(server.k2v, credentials, keep_alive=True) if server.k2v else None
        self.admins = [Admin(path) for path in server.sockets()]
        # The last picture, and what the nodes held then.
        self.last: tuple[dict, dict] | None = None

    @contextlib.contextmanager
    def nothing_changes(self):
        """Requests inside must be refused, and leave the store as it is, also after garbage collection."""
        self.collect_garbage()
        before = self.picture()
        holding = self.held()
        with watched.not_here():
            yield
        if holding and self.held() == holding:
            # All that stands in rows and blocks is as it was. The things that nodes keep in memory are looked at.
            same({name: thing for name, thing in before.items() if name.startswith(KEPT)}, self.kept_in_memory(), "in memory")
            return
        same(before, self.visible(), "at once")
        if self.collect_garbage():
            same(before, self.visible(), "after garbage collection")
        self.nothing_was_added(holding)

    def picture(self) -> dict[str, object]:
        """All that is visible now. Where no row differs from those of the last picture, that one is still right."""
        holding = self.held()
        if self.last is None or not holding or self.last[0] != holding:
            self.last = (holding, self.visible())
        return self.last[1]

    def collect_garbage(self) -> bool:
        """Waits until no node has garbage; tells whether there was some."""
        return collect_garbage(self.admins)

    def nothing_was_added(self, before: dict[str, tuple]) -> None:
        """No node holds more than `before`. It may hold less: what an earlier request left goes bit by bit."""
        end = time.monotonic() + GC_S
        while more := [(was, now) for was, now in pairs(before, self.held()) if any(n > w for w, n in zip(was[1:], now[1:]))]:
            assert time.monotonic() < end, f"more is stored than before (before, now): {more}"
            time.sleep(EVERY_S)

    def held(self) -> dict[str, tuple]:
        """The digest of all rows of each node, how many rows and blocks it has, and how many things are wrong."""
        return held(self.admins)

    def blocks(self) -> int:
        """Returns the number of blocks that all nodes have."""
        return sum(blocks for _, _, blocks, _ in self.held().values())

    def problems(self) -> int:
        """Returns the number of things that are wrong on all nodes."""
        return sum(problems for *_, problems in self.held().values())

    def visible(self) -> dict[str, object]:
        """All that clients and operators can see, by name."""
        self.client.close()  # the server closes connections that rest
        if self.k2v:
            self.k2v.close()
        seen: dict[str, object] = {}
        for name in self.buckets():
            seen |= self.settings(name) | self.objects(name) | self.uploads(name) | self.items(name)
        return seen | self.kept_in_memory()

    def buckets(self) -> list[str]:
        return [b.findtext("Name") for b in self.ask("GET", "/").xml().iter("Bucket")]

    def kept_in_memory(self) -> dict[str, object]:
        """Buckets, keys and identities, of which each node keeps copies."""
        seen: dict[str, object] = {f"bucket {name}": "there" for name in self.buckets()}
        for admin in self.admins[:1]:
            seen |= operated(admin)
        return seen

    def settings(self, bucket: str) -> dict[str, object]:
        seen = {}
        for part in SETTINGS:
            reply = self.client.request("GET", object_path(bucket), [(part, "")])
            seen[f"{part} of {bucket}"] = (reply.status, reply.code or reply.body)
        return seen

    def objects(self, bucket: str) -> dict[str, object]:
        """Each version's headers (with retention and legal hold), tags, and the hash of its content as it is read now."""
        seen: dict[str, object] = {}
        listing = [("list-type", "2"), ("encoding-type", "url")]
        for page in self.pages(bucket, listing, [("NextContinuationToken", "continuation-token")]):
            for entry in page.iter("Contents"):
                seen[f"object {bucket}/{decoded(entry)}"] = {child.tag: child.text for child in entry}
        markers = [("NextKeyMarker", "key-marker"), ("NextVersionIdMarker", "version-id-marker")]
        for page in self.pages(bucket, [("versions", ""), ("encoding-type", "url")], markers):
            for entry in [*page.iter("Version"), *page.iter("DeleteMarker")]:
                key, version = decoded(entry), entry.findtext("VersionId")
                listed = {child.tag: child.text for child in entry}
                more = () if entry.tag == "DeleteMarker" else self.content(bucket, key, version)
                seen[f"{entry.tag} {version} of {bucket}/{key}"] = (listed, *more)
        return seen

    def content(self, bucket: str, key: str, version: str) -> tuple:
        of = [("versionId", version)]
        try:
            reply = self.client.request("GET", object_path(bucket, key), of)
        except http.client.IncompleteRead:
            return ("breaks off",)
        headers = {n: v for n, v in reply.headers.items() if n not in PASSING}
        tags = None
        if "x-amz-tagging-count" in headers:
            tags = self.ask("GET", object_path(bucket, key), [("tagging", ""), *of]).body
        return reply.status, headers, hashlib.sha256(reply.body).hexdigest(), tags

    def uploads(self, bucket: str) -> dict[str, object]:
        """Each upload in progress, with its parts."""
        seen: dict[str, object] = {}
        root = self.ask("GET", object_path(bucket), [("uploads", ""), ("encoding-type", "url")]).xml()
        assert root.findtext("IsTruncated") == "false", f"{bucket} has too many uploads for a picture"
        for entry in root.iter("Upload"):
            key, upload = decoded(entry), entry.findtext("UploadId")
            parts = self.ask("GET", object_path(bucket, key), [("uploadId", upload)])
            seen[f"upload {upload} of {bucket}/{key}"] = parts.body
        return seen

    def items(self, bucket: str) -> dict[str, object]:
        """Each K2V item with its values and its token."""
        if self.k2v is None:
            return {}
        seen: dict[str, object] = {}
        index = self.asked_of_k2v("GET", bucket)
        assert not index["more"], f"{bucket} has too many K2V partitions for a picture"
        for partition in [entry["pk"] for entry in index["partitionKeys"]]:
            start = None
            while True:
                search = {"partitionKey": partition, "tombstones": True, "start": start}
                [page] = self.asked_of_k2v("POST", bucket, [("search", "")], [search])
                seen |= {f"item {item['sk']!r} of {partition!r} of {bucket}": item for item in page["items"]}
                start = page["nextStart"]
                if not page["more"]:
                    break
        return seen

    def asked_of_k2v(self, method: str, bucket: str, query=(), body=None):
        text = b"" if body is None else json.dumps(body).encode()
        reply = self.k2v.request(method, object_path(bucket), query, body=text, service="k2v")
        assert reply.status == 200, f"{method} {bucket} {query}: {reply.brief()}"
        return json.loads(reply.body)

    def pages(self, bucket: str, query, tokens: list[tuple[str, str]]):
        """All pages of a listing; `tokens` are what a page tells of the next one, and its parameter."""
        more = []
        while True:
            root = self.ask("GET", object_path(bucket), [*query, *more]).xml()
            yield root
            if root.findtext("IsTruncated") != "true":
                return
            more = [(parameter, unquote(root.findtext(token) or "")) for token, parameter in tokens]

    def ask(self, method: str, path: str, query=()):
        reply = self.client.request(method, path, query)
        assert reply.status == 200, f"{method} {path} {query}: {reply.brief()}"
        return reply


def operated(admin: Admin) -> dict[str, object]:
    """Returns what the admin API shows: keys, identities, policies, tokens, buckets with grants, aliases, quota, usage."""
    seen: dict[str, object] = {}
    for kind, name in OPERATED.items():
        for one in every(admin, f"/v1/{kind}"):
            seen[f"{kind}: {one[name]}"] = one
            for policy in one.get("inline_policies", ()):
                path = f"/v1/inline-policies/{kind}/{quote(one[name], safe='')}/{quote(policy, safe='')}"
                seen[f"inline policy {policy} of {kind}: {one[name]}"] = admin.call("GET", path)
    for bucket in every(admin, "/v1/buckets"):
        seen[f"usage, grants, aliases and quota of {bucket['name']}"] = admin.call("GET", f"/v1/buckets/{bucket['name']}")
    return seen


def every(admin: Admin, path: str) -> list[dict]:
    """All things of a list, page by page."""
    found, after = [], ""
    while True:
        page = admin.call("GET", path + (f"?after={quote(after, safe='')}" if after else ""))
        found += page["items"]
        after = page.get("next")
        if not after:
            return found


def decoded(entry) -> str:
    """The key of an entry of a listing."""
    return unquote(entry.findtext("Key").replace("+", "%20"))


def pairs(before: dict[str, tuple], after: dict[str, tuple]):
    """Returns what each node held before, and what it holds after."""
    return [(before[name], now) for name, now in after.items()]


def same(before: dict[str, object], after: dict[str, object], when: str) -> None:
    """Says which things differ, not all that are there."""
    differ = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    told = [f"{name}: {before.get(name, 'absent')} -> {after.get(name, 'absent')}" for name in sorted(differ)]
    assert not told, f"a refused request changed the store {when}:\n" + "\n".join(told)
