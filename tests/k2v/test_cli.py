"""`archipel k2v`: what it prints, and what it says of mistakes."""

from __future__ import annotations

import base64
import json
import os
import subprocess

import pytest
from support.server import binary

pytestmark = pytest.mark.process


@pytest.fixture
def cli(server, k2v):
    """Runs `archipel k2v WORDS...` with a bucket of its own after the first word."""

    def run(command: str, *words: str, given: bytes = b"", **settings: str | None) -> subprocess.CompletedProcess:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("ARCHIPEL_", "AWS_"))}
        env |= {
            "ARCHIPEL_K2V_URL": server.k2v,
            "AWS_ACCESS_KEY_ID": server.access_key,
            "AWS_SECRET_ACCESS_KEY": server.secret_key,
            "AWS_DEFAULT_REGION": server.region,
        }
        env = {name: value for name, value in (env | settings).items() if value is not None}
        line = [str(binary()), "k2v", command, k2v.bucket, *words]
        return subprocess.run(line, capture_output=True, timeout=60, env=env, input=given)

    return run


def item(reply: subprocess.CompletedProcess) -> tuple[list[bytes | None], str]:
    assert reply.returncode == 0, reply.stderr
    read = json.loads(reply.stdout)
    return [value and base64.b64decode(value) for value in read["values"]], read["token"]


def test_item_from_insert_to_deletion(cli):
    assert cli("insert", "p", "s", "one").stdout == b"inserted\n"
    assert cli("insert", "p", "s", "--json", given=b"\x00two").stdout == b""
    values, token = item(cli("read", "p", "s", "--json"))
    assert values == [b"one", b"\x00two"]
    shown = cli("read", "p", "s").stdout.decode()
    # A terminal obeys control characters, so they are shown; `--json` has the bytes.
    assert shown == f"one\n\\u0000two\ntoken: {token}\n"
    rows = json.loads(cli("index", "--json").stdout)
    assert rows == [{"pk": "p", "entries": 1, "conflicts": 1, "values": 2, "bytes": 7}]
    assert cli("index").stdout.decode().splitlines()[1].split() == ["p", "1", "1", "2", "7"]
    assert len(cli("index", "--prefix", "q").stdout.splitlines()) == 1
    assert cli("insert", "p", "s", "three", "--token", token).returncode == 0
    assert item(cli("poll", "p", "s", "--token", token, "--json"))[0] == [b"three"]
    assert cli("delete", "p", "s").stdout == b"deleted\n"
    assert item(cli("read", "p", "s", "--json"))[0] == [None]
    assert cli("read", "p", "s").stdout.startswith(b"(deleted)\n")


def test_poll_ends_without_a_change(cli):
    cli("insert", "p", "s", "one")
    reply = cli("poll", "p", "s", "--seconds", "1")
    assert (reply.returncode, reply.stdout, reply.stderr) == (1, b"", b"error: no change within 1 s\n")


def test_mistakes_are_named(cli):
    def fails(*line: str, **settings: str | None) -> str:
        reply = cli(*line, **settings)
        assert (reply.returncode, reply.stdout) == (1, b"")
        return reply.stderr.decode()

    assert "(NoSuchKey)" in fails("read", "p", "none")
    assert "(NoSuchKey)" in fails("delete", "p", "none")
    assert "(InvalidRequest)" in fails("insert", "p", "s", "x", "--token", "wrong")
    assert "(SignatureDoesNotMatch)" in fails("index", AWS_SECRET_ACCESS_KEY="wrong")
    assert "fix: set AWS_ACCESS_KEY_ID" in fails("index", AWS_ACCESS_KEY_ID=None)
    assert "no server at 127.0.0.1:1" in fails("index", ARCHIPEL_K2V_URL="http://127.0.0.1:1")
    for url in ("127.0.0.1:3904", "http://127.0.0.1", "ftp://127.0.0.1:3904"):
        assert "fix: write for example http://" in fails("index", ARCHIPEL_K2V_URL=url)
    assert "no server at 127.0.0.1:1" in fails("index", ARCHIPEL_K2V_URL="https://127.0.0.1:1")
    secure = {"ARCHIPEL_K2V_URL": "https://127.0.0.1:1", "AWS_CA_BUNDLE": "/none"}
    assert "fix: name a readable file" in fails("index", **secure)
