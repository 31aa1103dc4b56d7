"""The assumptions of the tests about processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support import server


def started() -> subprocess.Popen:
    """A process in a group of its own that waits for its standard input to end."""
    command = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout.readline()
    return process


def test_a_group_lives_until_its_last_process_has_ended():
    with started() as process:
        assert server.group_lives(process.pid)
        process.stdin.close()
        process.wait()
        assert not server.group_lives(process.pid)


@pytest.mark.parametrize("look", ["listdir", "scandir"])
def test_a_process_that_ends_while_its_threads_are_listed_is_no_error(monkeypatch, look):
    list_folder = getattr(os, look)
    with started() as process:

        def list_too_late(folder):
            if str(folder) == f"/proc/{process.pid}/task" and process.poll() is None:
                process.kill()
                process.wait()
            return list_folder(folder)

        monkeypatch.setattr(os, look, list_too_late)
        lived = server.group_lives(process.pid)
        monkeypatch.undo()
        assert lived == (process.poll() is None), "it was listed too late, or not by this function at all"
        process.kill()
