"""minio-go: the examples of its documentation on versions, locks, tags, lifecycle rules and forms, and listening to events (tests/clients/minio_go)."""

import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support import go
from support.tools import run

PROJECT = Path(__file__).with_name("minio_go")
TESTS = {
    "TestEncryptedUpload",
    "TestFormWithPolicy",
    "TestLifecycle",
    "TestListen",
    "TestObjectLock",
    "TestTags",
    "TestVersions",
}


def test_examples_of_its_documentation(server):
    if not shutil.which("go"):
        pytest.skip("Go is not installed (1.24 or later; Debian 12 has 1.19)")
    environment = {
        "ARCHIPEL_TEST_ADDRESS": urlsplit(server.endpoint).netloc,
        "ARCHIPEL_TEST_ACCESS_KEY": server.access_key,
        "ARCHIPEL_TEST_SECRET_KEY": server.secret_key,
        "ARCHIPEL_TEST_REGION": server.region,
        **go.ENVIRONMENT,
    }
    done = run(go.test_command(), environment, cwd=PROJECT, timeout=1200)
    passed = {line.split()[2] for line in done.stdout.decode().splitlines() if line.startswith("--- PASS: ")}
    assert passed == TESTS
