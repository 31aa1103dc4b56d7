"""HTTP with nothing in between: bytes to a socket, and what came back."""

from __future__ import annotations

import http.client
import socket
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

TIMEOUT_S = 60


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    body: bytes
    raw_headers: list[tuple[str, str]] = field(default_factory=list)

    def xml(self) -> ElementTree.Element:
        """The body as XML, with namespaces taken off the tags."""
        root = ElementTree.fromstring(self.body)
        for element in root.iter():
            element.tag = element.tag.rsplit("}", 1)[-1]
        return root

    @property
    def code(self) -> str | None:
        """The `Code` of an S3 error, or None."""
        try:
            root = self.xml()
        except ElementTree.ParseError:
            return None
        return root.findtext("Code") if root.tag == "Error" else None

    def brief(self) -> str:
        return f"{self.status} {self.code or ''} {self.body[:300]!r}"


def from_http_client(reply: http.client.HTTPResponse) -> Response:
    body = reply.read()
    pairs = reply.getheaders()
    return Response(reply.status, {k.lower(): v for k, v in pairs}, body, pairs)


def connect(address: tuple[str, int], timeout: float = TIMEOUT_S) -> socket.socket:
    return socket.create_connection(address, timeout=timeout)


def head(method: str, target: str, headers: list[tuple[str, str]]) -> bytes:
    """The head of a request, unchecked."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def read_response(sock: socket.socket, method: str = "GET") -> Response:
    """Reads one answer; raises `http.client.HTTPException` or `OSError` if none comes."""
    reply = http.client.HTTPResponse(sock, method=method)
    reply.begin()
    return from_http_client(reply)


def exchange(
    address: tuple[str, int], data: bytes, method: str = "GET", half_close: bool = False
) -> Response | None:
    """Sends `data` on a fresh connection; None if the server just closed it."""
    with connect(address) as sock:
        try:
            sock.sendall(data)
            if half_close:
                sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused early: the answer may still be there to read
        try:
            return read_response(sock, method)
        except (http.client.HTTPException, OSError):
            return None
