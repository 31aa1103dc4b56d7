"""Content that cannot be mistaken: every object differs, and each byte depends on its place."""

from __future__ import annotations

import hashlib

KIB = 1024
MIB = 1024 * KIB


def content(size: int, seed: str = "") -> bytes:
    """`size` bytes that follow from `seed`; they do not compress."""
    return hashlib.shake_128(seed.encode()).digest(size)


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def etag(data: bytes) -> str:
    """The ETag of an object written in one piece."""
    return f'"{md5(data)}"'


def multipart_etag(parts: list[bytes]) -> str:
    """The ETag of an object completed from these parts."""
    joined = b"".join(hashlib.md5(p).digest() for p in parts)
    return f'"{md5(joined)}-{len(parts)}"'
