"""Leaving (docs/leaving.md): rclone copies everything out, and proves it."""

from __future__ import annotations

import subprocess

import pytest
from support.data import KIB, MIB, content

CONFIG = """[archipel]
type = s3
provider = Other
endpoint = {server.endpoint}
region = {server.region}
access_key_id = {server.access_key}
secret_access_key = {server.secret_key}
"""
OBJECTS = {
    "plain.txt": b"a text\n",
    "empty": b"",
    "block.bin": content(3 * MIB, "leaving"),
    "folder/deep/er/é+ & %41.bin": content(20 * KIB, "leaving name"),
    "folder/ends with space .txt": b"x",
}


@pytest.fixture
def rclone(server, tmp_path):
    """Runs rclone with the configuration of the page."""
    config = tmp_path / "rclone.conf"
    config.write_text(CONFIG.format(server=server))

    def rclone(*arguments, fails: bool = False) -> str:
        command = ["rclone", "--config", str(config), "--retries", "1", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert (done.returncode != 0) == fails, done.stderr
        return done.stdout + done.stderr

    return rclone


def files_below(folder) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_everything_comes_out_and_is_verified(rclone, bucket, s3, tmp_path):
    for key, body in OBJECTS.items():
        s3.put_object(Bucket=bucket, Key=key, Body=body, Metadata={"note": "kept"})
    out = tmp_path / "leaving"
    rclone("copy", f"archipel:{bucket}", out, "--metadata")
    assert files_below(out) == OBJECTS
    # Objects change after the first copy.
    s3.put_object(Bucket=bucket, Key="plain.txt", Body=b"another text\n")
    s3.delete_object(Bucket=bucket, Key="empty")
    rclone("check", f"archipel:{bucket}", out, "--download", fails=True)
    rclone("sync", f"archipel:{bucket}", out, "--metadata")
    rclone("check", f"archipel:{bucket}", out, "--download")
    left = {**OBJECTS, "plain.txt": b"another text\n"}
    del left["empty"]
    assert files_below(out) == left
    # The check notices one byte.
    (out / "block.bin").write_bytes(OBJECTS["block.bin"][:-1] + b"?")
    rclone("check", f"archipel:{bucket}", out, "--download", fails=True)


def test_old_versions_come_out_under_names_with_their_time(rclone, bucket, s3, tmp_path):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for body in (b"first", b"second"):
        s3.put_object(Bucket=bucket, Key="notes.txt", Body=body)
    out = tmp_path / "versions"
    rclone("copy", "--s3-versions", f"archipel:{bucket}", out)
    found = files_below(out)
    assert found.pop("notes.txt") == b"second"
    ((name, body),) = found.items()
    assert name.startswith("notes-v") and body == b"first"
