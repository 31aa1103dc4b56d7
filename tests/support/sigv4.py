"""AWS Signature Version 4, written from its specification and apart from every SDK.

Tests need requests that no SDK would send: with headers left unsigned, chunks swapped, dates moved.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
from dataclasses import dataclass
from urllib.parse import quote

UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Credentials:
    access_key: str
    secret_key: str
    region: str = "us-east-1"


def timestamp(moment: datetime.datetime | None = None) -> str:
    """`moment` (now by default) as `20130524T000000Z`."""
    moment = moment or datetime.datetime.now(datetime.timezone.utc)
    return moment.strftime("%Y%m%dT%H%M%SZ")


def shifted(seconds: float) -> str:
    """The timestamp of now plus `seconds`."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return timestamp(now + datetime.timedelta(seconds=seconds))


def encode(text: str, safe: str = "-_.~") -> str:
    """URI-encodes as the specification says: all but unreserved characters, in upper-case hex."""
    return quote(text, safe=safe)


def object_path(bucket: str, key: str | None = None) -> str:
    """The path-style path of a bucket or an object."""
    return f"/{bucket}" if key is None else f"/{bucket}/" + encode(key, safe="-_.~/")


def query_string(pairs: list[tuple[str, str]]) -> str:
    """A canonical query string: encoded, then sorted by name and value."""
    return "&".join(f"{k}={v}" for k, v in sorted((encode(k), encode(v)) for k, v in pairs))


def scope(credentials: Credentials, stamp: str, service: str = "s3") -> str:
    return f"{stamp[:8]}/{credentials.region}/{service}/aws4_request"


def signing_key(credentials: Credentials, stamp: str, service: str = "s3") -> bytes:
    key = ("AWS4" + credentials.secret_key).encode()
    for part in (stamp[:8], credentials.region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def sign_text(credentials: Credentials, stamp: str, text: str, service: str = "s3") -> str:
    return hmac.new(signing_key(credentials, stamp, service), text.encode(), "sha256").hexdigest()


def canonical_request(
    method: str,
    path: str,
    query: list[tuple[str, str]],
    headers: list[tuple[str, str]],
    signed: list[str],
    payload_hash: str,
) -> str:
    """The canonical request; `headers` may repeat a name, whose values are then joined."""
    lines = []
    for name in signed:
        values = [" ".join(v.split()) for n, v in headers if n.lower() == name]
        lines.append(f"{name}:{','.join(values)}\n")
    return "\n".join(
        [method, path, query_string(query), "".join(lines), ";".join(signed), payload_hash]
    )


def signature(
    credentials: Credentials, stamp: str, canonical: str, service: str = "s3"
) -> str:
    digest = hashlib.sha256(canonical.encode("latin-1")).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope(credentials, stamp, service), digest])
    return sign_text(credentials, stamp, text, service)


def authorization(
    credentials: Credentials, stamp: str, signed: list[str], value: str, service: str = "s3"
) -> str:
    return (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope(credentials, stamp, service)},"
        f"SignedHeaders={';'.join(signed)},Signature={value}"
    )


def sign_headers(
    credentials: Credentials,
    method: str,
    path: str,
    query: list[tuple[str, str]],
    headers: list[tuple[str, str]],
    payload_hash: str,
    stamp: str | None = None,
    leave_unsigned: tuple[str, ...] = (),
    service: str = "s3",
) -> list[tuple[str, str]]:
    """`headers` (which must hold `Host`) with date, payload hash and Authorization added."""
    stamp = stamp or timestamp()
    present = {name.lower() for name, _ in headers}
    headers = list(headers)
    if "x-amz-date" not in present:
        headers.append(("x-amz-date", stamp))
    if "x-amz-content-sha256" not in present:
        headers.append(("x-amz-content-sha256", payload_hash))
    skip = {"content-length", "connection", "expect", "transfer-encoding", *leave_unsigned}
    signed = sorted({name.lower() for name, _ in headers} - skip)
    canonical = canonical_request(method, path, query, headers, signed, payload_hash)
    value = signature(credentials, stamp, canonical, service)
    headers.append(("Authorization", authorization(credentials, stamp, signed, value, service)))
    return headers


def presign(
    credentials: Credentials,
    method: str,
    host: str,
    path: str,
    query: list[tuple[str, str]] | None = None,
    expires: int | str = 600,
    stamp: str | None = None,
    headers: list[tuple[str, str]] | None = None,
    payload_hash: str = UNSIGNED,
) -> str:
    """The path and query of a presigned request; `headers` are signed beside `host`."""
    stamp = stamp or timestamp()
    headers = [("host", host), *(headers or [])]
    signed = sorted({name.lower() for name, _ in headers})
    query = list(query or []) + [
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
        ("X-Amz-Credential", f"{credentials.access_key}/{scope(credentials, stamp)}"),
        ("X-Amz-Date", stamp),
        ("X-Amz-Expires", str(expires)),
        ("X-Amz-SignedHeaders", ";".join(signed)),
    ]
    canonical = canonical_request(method, path, query, headers, signed, payload_hash)
    value = signature(credentials, stamp, canonical)
    return f"{path}?{query_string(query)}&X-Amz-Signature={value}"
