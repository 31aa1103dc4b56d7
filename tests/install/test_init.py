"""`archipel init`: a few answers, and a configuration that works."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
from pathlib import Path

import pytest
from cluster.loopback import Loopback
from install.nodes import Group, get, put
from support.server import binary
from support.sigv4 import Credentials

pytestmark = pytest.mark.process


def init(folder: Path, *flags: str, answers: str | None = None) -> subprocess.CompletedProcess:
    """Runs it for a node of this folder; without answers it asks nothing."""
    silent = [] if answers is not None else ["--non-interactive"]
    command = [str(binary()), "init", "--config", str(folder / "archipel.toml"), *silent, *flags]
    return subprocess.run(command, input=answers or "", capture_output=True, text=True, timeout=60)


def key_of(folder: Path) -> Credentials:
    lines = (folder / "archipel.toml").read_text().splitlines()
    (id,) = [line.split('"')[1] for line in lines if line.startswith("access_key = ")]
    return Credentials(id, (folder / "first-secret-key").read_text().strip(), "us-east-1")


def test_questions_are_answered_by_a_person(tmp_path):
    answers = f"{tmp_path / 'data'}\n\nnone\nphotos\n1\n"
    done = init(tmp_path, answers=answers)
    assert done.returncode == 0, done.stderr
    assert "Address for S3 clients" in done.stderr and "[127.0.0.1:3900]" in done.stderr
    assert "host:port" not in done.stderr, "one node is not asked for others"
    text = (tmp_path / "archipel.toml").read_text()
    assert f'data_dir = "{tmp_path / "data"}"' in text and 'bucket = "photos"' in text
    assert "[console]" not in text and "[cluster]" not in text and "# The address for S3 clients" in text
    for name in ("archipel.toml", "first-secret-key"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600, name
    secret = key_of(tmp_path).secret_key
    assert len(secret) >= 40 and secret not in text and secret not in done.stdout + done.stderr
    check = [str(binary()), "config", "check", "--config", str(tmp_path / "archipel.toml")]
    assert subprocess.run(check, capture_output=True, text=True, timeout=60).returncode == 0


def test_nothing_is_overwritten_and_a_wrong_answer_leaves_nothing(tmp_path):
    wrong = init(tmp_path, "--s3-listen", "everywhere")
    assert wrong.returncode == 1 and "s3.listen" in wrong.stderr
    assert list(tmp_path.iterdir()) == []
    assert init(tmp_path).returncode == 0
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert sorted(before) == ["archipel.toml", "first-secret-key"]
    again = init(tmp_path)
    assert again.returncode == 1 and "is there already" in again.stderr and "--config" in again.stderr
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    # The secret of a key is of use only with the id of that key.
    (tmp_path / "archipel.toml").unlink()
    without = init(tmp_path)
    assert without.returncode == 1 and "--access-key" in without.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["first-secret-key"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_writes_belongs_to_the_owner_of_the_data(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, 3900, 3901)
    config = tmp_path / "config"
    config.mkdir()
    # Root has copied it from another machine.
    (config / "cluster-secret").write_text("0123456789abcdef0123456789abcdef\n")
    (config / "cluster-secret").chmod(0o600)
    together = ["--nodes", "2", "--address", "a:3901", "--others", "b:3901"]
    done = init(config, "--data-dir", str(data), *together)
    assert done.returncode == 0 and "chown" not in done.stdout, done.stdout
    assert 'listen = "[::]:3901"' in (config / "archipel.toml").read_text()
    files = {file.name: file.stat() for file in config.iterdir()}
    assert sorted(files) == ["archipel.toml", "cluster-secret", "first-secret-key"]
    assert {(of.st_uid, of.st_gid, stat.S_IMODE(of.st_mode)) for of in files.values()} == {(3900, 3901, 0o600)}
    # Nobody knows yet to whom the files belong.
    other = tmp_path / "other"
    done = init(other, "--data-dir", str(tmp_path / "missing"), *together)
    assert f"chown USER {other}/archipel.toml {other}/first-secret-key {other}/cluster-secret" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--nodes", "3"], "give --address"),
        (["--nodes", "3", "--address", "a.example.net:3901"], "give --others"),
        (["--nodes", "3", "--address", "0.0.0.0:3901"], '"0.0.0.0:3901" stands for all interfaces'),
        (["--nodes", "3", "--address", "[::]:3901"], "fix: give --address a name or an address"),
        (["--nodes", "three"], "invalid value"),
        (["--access-key", "AKcopied"], "first-secret-key is missing"),
    ],
)
def test_missing_and_wrong_flags_are_named(tmp_path, flags, why):
    done = init(tmp_path, *flags)
    assert done.returncode != 0 and why in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_answer_that_does_not_come_is_an_error(tmp_path):
    done = init(tmp_path, answers="\n")
    assert done.returncode == 1 and "give --s3-listen" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_three_machines_that_init_configured_become_one_store(tmp_path):
    network = Loopback(3)
    nodes = Group(tmp_path, network, "", 3)
    base = random.randint(20_000, 29_000)
    addresses = [f"{node.address}:{base + node.number}" for node in nodes.nodes]
    first = nodes.nodes[0]
    for node in nodes.nodes:
        (node.folder / "archipel.toml").unlink()
        others = [address for number, address in enumerate(addresses) if number != node.number]
        flags = ["--nodes", "3", "--address", addresses[node.number], "--others", ",".join(others)]
        flags += ["--data-dir", str(node.data), "--s3-listen", f"{node.address}:3900", "--console-listen", "none"]
        flags += ["--zone", f"zone{node.number}", "--bucket", "first"]
        if node is not first:
            # As the first one's init said.
            for secret in ("cluster-secret", "first-secret-key"):
                copy = node.folder / secret
                copy.write_text((first.folder / secret).read_text())
                copy.chmod(0o600)
            flags += ["--access-key", key_of(first.folder).access_key]
        node.env.pop("ARCHIPEL_FIRST_START_SECRET_KEY")
        done = init(node.folder, *flags)
        assert done.returncode == 0, done.stderr
        assert ("On each other machine" in done.stdout) == (node is first)
    key = key_of(first.folder)
    assert [key_of(node.folder) for node in nodes.nodes] == [key] * 3
    try:
        for node in nodes.nodes:
            nodes.start(node)
        layout = nodes.wait_formed(3)[0]
        assert json.dumps(sorted(node["zone"] for node in layout["nodes"])) == '["zone0", "zone1", "zone2"]'
        nodes.wait_first_key(key)
        assert put(first, "k", b"by init", key) == 200
        assert [get(node, "k", key) for node in nodes.nodes] == [b"by init"] * 3
    finally:
        nodes.stop_all()
