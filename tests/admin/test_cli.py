"""The command line against three nodes: what it prints as JSON, its errors and exit statuses, from nothing to a bucket."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import boto3
import pytest
from support import cli
from support.server import Server, free_port, wait_until

GOLDEN = Path(__file__).resolve().parent / "golden"

READS = (
    "access explain anonymous s3:GetObject demo/a",
    "bucket list",
    "bucket info demo",
    "bucket alias list demo",
    "bucket lifecycle set demo -",
    "bucket lifecycle show demo",
    "bucket lock show demo",
    "bucket tag set demo team=storage cost=12",
    "bucket tag list demo",
    "bucket quota set demo --size 1GB --objects 100",
    "bucket quota show demo",
    "bucket versioning show demo",
    "bucket uploads demo",
    "bucket uploads demo --abort --older-than 1d --dry-run",
    "key list",
    "layout show",
    "layout history",
    "event targets",
    "lifecycle status",
    "policy list",
    "policy show AdministratorAccess",
    "node id",
    "node list",
    "scrub status",
    "snapshot list",
    "status",
    "token list",
    "verify --quiet",
)

# What these say depends on what goes on at the moment.
LIVELY = ("operation list", "operation info verification", "repair", "top --count 1")

ERRORS = (
    "bucket info none",
    "bucket create No",
    "bucket object demo none",
    "bucket uploads demo --abort",
    "bucket create demo",
    "bucket lifecycle set demo none.json",
    "bucket lock set demo",
    "group delete none",
    "policy create p none.json",
    "policy delete AdministratorAccess",
    "role info none",
    "user policy show none p",
    "key expire AKNONE soon",
    "bucket lock set demo --mode governance",
    "bucket lock set demo --mode strict --days 1",
    "bucket quota set demo",
    "bucket quota set demo --size much",
    "bucket tag set demo team",
    "bucket tag set demo team=!",
    "key info AKNONE",
    "key allow AKNONE --bucket demo",
    "layout apply --version 99 --revision 0",
    "layout remove ffffffff",
    "node join nowhere",
    "operation info none",
    "token create t --scope cats:read",
    "token create t",
    "token create t --scope all:read --expires-in soon",
    "token revoke NONE",
    "website show demo",
    "dance",
)


# Of "bucket lifecycle set demo -".
RULES = {
    "rules": [
        {"id": "logs", "prefix": "logs/", "expire_days": 30, "abort_days": 7},
        {"id": "old", "larger_than": 4096, "noncurrent_days": 30, "noncurrent_keep": 3, "disabled": True},
        {"id": "markers", "expire_markers": True},
    ]
}


def run(three, line: str, *more: str) -> subprocess.CompletedProcess:
    return cli.run(three, line, *more, given=json.dumps(RULES) if line.endswith(" -") else None)


def merged(values: list[dict]) -> dict:
    """One object with the names of all, so that it does not matter which comes first."""
    return {name: value for one in values for name, value in one.items()}


def shape(value, indent: str = "  ") -> str:
    """The names of values, without the values."""
    if isinstance(value, list):
        objects = [one for one in value if isinstance(one, dict)]
        return "list of " + shape(merged(objects), indent) if objects else "list"
    if isinstance(value, dict):
        return "object" + "".join(f"\n{indent}{name}: {shape(of, indent + '  ')}" for name, of in sorted(value.items()))
    return "value"


def compare(name: str, made: str) -> None:
    path = GOLDEN / name
    if os.environ.get("REWRITE"):
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(made)
    assert made == path.read_text(), f"{path} differs; fix: REWRITE=1 cargo xtask clients -k test_cli"


def test_json_has_the_shape_that_it_had(three):
    # What is only there at times is there now: a finished verification, a token. A verification leaves out what is
    # not the same everywhere yet.
    assert wait_until(lambda: run(three, "verify").returncode == 0, 60)
    run(three, "token create reader --scope all:read --expires-in 1d")
    made = ""
    for line in READS:
        done = run(three, line, "--json")
        assert done.returncode == 0, (line, done.stderr)
        assert done.stderr == "", line
        made += f"archipel {line} --json\n  {shape(json.loads(done.stdout), '    ')}\n\n"
    compare("json.txt", made)


@pytest.mark.parametrize("line", LIVELY)
def test_what_goes_on_is_json_too(three, line):
    done = run(three, line, "--json", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)


def test_errors_say_what_they_said(three):
    made = ""
    for line in ERRORS:
        done = run(three, line)
        assert done.returncode != 0 and done.stdout == "", line
        text = re.sub(r"\n\nFor more information.*", "", done.stderr, flags=re.S).strip()
        # Other tests change the layout of these nodes.
        text = re.sub(r"next version is \d+", "next version is N", text)
        made += f"archipel {line}\n  exit status {done.returncode}\n  " + text.replace("\n", "\n  ") + "\n\n"
    made = "\n".join(line.rstrip() for line in made.splitlines()) + "\n"
    compare("errors.txt", made)


def test_settings_of_a_bucket_are_shown_for_people(three):
    assert run(three, "bucket create cli-settings").returncode == 0
    assert "never enabled" in run(three, "bucket versioning show cli-settings").stdout
    assert "off" in run(three, "bucket lock show cli-settings").stdout
    assert run(three, "bucket quota set cli-settings --size 1GiB --objects 5").returncode == 0
    assert run(three, "bucket quota set cli-settings --objects none").returncode == 0
    shown = run(three, "bucket quota show cli-settings").stdout
    assert re.search(r"objects +0\n", shown) and re.search(r"size +0 B of 1\.0 GiB", shown), shown
    rows = run(three, "bucket tag set cli-settings team=storage cost=").stdout.splitlines()
    assert [row.split() for row in rows] == [["TAG", "VALUE"], ["team", "storage"], ["cost"]]
    assert run(three, "bucket lifecycle set cli-settings -").returncode == 0
    shown = run(three, "bucket lifecycle show cli-settings").stdout
    assert re.search(r"logs +on +logs/\* +expire after 30 d, abort uploads after 7 d", shown), shown
    assert re.search(r"old +off +> 4\.0 KiB +remove versions but 3 after 30 d", shown), shown
    # What is printed as JSON can be set again.
    rules = run(three, "bucket lifecycle show cli-settings", "--json").stdout
    assert [rule["id"] for rule in json.loads(rules)["rules"]] == ["logs", "old", "markers"]
    assert run(three, "bucket lifecycle delete cli-settings").returncode == 0
    assert "logs" not in run(three, "bucket lifecycle show cli-settings").stdout
    assert run(three, "bucket delete cli-settings").returncode == 0


def test_quiet_prints_nothing_but_results(three):
    assert run(three, "bucket create cli-quiet", "--quiet").returncode == 0
    deleted = run(three, "bucket delete cli-quiet", "--quiet")
    assert (deleted.returncode, deleted.stdout, deleted.stderr) == (0, "", "")


def test_output_that_is_no_terminal_has_no_colours_and_is_whole(three):
    listed = run(three, "node list").stdout
    assert "\x1b" not in listed and "…" not in listed
    # The addresses are the widest column, and the last.
    assert len(re.findall(r"127\.0\.0\.1:\d+", listed)) >= 3


@pytest.fixture
def machines(tmp_path):
    """Three configured servers, of which the last two join the first."""
    secret = tmp_path / "secret"
    secret.write_text("a-secret-of-all-nodes-of-this-test\n")
    secret.chmod(0o600)
    token = tmp_path / "token"
    token.write_text("the-token-of-this-test\n")
    token.chmod(0o600)
    servers = []
    for zone in ("paris", "oslo", "rome"):
        folder = tmp_path / zone
        folder.mkdir()
        server = Server(folder)
        server.s3, server.cluster, server.admin = free_port(), free_port(), free_port()
        join = f'join = ["127.0.0.1:{servers[0].cluster}"]\n' if servers else ""
        (folder / "archipel.toml").write_text(
            f'data_dir = "{server.data}"\n'
            f'[s3]\nlisten = "127.0.0.1:{server.s3}"\n'
            f'[cluster]\nlisten = "127.0.0.1:{server.cluster}"\nsecret_file = "{secret}"\nzone = "{zone}"\n{join}'
            f'[admin]\nlisten = "127.0.0.1:{server.admin}"\ntoken_file = "{token}"\n'
        )
        servers.append(server)
    yield servers
    for server in servers:
        server.stop()


def test_from_nothing_to_three_nodes_with_a_bucket_a_key_and_a_token(machines):
    first, second, third = machines
    for server in machines:
        server.start(in_layout=server is first)
    assert wait_until(lambda: len(first.cli_json("node", "list")) == 3, 60)
    ids = [node["short"] for node in first.cli_json("node", "list")]
    first.cli("layout", "assign", *ids, "--capacity", "10GB")
    first.cli("layout", "redundancy", "--replicas", "3")
    staged = first.cli_json("layout", "show")["staged"]
    version, revision = str(staged["version"]), str(staged["revision"])
    first.cli("layout", "apply", "--version", version, "--revision", revision, "--wait")
    layout = second.cli_json("layout", "wait")
    assert (layout["redundancy"]["replicas"], {node["zone"] for node in layout["nodes"]}) == (
        3,
        {"paris", "oslo", "rome"},
    )
    key = first.cli_json("key", "create", "laptop")
    first.cli("bucket", "create", "photos")
    second.cli("key", "allow", key["id"], "--bucket", "photos", "--read", "--write")
    s3 = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{third.s3}",
        region_name="us-east-1",
        aws_access_key_id=key["id"],
        aws_secret_access_key=key["secret"],
    )
    s3.put_object(Bucket="photos", Key="notes.txt", Body=b"hello")
    assert first.cli_json("bucket", "info", "photos")["objects"] == 1

    token = first.cli_json("token", "create", "viewer", "--scope", "buckets:read")["secret"]
    assert ask(third, "/v1/buckets/photos", token) == 200
    assert ask(third, "/v1/keys", token) == 403
    assert ask(third, "/v1/buckets/photos", token + "A") == 401
    assert ask(third, "/v1/keys", "the-token-of-this-test") == 200


def ask(server, path: str, token: str) -> int:
    """The status of a request over TCP."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.admin}{path}", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
