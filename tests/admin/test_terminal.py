"""The command line on a terminal: tables that fit, colours, bars. A terminal is a pair of pseudo terminals."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import urllib.error
import urllib.request

import pytest
from support import cli
from support.boto import boto_of
from support.server import binary, wait_until
from support.unchanged import Admin

ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def on_a_terminal(three, line: str, width: int = 60, height: int = 20, **env: str) -> tuple[int, str]:
    """Runs a command whose output and errors are a terminal of this size; its exit status and all that it wrote."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    known = {name: value for name, value in os.environ.items() if not name.startswith(("ARCHIPEL_", "NO_COLOR"))}
    known |= {"ARCHIPEL_ADMIN_SOCKET": three.nodes[0]["admin"], "TERM": "xterm", **env}
    process = subprocess.Popen([str(binary()), *line.split()], stdin=its, stdout=its, stderr=its, env=known)
    os.close(its)
    written = b""
    # Linux tells the end of the other side as an error.
    with contextlib.suppress(OSError):
        while part := os.read(ours, 4096):
            written += part
    os.close(ours)
    return process.wait(60), written.decode()


def shown(text: str) -> list[str]:
    """The lines that stay on the screen, and each state of a line that changes, without colours."""
    return [part for line in ESCAPES.sub("", text).split("\r\n") for part in line.split("\r")]


def test_a_table_fits_its_terminal(three):
    status, wide = on_a_terminal(three, "node list", width=250)
    assert status == 0 and "…" not in wide
    natural = max(len(line) for line in shown(wide) if "127.0.0.1" in line)
    for width in (natural - 1, natural - 5):
        status, text = on_a_terminal(three, "node list", width=width)
        assert status == 0
        assert all(len(line) <= width for line in shown(text)), text
        assert "…" in text, "nothing had to be cut"
    # Where even that is too wide, each node is a paragraph.
    for width in (80, 45):
        status, text = on_a_terminal(three, "node list", width=width)
        assert status == 0 and len(re.findall(r"(?m)^NODE +[0-9a-f]{8}", ESCAPES.sub("", text))) == 3, text
        assert all(len(line) <= width for line in shown(text)), text


def test_states_have_colours_unless_they_are_refused(three):
    _, text = on_a_terminal(three, "node list")
    assert "\x1b[32malive" in text
    for refusal in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_a_terminal(three, "node list", **refusal)[1]


@pytest.fixture
def slow_scrub(three):
    """Data that a scrub of 1 MiB a second needs some time for."""
    s3 = boto_of(three)
    s3.put_object(Bucket=three.bucket, Key="terminal", Body=os.urandom(4_000_000))


def bars(text: str) -> list[int]:
    """The percentages of the bars that were shown."""
    return [int(percent) for percent in re.findall(r"\[[#.]{24}\] +(\d+) %", text)]


def test_a_scrub_that_is_waited_for_has_a_bar(three, slow_scrub):
    status, text = on_a_terminal(three, "scrub start --rate 1 --wait", width=70)
    assert status == 0, text
    assert len(bars(text)) > 1 and max(bars(text)) < 100, text
    assert all(len(line) < 70 for line in shown(text) if bars(line)), text
    assert re.search(r"scrub +done", text), text
    # A program that reads the output gets no bars.
    done = cli.run(three, "scrub start --wait --json")
    assert (done.returncode, done.stderr) == (0, "") and not json.loads(done.stdout)["scrub"]["running"]


def test_a_scrub_that_is_stopped_did_not_end_well(three, slow_scrub):
    command = [str(binary()), "scrub", "start", "--rate", "1", "--wait", "--socket", three.nodes[0]["admin"]]
    env = {name: value for name, value in os.environ.items() if not name.startswith("ARCHIPEL_")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=env, **pipes) as waiting:
        assert wait_until(lambda: json.loads(cli.run(three, "scrub status --json").stdout)["scrub"]["running"], 30)
        assert cli.run(three, "scrub stop").returncode == 0
        out, errors = waiting.communicate(timeout=60)
    assert waiting.returncode == 1 and "the scrub was stopped" in errors, (out, errors)


