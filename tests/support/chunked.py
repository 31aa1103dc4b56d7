"""`aws-chunked` bodies, built frame by frame so that a test can break any of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Callable

from . import sigv4, wire
from .client import Client
from .sigv4 import EMPTY_SHA256, object_path

SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


@dataclass
class Upload:
    """One streaming PUT and how it deviates from a right one."""

    chunks: list[bytes]
    mode: str = SIGNED
    trailers: list[tuple[str, str]] = field(default_factory=list)
    announce: list[str] | None = None
    decoded_length: int | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    change: Callable[[list[bytes]], list[bytes]] | None = None
    wrong_secret: bool = False


def put(client: Client, bucket: str, key: str, upload: Upload) -> wire.Response | None:
    """Sends the upload as one PutObject; None if the connection was closed without an answer."""
    head, frames = build(client, "PUT", object_path(bucket, key), [], upload)
    return wire.exchange(client.address, head + b"".join(frames), "PUT", half_close=True)


def build(client, method, path, query, upload: Upload) -> tuple[bytes, list[bytes]]:
    """The request's head and the frames of its body."""
    credentials, stamp = client.credentials, sigv4.timestamp()
    if upload.wrong_secret:
        credentials = sigv4.Credentials(credentials.access_key, "wrong" * 8, credentials.region)
    length = sum(map(len, upload.chunks)) if upload.decoded_length is None else upload.decoded_length
    headers = [
        ("Host", client.host),
        ("content-encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", str(length)),
        *upload.headers,
    ]
    announce = [n for n, _ in upload.trailers] if upload.announce is None else upload.announce
    if announce:
        headers.append(("x-amz-trailer", ",".join(announce)))
    headers = sigv4.sign_headers(credentials, method, path, query, headers, upload.mode, stamp)
    seed = dict(headers)["Authorization"].rsplit("Signature=", 1)[1]
    frames = frame_all(credentials, stamp, seed, upload)
    if upload.change:
        frames = upload.change(frames)
    headers.append(("Content-Length", str(sum(map(len, frames)))))
    headers.append(("Connection", "close"))
    target = path + ("?" + sigv4.query_string(query) if query else "")
    return wire.head(method, target, headers), frames


def frame_all(credentials, stamp: str, seed: str, upload: Upload) -> list[bytes]:
    """One frame a chunk, then the final one, then trailers and the closing line."""
    signed = upload.mode != UNSIGNED_TRAILER
    frames, previous = [], seed
    for chunk in [*upload.chunks, b""]:
        if signed:
            previous = chunk_signature(credentials, stamp, previous, chunk)
            start = f"{len(chunk):x};chunk-signature={previous}\r\n".encode()
        else:
            start = f"{len(chunk):x}\r\n".encode()
        frames.append(start + chunk + (b"\r\n" if chunk else b""))
    tail = b"".join(f"{name}:{value}\r\n".encode() for name, value in upload.trailers)
    if upload.mode == SIGNED_TRAILER:
        value = trailer_signature(credentials, stamp, previous, upload.trailers)
        tail += f"x-amz-trailer-signature:{value}\r\n".encode()
    frames.append(tail + b"\r\n")
    return frames


def chunk_signature(credentials, stamp: str, previous: str, chunk: bytes) -> str:
    text = "\n".join(
        [
            "AWS4-HMAC-SHA256-PAYLOAD",
            stamp,
            sigv4.scope(credentials, stamp),
            previous,
            EMPTY_SHA256,
            hashlib.sha256(chunk).hexdigest(),
        ]
    )
    return sigv4.sign_text(credentials, stamp, text)


def trailer_signature(credentials, stamp: str, previous: str, trailers) -> str:
    canonical = "".join(f"{name.lower()}:{value}\n" for name, value in trailers)
    text = "\n".join(
        [
            "AWS4-HMAC-SHA256-TRAILER",
            stamp,
            sigv4.scope(credentials, stamp),
            previous,
            hashlib.sha256(canonical.encode()).hexdigest(),
        ]
    )
    return sigv4.sign_text(credentials, stamp, text)
