"""A webhook that takes events."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.parse


class Hook(http.server.ThreadingHTTPServer):
    """A webhook that takes what comes, or answers 503 while it is down."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.messages, self.tokens, self.is_down = [], set(), False
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """A sender that is killed is no error of the webhook."""

    def records(self, bucket: str) -> list[dict]:
        """The records about a bucket, in the order in which they came."""
        records = [record for message in list(self.messages) for record in message.get("Records", [])]
        return [record for record in records if record["s3"]["bucket"]["name"] == bucket]

    def objects(self) -> set[tuple[str, str]]:
        """Key and entity tag of each object of which it was told."""
        found = [record["s3"]["object"] for message in list(self.messages) for record in message.get("Records", [])]
        return {(urllib.parse.unquote_plus(one["key"]), one["eTag"]) for one in found if "eTag" in one}

    def told(self, bucket: str) -> list[tuple[str, str]]:
        """Names and keys, without repetitions."""
        pairs = [(r["eventName"], urllib.parse.unquote_plus(r["s3"]["object"]["key"])) for r in self.records(bucket)]
        return list(dict.fromkeys(pairs))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if not self.server.is_down:
            self.server.tokens.add(self.headers["authorization"])
            self.server.messages.append(json.loads(body))
        self.send_response(503 if self.server.is_down else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass
