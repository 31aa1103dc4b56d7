"""K2V with Python's standard library: a client, a mailbox and a shared counter.

    archipel demo --json > demo.json &      # wait for the line
    python3 docs/examples/k2v.py demo.json
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import http.client
import json
import sys
from urllib.parse import quote, urlsplit

TOKEN = "X-Garage-Causality-Token"


class K2VError(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, code: str, message: str):
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code = status, code


class K2V:
    """A bucket's K2V items."""

    def __init__(self, endpoint: str, bucket: str, access_key: str, secret_key: str, region: str):
        self.endpoint, self.bucket, self.region = endpoint, bucket, region
        self.access_key, self.secret_key = access_key, secret_key

    def send(self, method, pk=None, query=(), headers=(), body=b"", timeout=700):
        """Signs and sends a request. Returns status, headers and body."""
        host = urlsplit(self.endpoint).netloc
        path = f"/{self.bucket}" + (f"/{quote(pk, safe='-_.~')}" if pk is not None else "")
        encoded = sorted((quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in query)
        text = "&".join(f"{k}={v}" for k, v in encoded)
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(body).hexdigest()
        signed = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": stamp}
        names = ";".join(signed)
        lines = "".join(f"{name}:{value}\n" for name, value in signed.items())
        # All services but S3 encode the path twice for the signature.
        canonical = "\n".join([method, quote(path, safe="-_.~/"), text, lines, names, digest])
        scope = f"{stamp[:8]}/{self.region}/k2v/aws4_request"
        hashed = hashlib.sha256(canonical.encode()).hexdigest()
        to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashed])
        key = ("AWS4" + self.secret_key).encode()
        for part in (stamp[:8], self.region, "k2v", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.new(key, to_sign.encode(), "sha256").hexdigest()
        credential = f"Credential={self.access_key}/{scope}"
        signed["Authorization"] = (
            f"AWS4-HMAC-SHA256 {credential},SignedHeaders={names},Signature={signature}"
        )
        connection = http.client.HTTPConnection(host, timeout=timeout)
        try:
            url = path + (f"?{text}" if text else "")
            connection.request(method, url, body, {**signed, **dict(headers)})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def call(self, *args, **kwargs):
        """Sends a request, and raises `K2VError` for an answer that is an error."""
        status, headers, body = self.send(*args, **kwargs)
        if status >= 400:
            try:
                error = json.loads(body)
            except ValueError:
                error = {}
            raise K2VError(status, error.get("code", ""), error.get("message", ""))
        return status, headers, body

    def read(self, pk: str, sk: str):
        """Returns the item's values (`None` for a deletion) and its token; ([], None) if absent."""
        try:
            answer = self.call("GET", pk, [("sort_key", sk)], [("Accept", "application/json")])
        except K2VError as error:
            if error.code == "NoSuchKey":
                return [], None
            raise
        return self._item(answer)

    def insert(self, pk: str, sk: str, value: bytes, token: str | None = None) -> None:
        """Inserts a value. It replaces the values that the token covers."""
        headers = [(TOKEN, token)] if token else []
        self.call("PUT", pk, [("sort_key", sk)], headers, value)

    def delete(self, pk: str, sk: str, token: str) -> None:
        """Deletes the values that the token covers."""
        self.call("DELETE", pk, [("sort_key", sk)], [(TOKEN, token)])

    def poll(self, pk: str, sk: str, token: str, seconds: int = 300):
        """Waits until the item has changed. Returns as `read`; `None` if it does not in time."""
        query = [("sort_key", sk), ("causality_token", token), ("timeout", str(seconds))]
        answer = self.call("GET", pk, query, [("Accept", "application/json")])
        return None if answer[0] == 304 else self._item(answer)

    def index(self, **query):
        """Returns the partition keys and what they hold."""
        return json.loads(self.call("GET", None, list(query.items()))[2])

    def insert_batch(self, items: list[dict]) -> None:
        """Inserts many: dicts of `pk`, `sk`, `ct` and `v` (bytes, or `None` to delete)."""
        sent = [{**item, "v": _text(item["v"])} for item in items]
        self.call("POST", None, (), (), json.dumps(sent).encode())

    def read_batch(self, searches: list[dict]) -> list[dict]:
        """Reads ranges; values are bytes, or `None` for a deletion."""
        body = json.dumps(searches).encode()
        found = json.loads(self.call("POST", None, [("search", "")], (), body)[2])
        for page in found:
            for item in page["items"]:
                item["v"] = [_bytes(value) for value in item["v"]]
        return found

    def delete_batch(self, searches: list[dict]) -> list[dict]:
        """Deletes ranges."""
        body = json.dumps(searches).encode()
        return json.loads(self.call("POST", None, [("delete", "")], (), body)[2])

    def poll_range(self, pk: str, **range_):
        """Waits until items of a range have changed; `None` if they do not in time."""
        body = json.dumps(range_).encode()
        status, _, answer = self.call("POST", pk, [("poll_range", "")], (), body)
        if status == 304:
            return None
        polled = json.loads(answer)
        for item in polled["items"]:
            item["v"] = [_bytes(value) for value in item["v"]]
        return polled

    @staticmethod
    def _item(answer):
        _, headers, body = answer
        return [_bytes(value) for value in json.loads(body)], headers[TOKEN]


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


class Mailbox:
    """Mails in the order of their numbers. Any number of clients deliver, read and watch it."""

    def __init__(self, k2v: K2V, name: str):
        self.k2v, self.pk, self.seen = k2v, f"mailbox:{name}", None

    def deliver(self, number: int, mail: bytes) -> None:
        self.k2v.insert(self.pk, f"{number:020}", mail)

    def mails(self) -> list[bytes]:
        found, start = [], None
        while True:
            [page] = self.k2v.read_batch([{"partitionKey": self.pk, "start": start}])
            found += [value for item in page["items"] for value in item["v"] if value is not None]
            if not page["more"]:
                return found
            start = page["nextStart"]

    def watch(self, seconds: int = 300) -> list[str]:
        """Returns the sort keys that have changed since the last call; the first one returns all."""
        polled = self.k2v.poll_range(self.pk, seenMarker=self.seen, timeout=seconds)
        if polled is None:
            return []
        self.seen = polled["seenMarker"]
        return [item["sk"] for item in polled["items"]]


class Counter:
    """A number that many clients raise, also at the same time at nodes that are far apart.

    Each client keeps its own share under its own sort key, so that nobody overwrites anybody. The
    sum is read with one request.
    """

    def __init__(self, k2v: K2V, name: str, client: str):
        self.k2v, self.pk, self.client = k2v, f"counter:{name}", client

    def add(self, number: int) -> None:
        values, token = self.k2v.read(self.pk, self.client)
        # Several values are left by an insert whose answer was lost and that was sent again.
        share = max((int(value) for value in values if value is not None), default=0)
        self.k2v.insert(self.pk, self.client, str(share + number).encode(), token)

    def total(self) -> int:
        [page] = self.k2v.read_batch([{"partitionKey": self.pk}])
        assert not page["more"]
        return sum(max(int(value) for value in item["v"] if value) for item in page["items"])


def main(demo: dict) -> None:
    k2v = K2V(demo["k2v"], demo["bucket"], demo["access_key"], demo["secret_key"], demo["region"])
    inbox = Mailbox(k2v, "INBOX")
    inbox.watch()
    inbox.deliver(1, b"Hello")
    print("changed:", inbox.watch())
    print("mails:", inbox.mails())
    paris, tokyo = Counter(k2v, "visits", "paris"), Counter(k2v, "visits", "tokyo")
    paris.add(2)
    tokyo.add(3)
    print("visits:", paris.total())


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as line:
        main(json.loads(line.readline()))
