"""`archipel init` as root, in a folder in which another user has put links."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.server import binary

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away"),
]

OWNER = (3900, 3901)


def init(folder: Path) -> subprocess.CompletedProcess:
    """Runs it with an access key whose secret is there already."""
    command = [str(binary()), "init", "--config", str(folder / "archipel.toml"), "--non-interactive"]
    command += ["--data-dir", str(folder), "--access-key", "AKcopied"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def link_hard(link: Path, target: Path) -> None:
    link.hardlink_to(target)


def link_soft(link: Path, target: Path) -> None:
    link.symlink_to(target)


@pytest.mark.parametrize("link", [link_hard, link_soft])
def test_file_of_root_behind_a_link_stays_with_root(tmp_path, link):
    private = tmp_path / "private"
    private.write_text("0123456789012345678901234567890123456789\n")
    private.chmod(0o600)
    folder = tmp_path / "folder"
    folder.mkdir()
    os.chown(folder, *OWNER)
    secret = folder / "first-secret-key"
    link(secret, private)
    refused = init(folder)
    assert refused.returncode == 1 and f"{secret} is a link" in refused.stderr, refused.stderr
    assert private.stat().st_uid == 0
    assert [file.name for file in folder.iterdir()] == ["first-secret-key"]
    # A copy is given away.
    text = private.read_text()
    secret.unlink()
    secret.write_text(text)
    secret.chmod(0o600)
    done = init(folder)
    assert done.returncode == 0, done.stderr
    assert (secret.stat().st_uid, secret.stat().st_gid) == OWNER
    assert private.stat().st_uid == 0
