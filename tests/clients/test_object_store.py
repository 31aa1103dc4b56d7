"""The Rust `object_store` crate: its own integration helpers (a cargo project of its own, in tests/object_store)."""

import os
from pathlib import Path

from support.tools import run

PROJECT = Path(__file__).resolve().parents[1] / "object_store"


def test_integration_helpers(server, aws_env, bucket):
    target = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT.parents[1] / "target")) / "object-store-tests"
    env = {**aws_env, "AWS_BUCKET": bucket, "AWS_REGION": server.region, "CARGO_TARGET_DIR": str(target)}
    done = run(["cargo", "test", "--quiet"], env, cwd=PROJECT, timeout=600)
    assert b"1 passed" in done.stdout, done.stdout.decode()
