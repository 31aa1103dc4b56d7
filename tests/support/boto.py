"""Clients of boto3 that hide nothing behind retries."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
from botocore import UNSIGNED
from botocore.config import Config

REGION = "us-east-1"


def boto(
    service: str,
    endpoint: str,
    key: str | None,
    secret: str | None,
    *,
    token: str | None = None,
    ca: Path | str | None = None,
    region: str = REGION,
    attempts: int = 1,
    style: str = "path",
    **config,
):
    """A client that makes at most so many attempts at each request. Without a key it signs nothing. With `ca`, a file, it
    trusts only certificates from there."""
    if key is None:
        config["signature_version"] = UNSIGNED
    elif service == "s3":
        # Otherwise URLs for this region are signed with version 2.
        config.setdefault("signature_version", "s3v4")
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token,
        verify=None if ca is None else str(ca),
        config=Config(s3={"addressing_style": style}, retries={"total_max_attempts": attempts}, **config),
    )


def boto_of(server, endpoint: str | None = None, **more):
    """An S3 client with the key that a demo prints; at another endpoint than its first node's if given."""
    return boto("s3", endpoint or server.endpoint, server.access_key, server.secret_key, region=server.region, **more)


def put_many(s3, bucket: str, keys: list[str]) -> None:
    """Writes an object of one byte under each key, eight at a time."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: s3.put_object(Bucket=bucket, Key=key, Body=b"x"), keys))