def test_ctrl_c_ends_the_wait_and_not_the_work(three, slow_scrub):
    def running() -> bool:
        return json.loads(cli.run(three, "scrub status --json").stdout)["scrub"]["running"]

    env = {name: value for name, value in os.environ.items() if not name.startswith("ARCHIPEL_")}
    short = cli.run(three, "node id").stdout[:8]
    told_by = {
        "scrub start --rate 1 --wait": "archipel scrub status",
        f"operation wait scrub:{short}": f"archipel operation info scrub:{short}",
    }
    for line, look in told_by.items():
        assert cli.run(three, "scrub start --rate 1").returncode == 0
        command = [str(binary()), *line.split(), "--socket", three.nodes[0]["admin"]]
        with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as waiting:
            # The first line of progress: the command waits.
            assert waiting.stderr.readline()
            assert running()
            waiting.send_signal(signal.SIGINT)
            errors = waiting.communicate(timeout=30)[1]
        assert waiting.returncode == 130, errors
        assert "the wait was ended; " in errors and look in errors, errors
        assert running(), "the scrub was stopped"
        assert cli.run(three, "scrub stop").returncode == 0


def test_a_wait_in_the_background_of_a_script_goes_on_after_ctrl_c(three, slow_scrub):
    def running() -> bool:
        return json.loads(cli.run(three, "scrub status --json").stdout)["scrub"]["running"]

    env = {name: value for name, value in os.environ.items() if not name.startswith("ARCHIPEL_")}
    wait = [str(binary()), "scrub", "start", "--rate", "1", "--wait", "--socket", three.nodes[0]["admin"]]
    # A shell without job control starts `command &` like this.
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *wait]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as waiting:
        # The first line of progress: the command waits.
        assert waiting.stderr.readline()
        assert running()
        waiting.send_signal(signal.SIGINT)
        errors = waiting.communicate(timeout=60)[1]
    assert waiting.returncode == 0 and not running(), errors


def test_an_operation_can_be_waited_for(three, slow_scrub):
    short = cli.run(three, "node id").stdout[:8]
    assert cli.run(three, "scrub start --rate 1").returncode == 0
    status, text = on_a_terminal(three, f"operation wait scrub:{short}", width=90)
    assert status == 0, text
    assert f"scrub:{short} [" in text and bars(text), text
    assert re.search(r"state +(idle|done)", text), text


def test_an_operation_that_runs_is_cancelled(three, slow_scrub):
    short = cli.run(three, "node id").stdout[:8]
    assert cli.run(three, "scrub start --rate 1").returncode == 0
    told = cli.run(three, f"operation cancel scrub:{short}", "--json")
    assert told.returncode == 0 and json.loads(told.stdout)["id"] == f"scrub:{short}", told.stderr
    ended = cli.run(three, f"operation wait scrub:{short}", "--json")
    assert ended.returncode == 1 and "it was stopped" in ended.stderr, ended.stderr
    assert json.loads(ended.stdout)["state"] != "running"
    listed = cli.run(three, "operation list --kind scrub --state running", "--json")
    assert short not in listed.stdout
    again = cli.run(three, f"operation cancel scrub:{short}")
    assert again.returncode == 1 and "it does not run (CannotCancel)" in again.stderr


def test_quiet_shows_no_bars(three, slow_scrub):
    status, text = on_a_terminal(three, "scrub start --rate 1 --wait --quiet")
    assert status == 0 and not bars(text)


def test_uploads_are_aborted_and_snapshots_made(three):
    for line in (f"bucket uploads {three.bucket} --abort --older-than 1d", "snapshot create"):
        status, text = on_a_terminal(three, line)
        assert status == 0, text


def test_top_fits_its_terminal(three):
    # A kind of request is shown once there was one. Its count follows the answer.
    node = Admin(three.nodes[0]["admin"])
    for kind, address in (("s3", three.endpoint), ("k2v", three.k2v)):
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(address, timeout=30)
        assert wait_until(lambda: node.metric(f"archipel_{kind}_requests_total") > 0), kind
    status, text = on_a_terminal(three, "top --interval 1 --count 2", width=80, height=12)
    assert status == 0
    screens = text.split("\x1b[H\x1b[2J")[1:]
    assert len(screens) == 2 and "S3 requests" in screens[1] and "K2V requests" in screens[1], text
    for screen in screens:
        assert len(shown(screen)) <= 12 and all(len(line) <= 80 for line in shown(screen)), screen
