"""A small S3 client on `http.client` with the signer of `sigv4`: everything can be set, nothing is retried."""

from __future__ import annotations

import hashlib
import http.client
from typing import Iterable
from urllib.parse import urlsplit

from . import sigv4, wire
from .sigv4 import Credentials, object_path

Pairs = Iterable[tuple[str, str]]


class Client:
    """Signed requests to one endpoint; with `keep_alive` all on one connection (then for one thread only)."""

    def __init__(
        self,
        endpoint: str,
        credentials: Credentials,
        keep_alive: bool = False,
        timeout: float = wire.TIMEOUT_S,
    ):
        parts = urlsplit(endpoint)
        self.address = (parts.hostname or "127.0.0.1", parts.port or 80)
        self.host = parts.netloc
        self.credentials = credentials
        self.keep_alive = keep_alive
        self.timeout = timeout
        self.connection: http.client.HTTPConnection | None = None

    def request(
        self,
        method: str,
        path: str,
        query: Pairs = (),
        headers: Pairs = (),
        body: bytes = b"",
        *,
        credentials: Credentials | None = None,
        anonymous: bool = False,
        payload_hash: str | None = None,
        stamp: str | None = None,
        leave_unsigned: tuple[str, ...] = (),
        add_after: Pairs = (),
        host: str | None = None,
        service: str = "s3",
    ) -> wire.Response:
        """One request. `path` is encoded already; `add_after` are headers added behind the signature's back."""
        query, headers = list(query), list(headers)
        lower = {name.lower() for name, _ in headers}
        if "host" not in lower:
            headers.insert(0, ("Host", host or self.host))
        if not anonymous:
            headers = sigv4.sign_headers(
                credentials or self.credentials,
                method,
                path,
                query,
                headers,
                payload_hash or hashlib.sha256(body).hexdigest(),
                stamp,
                leave_unsigned,
                service,
            )
        if "content-length" not in lower and (body or method in ("PUT", "POST")):
            headers.append(("Content-Length", str(len(body))))
        headers.extend(add_after)
        target = path + ("?" + sigv4.query_string(query) if query else "")
        return self.send(method, target, headers, body)

    def send(self, method: str, target: str, headers: Pairs, body: bytes = b"") -> wire.Response:
        """Sends exactly this, and reads the answer."""
        connection = self.connection or http.client.HTTPConnection(
            *self.address, timeout=self.timeout
        )
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers:
                connection.putheader(name, value)
            try:
                connection.endheaders(body or None)
            except (BrokenPipeError, ConnectionResetError):
                # Refused before the body was through: the answer is still there. Not if there was no connection.
                if connection.sock is None:
                    raise
            reply = connection.getresponse()
            response = wire.from_http_client(reply)
        except BaseException:
            self.connection = None
            connection.close()
            raise
        if self.keep_alive and not reply.will_close:
            self.connection = connection
        else:
            self.connection = None
            connection.close()
        return response

    def put(self, bucket: str, key: str, body: bytes = b"", headers: Pairs = (), **more):
        return self.request("PUT", object_path(bucket, key), headers=headers, body=body, **more)

    def get(self, bucket: str, key: str, headers: Pairs = (), **more):
        return self.request("GET", object_path(bucket, key), headers=headers, **more)

    def head(self, bucket: str, key: str, headers: Pairs = (), **more):
        return self.request("HEAD", object_path(bucket, key), headers=headers, **more)

    def delete(self, bucket: str, key: str, headers: Pairs = (), **more):
        return self.request("DELETE", object_path(bucket, key), headers=headers, **more)

    def presigned(self, method: str, target: str, headers: Pairs = (), body: bytes = b""):
        """Uses what `sigv4.presign` made, adding `headers` that it knows of or not."""
        headers = [("Host", self.host), *headers]
        if body or method == "PUT":
            headers.append(("Content-Length", str(len(body))))
        return self.send(method, target, headers, body)

    def close(self) -> None:
        if self.connection:
            self.connection.close()
            self.connection = None
