"""The words of a test for what must be refused, or must have left no trace."""

from __future__ import annotations

import contextlib

from botocore.exceptions import ClientError

from .unchanged import unchanged
from .wire import Response


@contextlib.contextmanager
def refused(status: int, *codes: str):
    """The boto3 call inside must fail with this HTTP status and one of these codes, and must change no row."""
    try:
        with unchanged():
            yield
    except ClientError as error:
        seen = (error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"])
        assert seen[0] == status and (not codes or seen[1] in codes), f"{seen}, not {status} {codes}"
    else:
        raise AssertionError(f"was not refused with {status} {codes}")


def refusal(call, **arguments) -> str:
    """The code with which this boto3 call is refused. It must change no row."""
    try:
        with unchanged():
            call(**arguments)
    except ClientError as error:
        return error.response["Error"]["Code"]
    raise AssertionError("was not refused")


def answer(response: Response | None, status: int, *codes: str) -> Response:
    """Asserts status and (for errors) code of a raw answer."""
    assert response is not None, "closed without an answer"
    good = response.status == status and (not codes or response.code in codes)
    assert good, f"{response.brief()}, not {status} {codes}"
    return response


def absent(s3, bucket: str, key: str) -> None:
    """The key must not exist, neither for HEAD nor in a listing."""
    with refused(404):
        s3.head_object(Bucket=bucket, Key=key)
    assert key not in keys(s3, bucket)


def holds(s3, bucket: str, key: str, content: bytes) -> None:
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == content


def keys(s3, bucket: str, **more) -> list[str]:
    """All keys of a bucket, in the order in which they are listed."""
    found = []
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, **more):
        found += [o["Key"] for o in page.get("Contents", [])]
    return found
