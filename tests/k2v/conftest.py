"""The client of the example in the documentation, and a bucket for each test."""

from __future__ import annotations

import contextlib
import importlib.util
import uuid
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "docs/examples/k2v.py"


def load_example():
    spec = importlib.util.spec_from_file_location("k2v_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def example():
    return load_example()


@pytest.fixture
def k2v(server, s3, example):
    if not server.k2v:
        pytest.skip("this server has no K2V")
    name = f"k2v-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name)
    client = example.K2V(server.k2v, name, server.access_key, server.secret_key, server.region)
    yield client
    # Items that are left would be in each later picture of the store.
    with contextlib.suppress(example.K2VError):  # the test deleted the bucket itself
        for one in client.index()["partitionKeys"]:
            client.delete_batch([{"partitionKey": one["pk"]}])
        s3.delete_bucket(Bucket=name)
