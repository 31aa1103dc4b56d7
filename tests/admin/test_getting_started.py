"""From nothing to three nodes in three zones with a bucket, a user and a policy, by the command line and by the SDK.

docs/getting-started.md shows what these tests run, and what is answered. REWRITE=1 writes it into the page.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from support.boto import boto
from support.expect import refusal
from support.server import binary, wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/getting-started.md"
EXAMPLE = ROOT / "sdk/python/examples/from_nothing.py"

# As the page writes the nodes, in the order in which they are listed: the one that is asked, then by zone.
SHORTS = {"paris": "0badcafe", "oslo": "12345678", "rome": "9abcdef0"}
HOSTS = {"paris": "a.example.net:3901", "oslo": "b.example.net:3901", "rome": "c.example.net:3901"}


def block(name: str, made: str) -> None:
    """Compares a block of the page, which stands between two comments."""
    text = PAGE.read_text()
    begin, end = f"<!-- {name}: a test writes this -->\n", "<!-- end -->\n"
    head, _, rest = text.partition(begin)
    shown, _, tail = rest.partition(end)
    assert rest and tail, f"the page lacks {begin.strip()}"
    if os.environ.get("REWRITE"):
        PAGE.write_text(head + begin + made + end + tail)
        shown = made
    assert shown == made, "fix: REWRITE=1 cargo xtask clients -k getting_started"


class Transcript:
    """Commands and their answers, with the names of the page instead of those of this run."""

    def __init__(self, machines: list, folder: Path):
        self.machines, self.folder = machines, folder
        self.lines: list[str] = []
        self.names: dict[str, str] = {}
        self.env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(folder)}

    def archipel(self, line: str, at: int = 0, until: str = "") -> None:
        """Runs a command as the page shows it: its answer before the first line that begins with `until`."""
        words = self._real(line).split()
        done = subprocess.run(
            [str(binary()), *words, "--data-dir", str(self.machines[at].data)],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=self.folder,
        )
        assert done.returncode == 0, (line, done.stderr)
        answer = done.stdout.splitlines()
        if until:
            answer = [*itertools.takewhile(lambda one: not one.startswith(until), answer), "..."]
        self._show("archipel " + line, "\n".join(answer))

    def aws(self, line: str, status: int = 0) -> None:
        """Runs the AWS CLI, which may be refused."""
        done = subprocess.run(
            ["aws", *line.split()], capture_output=True, text=True, timeout=120, cwd=self.folder, env=self.env
        )
        assert done.returncode == status, (line, done.stdout, done.stderr)
        self._show("aws " + line, done.stdout + done.stderr)

    def shown(self) -> str:
        text, self.lines = "\n".join(self.lines), []
        return f"```console\n{text}\n```\n"

    def _real(self, line: str) -> str:
        for real, name in self.names.items():
            line = line.replace(name, real)
        return line

    def _show(self, command: str, answer: str) -> None:
        for real, name in self.names.items():
            answer = answer.replace(real, name)
        answer = re.sub(r"\b\d+ s ago", "1 s ago", answer)
        answer = re.sub(r"(?m)^(age +)\d+ s$", r"\g<1>1 s", answer)
        answer = re.sub(r"\(\d+\.\d [GT]iB before\)", "(400.0 GiB before)", answer)
        answer = re.sub(r"\b\d+\.\d ms", "8.0 ms", answer)
        # Of a machine whose disk is smaller than those of the page.
        answer = re.sub(r"(?m)^  warning: node \w+ gets data for .+\n", "", answer)
        self.lines += [f"$ {command}", *aligned(in_order([one.rstrip() for one in answer.strip("\n").splitlines()]))]


def in_order(lines: list[str]) -> list[str]:
    """Lines about a node each in the order of the page. They are sorted by ids, which are other ones each time."""
    made: list[str] = []
    for is_of_node, some in itertools.groupby(lines, lambda line: re.match(r"  ([+~] )?node \w+", line) is not None):
        names = list(SHORTS.values())
        key = (lambda line: names.index(re.search(r"node (\w+)", line)[1])) if is_of_node else (lambda line: 0)
        made += sorted(some, key=key)
    return made


def aligned(lines: list[str]) -> list[str]:
    """Tables with columns as wide as their cells are now."""
    made: list[str] = []
    while lines:
        heading = re.split(r" {2,}", lines[0])
        rows = [heading]
        if len(heading) > 2 and lines[0].upper() == lines[0]:
            for line in lines[1:]:
                cells = re.split(r" {2,}", line)
                if len(cells) != len(heading):
                    break
                rows.append(cells)
            widths = [max(len(row[at]) for row in rows) for at in range(len(heading))]
            made += ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths)).rstrip() for row in rows]
        else:
            made.append(lines[0])
        lines = lines[len(rows) :]
    return made


def client(server, key: str, secret: str):
    return boto("s3", f"http://127.0.0.1:{server.s3}", key, secret)


def may_read_and_add(s3) -> None:
    """Checks that its user may do what the policy of the page says, and no more."""
    s3.put_object(Bucket="photos", Key="a", Body=b"hello")
    assert s3.get_object(Bucket="photos", Key="a")["Body"].read() == b"hello"
    assert [one["Key"] for one in s3.list_objects_v2(Bucket="photos", Prefix="a")["Contents"]] == ["a"]
    assert refusal(s3.delete_object, Bucket="photos", Key="a") == "AccessDenied"
    assert refusal(s3.delete_bucket, Bucket="photos") == "AccessDenied"
    assert refusal(s3.create_bucket, Bucket="letters") == "AccessDenied"


def all_know_each_other(machines: list) -> None:
    def known(server) -> bool:
        nodes = server.cli_json("node", "list")
        # The round trip of each is measured after it is known.
        return len(nodes) == 3 and all(node.get("round_trip_ms") or node["state"] == "self" for node in nodes)

    assert wait_until(lambda: all(known(server) for server in machines), 60)


def zones_and_replicas(server) -> tuple[set[str], int]:
    layout = server.cli_json("layout", "wait")
    return {node["zone"] for node in layout["nodes"]}, layout["redundancy"]["replicas"]


def policy_of_the_page() -> str:
    """The policy of the example, as the file that the page shows."""
    scope: dict = {}
    text = EXAMPLE.read_text()
    exec(text[text.index("POLICY = ") : text.index("def main")], scope)
    return json.dumps(scope["POLICY"], indent=2) + "\n"


def test_by_the_command_line(machines, tmp_path):
    first, second, third = machines
    all_know_each_other(machines)
    told = Transcript(machines, tmp_path)
    for node in first.cli_json("node", "list"):
        told.names[node["short"]] = SHORTS[node["zone"]]
    # The size of this machine's disk.
    told.names[re.search(r"\d+\.\d [GT]iB", first.cli("node", "list"))[0]] = "400.0 GiB"
    for server, host in zip(machines, HOSTS.values()):
        told.names[f"127.0.0.1:{server.cluster}"] = host

    told.archipel("node list")
    told.archipel("layout assign 0badcafe 12345678 9abcdef0 --capacity 300GiB", until="Effect")
    told.archipel("layout redundancy --replicas 3")
    staged = first.cli_json("layout", "show")["staged"]
    told.archipel(f"layout apply --version {staged['version']} --revision {staged['revision']} --wait")
    nodes = told.shown()
    assert zones_and_replicas(second) == ({"paris", "oslo", "rome"}, 3)

    policy = policy_of_the_page()
    (tmp_path / "photos-writers.json").write_text(policy)
    told.archipel("bucket create photos", until="id")
    told.archipel("policy create photos-writers photos-writers.json", at=1, until="version")
    told.archipel("user create alice --policy photos-writers", at=2)
    # The output of the command that is shown holds the secret: another one makes a key to use.
    key = first.cli_json("user", "key", "alice")
    answer = first.cli("user", "key", "alice")
    pair = re.search(r"access key +(\S+)\nsecret key +(\S+)", answer)
    told.names |= {pair[1]: "AKEXAMPLE", pair[2]: "SECRETEXAMPLE"}
    told._show("archipel user key alice", answer)
    access = told.shown()

    (tmp_path / "notes.txt").write_text("hello\n")
    told.env |= {
        "AWS_ACCESS_KEY_ID": key["id"],
        "AWS_SECRET_ACCESS_KEY": key["secret"],
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{third.s3}",
    }
    told.aws("s3 cp notes.txt s3://photos/ --no-progress")
    told.aws("s3 cp s3://photos/notes.txt -")
    told.aws("s3 rm s3://photos/notes.txt", status=1)
    use = told.shown()
    may_read_and_add(client(second, key["id"], key["secret"]))
    tokens_have_scopes(first, third)

    block("nodes", nodes)
    block("policy", f"```json\n{policy}```\n")
    block("access", access)
    block("use", use)


@pytest.mark.long
def test_by_the_sdk(machines, sdk, tmp_path):
    first, _, third = machines
    all_know_each_other(machines)
    # Not in the other test: each of the two is an epoch, and that test compares the epoch with the page's.
    a_node_is_admitted_and_dismissed(first)
    token = first.cli_json("token", "create", "setup", "--scope", "all:write", "--expires-in", "1d")["secret"]
    folder = Path(sdk.__file__).parents[1]
    program = [sys.executable, str(EXAMPLE), f"http://127.0.0.1:{first.admin}", token]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, env={"PYTHONPATH": str(folder)})
    assert done.returncode == 0, done.stderr
    key = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert zones_and_replicas(third) == ({"paris", "oslo", "rome"}, 3)
    may_read_and_add(client(third, key["AWS_ACCESS_KEY_ID"], key["AWS_SECRET_ACCESS_KEY"]))
    block("sdk", f"```python\n{EXAMPLE.read_text()}```\n")


def a_node_is_admitted_and_dismissed(first) -> None:
    other = next(node["short"] for node in first.cli_json("node", "list") if not node["in_layout"])
    for command, admitted in (("admit", True), ("dismiss --dry-run", True), ("dismiss", False)):
        first.cli("node", *command.split(), other, "--json")
        (node,) = (node for node in first.cli_json("node", "list") if node["short"] == other)
        assert node["admitted"] is admitted


def tokens_have_scopes(first, third) -> None:
    token = first.cli_json("token", "create", "viewer", "--scope", "buckets:read")["secret"]
    assert ask(third, "/v1/buckets/photos", token) == 200
    assert ask(third, "/v1/keys", token) == 403
    assert ask(third, "/v1/buckets/photos", token + "A") == 401
    assert ask(third, "/v1/keys", "the-token-of-this-test") == 200
    # The command line uses a token, too, and can show which.
    command = [str(binary()), "token", "current", "--json", "--admin", f"http://127.0.0.1:{third.admin}"]
    env = {**os.environ, "ARCHIPEL_ADMIN_TOKEN": token}
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=env).stdout
    assert json.loads(shown)["scopes"] == ["buckets:read"]


def ask(server, path: str, token: str) -> int:
    """The status of a request over TCP."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.admin}{path}", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
