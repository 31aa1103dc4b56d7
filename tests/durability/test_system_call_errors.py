"""Errors of single system calls: the client gets a clear error, and nothing acknowledged is lost."""

from __future__ import annotations

import pytest
from durability.ledger import Ledger, digest, verify
from durability.test_kill import client_of, perform, prepare
from support.data import MIB, content
from support.server import Demo
from support.strace import inject

pytestmark = pytest.mark.process

FAULTS = [
    ("fdatasync,fsync,msync", "EIO"),
    ("pwrite64,pwritev,pwritev2", "EIO"),
    ("pwrite64,pwritev,pwritev2,fallocate,ftruncate", "ENOSPC"),
    ("openat,accept4", "EMFILE"),
    ("mmap", "ENOMEM"),
]


@pytest.mark.parametrize("calls,error", FAULTS, ids=[f"{e}-{c.split(',')[0]}" for c, e in FAULTS])
def test_every_occurrence(tmp_path, calls, error):
    """The n-th such call of a small workload fails, for each n until the workload ends before the n-th."""
    hit = 0
    for occurrence in range(1, 13):
        demo, ledger = Demo(tmp_path / f"node-{occurrence}"), Ledger()
        try:
            info = demo.start()
            client = client_of(info, keep_alive=False)
            data = content(2 * MIB, "before")
            assert ledger.attempt("before", digest(data), lambda: client.put(info.bucket, "before", data))
            assert ledger.acknowledged == 1
            done = workload(demo, client, info.bucket, ledger, calls, f"error={error}:when={occurrence}")
            hit += done
            restart_and_verify(demo, ledger)
        finally:
            demo.kill()
        if not done:
            break
    if error != "ENOMEM":
        assert hit, "no call failed: the fault was never there"


def workload(demo, client, bucket, ledger, calls, what) -> int:
    """Small and large PUT, completion, delete under the fault; returns how many calls failed."""
    prepared = prepare(client, bucket, "complete", 1)
    with inject(demo.server_pid, calls, what) as fault:
        for operation in ("small", "large", "complete", "delete"):
            perform(client, bucket, ledger, operation, 1, prepared)
        hits = fault.hits()
    for (status, code), _ in ledger.refused.items():
        assert status in (500, 503, 507) and code, f"not a clear error: {status} {code}"
    if demo.alive():
        reply = client.get(bucket, "before")
        assert reply.status in (200, 500, 503), reply.brief()
    return len(hits)


def restart_and_verify(demo, ledger) -> None:
    demo.kill()
    info = demo.start()
    client = client_of(info)
    wrong = verify(client, info.bucket, ledger)
    assert not wrong, wrong
    assert client.put(info.bucket, "after", b"works again").status == 200


def test_a_failed_sync_is_final(tmp_path):
    """After one EIO of fdatasync nothing more is acknowledged as durable on that file: no retry that lies."""
    demo, ledger = Demo(tmp_path / "node"), Ledger()
    try:
        info = demo.start()
        client = client_of(info, keep_alive=False)
        data = content(MIB, "before")
        ledger.attempt("before", digest(data), lambda: client.put(info.bucket, "before", data))
        with inject(demo.server_pid, "fdatasync,fsync,msync", "error=EIO:when=1") as fault:
            for number in range(5):
                body = content(MIB, f"after {number}")
                ledger.attempt(f"after-{number}", digest(body), lambda: client.put(info.bucket, f"after-{number}", body))
            assert fault.hits()
        assert ledger.acknowledged == 1, "acknowledged on a disk whose sync has failed"
        assert client.get(info.bucket, "before").status == 200
        restart_and_verify(demo, ledger)
    finally:
        demo.kill()


def test_no_file_descriptors_left(tmp_path):
    """With 64 descriptors and 200 connections: refusals or waits, and service afterwards."""
    import resource

    from support import wire

    demo = Demo(tmp_path / "node")
    try:
        info = demo.start()
        client = client_of(info, keep_alive=False)
        assert client.put(info.bucket, "k", b"kept").status == 200
        resource.prlimit(demo.server_pid, resource.RLIMIT_NOFILE, (64, 64))
        socks = []
        for _ in range(200):
            try:
                socks.append(wire.connect(client.address, timeout=5))
            except OSError:
                break
        for sock in socks:
            sock.close()
        assert client.get(info.bucket, "k").body == b"kept"
        assert client.put(info.bucket, "k", content(2 * MIB, "new")).status == 200
    finally:
        demo.kill()
