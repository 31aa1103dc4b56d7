"""Running command-line clients, on folders of files with odd names."""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.data import KIB, MIB, content

NAMES = ["plain.txt", "with space.txt", "ünïcode/日本.txt", "a+b%20c&d.txt", "deep/er/and/deeper.bin", "empty"]


@pytest.fixture
def files(tmp_path) -> Path:
    """A folder with odd names, an empty file, and one of 20 MiB. All are a minute old: the times of objects have whole
    seconds, so a file of the second of its upload looks newer than the object."""
    root = tmp_path / "files"
    for number, name in enumerate(NAMES):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if name == "empty" else content(number * 1000 + 1, name))
    (root / "large.bin").write_bytes(content(20 * MIB + 5, "large"))
    (root / "block.bin").write_bytes(content(MIB + KIB, "block"))
    a_minute_ago = time.time() - 60
    for path in root.rglob("*"):
        os.utime(path, (a_minute_ago, a_minute_ago))
    return root


def tool(name: str) -> str:
    """A client beside this Python, or on the PATH; its absence is an error, not a skip."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    assert found, f"{name} is not installed: apt-get install rclone restic; tests/requirements.txt for the others"
    return found


def neutral_environment() -> dict[str, str]:
    """This process's environment without what would steer a client elsewhere (a proxy, other credentials)."""
    drop = ("AWS_", "RCLONE_", "RESTIC_", "MC_")
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(drop) and not name.lower().endswith("_proxy")
    }


def run(command: list[str], env=None, cwd=None, check=True, stdin: bytes | None = None, timeout=300):
    """Runs a client; its output is in the failure if it fails."""
    done = subprocess.run(
        [tool(command[0]), *map(str, command[1:])],
        env={**neutral_environment(), **(env or {})},
        cwd=cwd,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        timeout=timeout,
    )
    if check:
        assert done.returncode == 0, f"{command} → {done.returncode}\n{done.stdout.decode()}\n{done.stderr.decode()}"
    return done


def same_tree(one: Path, other: Path) -> None:
    """Both folders hold the same names and bytes."""
    names = sorted(str(p.relative_to(one)) for p in one.rglob("*") if p.is_file())
    assert names == sorted(str(p.relative_to(other)) for p in other.rglob("*") if p.is_file())
    _, mismatch, errors = filecmp.cmpfiles(one, other, names, shallow=False)
    assert not mismatch and not errors, (mismatch, errors)


@pytest.fixture
def aws_env(server, tmp_path) -> dict[str, str]:
    """The environment that AWS tools read."""
    config = tmp_path / "aws-config"
    # Else `aws s3 presign` makes URLs of the old signature version 2 for us-east-1.
    config.write_text("[default]\ns3 =\n    signature_version = s3v4\n")
    return {
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_DEFAULT_REGION": server.region,
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_CONFIG_FILE": str(config),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "no-credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_PAGER": "",
    }
