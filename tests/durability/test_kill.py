"""kill -9: at random moments under load, and inside chosen system calls of a PUT and of a completion.

The page cache survives a kill, so this shows what order of steps and recovery are worth, not what fsync is (power cuts do).
"""

from __future__ import annotations

import random
import time

import pytest
from durability.ledger import ABSENT, Ledger, Writer, digest, verify
from support.client import Client
from support.data import MIB, content
from support.server import Demo, ServerFailed, wait_until
from support.sigv4 import Credentials, object_path
from support.strace import inject

pytestmark = pytest.mark.process


def client_of(info, keep_alive=True) -> Client:
    return Client(info.endpoint, Credentials(info.access_key, info.secret_key, info.region), keep_alive, timeout=20)


def test_random_moments(tmp_path):
    """12 kills under load of 4 clients, on one folder: everything acknowledged is there and whole each time."""
    rng = random.Random(20)
    demo, ledger = Demo(tmp_path / "node"), Ledger()
    try:
        for number in range(12):
            info = demo.start()
            wrong = verify(client_of(info), info.bucket, ledger)
            assert not wrong, (number, wrong)
            writers = [
                Writer(client_of(info), info.bucket, ledger, f"w{n}", rng.randrange(1 << 30)) for n in range(4)
            ]
            for writer in writers:
                writer.start()
            time.sleep(rng.uniform(0.05, 1.0))
            demo.kill()
            for writer in writers:
                writer.join(30)
                assert writer.failure is None, writer.failure
        info = demo.start()
        wrong = verify(client_of(info), info.bucket, ledger)
        assert not wrong, wrong
        assert ledger.acknowledged > 50, "the load was too small to prove anything"
    finally:
        demo.kill()


@pytest.mark.parametrize("calls", ["pwrite64,pwritev,write", "fdatasync,fsync,msync", "openat,ftruncate,rename,unlink"])
def test_killed_while_starting(tmp_path, calls):
    """Killed in the n-th such call of a recovery, then started again: recovery can be repeated."""
    ledger = Ledger()
    demo = Demo(tmp_path / "node")
    try:
        info = demo.start()
        writer = Writer(client_of(info), info.bucket, ledger, "w", 1)
        writer.start()
        assert wait_until(lambda: ledger.acknowledged >= 50, 60)
        demo.kill()
        writer.join(30)
        killed = 0
        for occurrence in (1, 2, 3, 5, 8, 13, 21, 34):
            what = f"inject={calls}:signal=SIGKILL:when={occurrence}"
            tracer = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", what]
            demo = Demo(tmp_path / "node", wrapper=tracer)
            try:
                demo.start()
            except ServerFailed:
                killed += 1
            demo.kill()
        assert killed, "no start was killed"
        demo = Demo(tmp_path / "node")
        info = demo.start()
        assert not verify(client_of(info), info.bucket, ledger)
    finally:
        demo.kill()


SYSCALLS = ["pwrite64,pwritev,write", "fdatasync,fsync,msync", "openat,ftruncate,fallocate,rename,unlink"]


@pytest.mark.parametrize("calls", SYSCALLS, ids=["writes", "syncs", "files"])
@pytest.mark.parametrize("operation", ["small", "large", "complete", "delete"])
def test_inside_a_system_call(tmp_path, operation, calls):
    """The server dies in the n-th such call after it is ready, for n = 1, 2, 3 … until the operation gets through."""
    demo, ledger = Demo(tmp_path / "node"), Ledger()
    try:
        for occurrence in list(range(1, 9)) + [12, 16, 24]:
            info = demo.start()
            client = client_of(info, keep_alive=False)
            wrong = verify(client, info.bucket, ledger)
            assert not wrong, (operation, calls, occurrence, wrong)
            prepared = prepare(client, info.bucket, operation, occurrence)
            with inject(demo.server_pid, calls, f"signal=SIGKILL:when={occurrence}"):
                perform(client, info.bucket, ledger, operation, occurrence, prepared)
            survived = demo.alive()
            demo.kill()
            if survived and ledger.entries.get("k") and not ledger.entries["k"].pending:
                break
        info = demo.start()
        wrong = verify(client_of(info), info.bucket, ledger)
        assert not wrong, (operation, calls, wrong)
        usual = client_of(info, keep_alive=False)
        assert usual.put(info.bucket, "after", b"works").status == 200
    finally:
        demo.kill()


def prepare(client, bucket, operation, occurrence):
    """Makes what must be there before the operation itself, without the tracer."""
    if operation == "complete":
        path = object_path(bucket, "k")
        upload = client.request("POST", path, [("uploads", "")]).xml().findtext("UploadId")
        data = [content(5 * MIB, f"part {occurrence}"), b"last"]
        body = "<CompleteMultipartUpload>"
        for number, part in enumerate(data, 1):
            reply = client.request("PUT", path, [("partNumber", str(number)), ("uploadId", upload)], body=part)
            body += f"<Part><PartNumber>{number}</PartNumber><ETag>{reply.headers['etag']}</ETag></Part>"
        return upload, (body + "</CompleteMultipartUpload>").encode(), digest(b"".join(data))
    return None


def perform(client, bucket, ledger, operation, occurrence, prepared) -> None:
    if operation == "complete":
        upload, body, state = prepared
        ledger.attempt(
            "k",
            state,
            lambda: client.request("POST", object_path(bucket, "k"), [("uploadId", upload)], body=body),
        )
    elif operation == "delete":
        ledger.attempt("k", digest(b"to go"), lambda: client.put(bucket, "k", b"to go"))
        ledger.attempt("k", ABSENT, lambda: client.delete(bucket, "k"))
    else:
        data = content(100 if operation == "small" else 3 * MIB, f"{operation} {occurrence}")
        ledger.attempt("k", digest(data), lambda: client.put(bucket, "k", data))
