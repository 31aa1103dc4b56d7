"""Work on the metadata of a stopped server: another engine, and a lost index of blocks."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from support.client import Client
from support.data import MIB, content
from support.server import Demo, binary
from support.sigv4 import Credentials

pytestmark = pytest.mark.process

OBJECTS = {"small": 100, "medium": 9_000, "large": 3 * MIB}


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([str(binary()), *arguments], capture_output=True, text=True, timeout=120, check=False)


def client_of(info) -> Client:
    return Client(info.endpoint, Credentials(info.access_key, info.secret_key, info.region), timeout=20)


def fill(info) -> None:
    for name, size in OBJECTS.items():
        assert client_of(info).put(info.bucket, name, content(size, name)).status == 200


def all_is_there(info) -> None:
    for name, size in OBJECTS.items():
        assert client_of(info).get(info.bucket, name).body == content(size, name)


def config_of(tmp_path: Path, folder: Path, engine: str | None = None) -> str:
    config = tmp_path / "archipel.toml"
    config.write_text(f'data_dir = "{folder}"\n' + (f'engine = "{engine}"\n' if engine else ""))
    return str(config)


def test_metadata_is_converted_to_each_engine_and_back(tmp_path):
    folder = tmp_path / "node"
    demo = Demo(folder)
    try:
        info = demo.start()
        fill(info)
        config = config_of(tmp_path, folder)
        refused = run("metadata", "convert", "sqlite", "--config", config)
        assert refused.returncode == 1 and "in use" in refused.stderr, refused
        demo.stop()
        wrong = run("metadata", "convert", "lmdb", "--config", config)
        assert wrong.returncode == 1 and "lmdb is the current engine already" in wrong.stderr, wrong
        unknown = run("metadata", "convert", "berkeley", "--config", config)
        assert unknown.returncode == 2 and "there are lmdb, sqlite and fjall" in unknown.stderr, unknown
        before = "lmdb"
        for engine in ["sqlite", "fjall", "lmdb"]:
            done = run("metadata", "convert", engine, "--json", "--config", config)
            assert done.returncode == 0, done
            told = json.loads(done.stdout)
            assert (told["from"], told["to"]) == (before, engine) and told["entries"] > 20, told
            assert "copying: " not in done.stderr, done.stderr
            shutil.rmtree(told["old_files"])
            config = config_of(tmp_path, folder, engine)
            checked = run("metadata", "convert", engine, "--config", config)
            assert checked.returncode == 1 and f"{engine} is the current engine already" in checked.stderr, checked
            before = engine
        info = demo.start()
        all_is_there(info)
        fill(info)
        assert run("verify", "--deep", "--data-dir", str(folder)).returncode == 0
    finally:
        demo.kill()


def test_a_rebuilt_index_has_every_block(tmp_path):
    folder = tmp_path / "node"
    demo = Demo(folder)
    try:
        info = demo.start()
        fill(info)
        demo.stop()
        done = run("metadata", "rebuild-blocks", "--json", "--config", config_of(tmp_path, folder))
        assert done.returncode == 0, done
        told = json.loads(done.stdout)
        assert (told["blocks"], told["references"], told["missing"], told["damaged"]) == (3, 3, 0, 0), told
        info = demo.start()
        all_is_there(info)
        assert run("verify", "--deep", "--data-dir", str(folder)).returncode == 0
    finally:
        demo.kill()


def test_a_folder_without_metadata_is_refused(tmp_path):
    config = config_of(tmp_path, tmp_path / "nothing")
    for command in [["convert", "sqlite"], ["rebuild-blocks"]]:
        refused = run("metadata", *command, "--config", config)
        assert refused.returncode == 1 and "there is no metadata in" in refused.stderr, refused
    assert not (tmp_path / "nothing").exists()
