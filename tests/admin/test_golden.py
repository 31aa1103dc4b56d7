"""Golden files of the command line: what every command prints as JSON, and its errors, against three nodes."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from support.boto import boto_of
from support.server import Server, binary, free_port, wait_until

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).resolve().parent / "golden"
HELP = ROOT / "crates/archipel/testdata/help.txt"

# Commands that have --json and are not among the scripts below, with the reason.
NOT_IN_THE_SCRIPT = {
    "demo": "it runs until it is stopped; every test here reads what it prints as JSON",
    "operation cancel": "it needs an operation that runs: test_terminal.py",
    "token current": "it needs a token instead of the socket: test_getting_started.py",
    "node dismiss": "it needs a node that was admitted and is in no layout: test_getting_started.py",
    "layout remove-dead": "it needs a node that is lost during a change: tests/cluster/test_remove_dead.py",
}

# The names that lines tell and that later lines use.
KEPT = {
    "key create": lambda told: {"key": told["id"]},
    "user key": lambda told: {"user_key": told["id"]},
    "k2v read": lambda told: {"seen": told["token"]},
    "token create": lambda told: {"token": told["id"]},
    "node list": lambda told: other_node(told),
    "layout assign": lambda told: {name: told["staged"][name] for name in ("version", "revision")},
}

# The output of these depends on what goes on at the moment, so types are left out, and what is in lists.
LIVELY = (
    "anti-entropy start",
    "audit",
    "lifecycle start",
    "lifecycle status",
    "node info",
    "operation list",
    "repair",
    "repair blocks",
    "scrub start",
    "scrub status",
    "scrub stop",
    "status",
    "top",
    "verify",
)

RULES = {
    "rules": [
        {"id": "logs", "prefix": "logs/", "expire_days": 30, "abort_days": 7},
        {"id": "old", "larger_than": 4096, "noncurrent_days": 30, "noncurrent_keep": 3, "disabled": True},
        {"id": "markers", "expire_markers": True},
    ]
}
ALLOW = {"Effect": "Allow", "Action": "s3:GetObject"}
FILES = {
    "policy": {"Version": "2012-10-17", "Statement": [{**ALLOW, "Resource": "arn:aws:s3:::golden/*"}]},
    "bucket_policy": {
        "Version": "2012-10-17",
        "Statement": [{**ALLOW, "Principal": {"AWS": "{key}"}, "Resource": "arn:aws:s3:::golden/*"}],
    },
    "trust": {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}],
    },
    "notifications": {
        "rules": [{"id": "new", "target": "hook", "events": ["s3:ObjectCreated:*"], "prefix": "a/", "suffix": ".jpg"}],
    },
    "notifications_to_none": {"rules": [{"target": "none", "events": ["s3:ObjectCreated:*"]}]},
    "cors": {
        "rules": [
            {
                "id": "app",
                "origins": ["https://*.example.com"],
                "methods": ["GET", "PUT"],
                "headers": ["*"],
                "expose_headers": ["ETag"],
                "max_age_seconds": 60,
            },
        ]
    },
    "routing": {
        "rules": [{"key_prefix": "old/", "error_status": 404, "status": 302, "replace_prefix": "new/"}],
    },
    "broken": {"Version": "2012-10-17", "Statement": [{"Effect": "Perhaps"}]},
}


def lines(name: str) -> list[str]:
    """The commands of a file beside the golden ones."""
    return [line for line in (GOLDEN / name).read_text().splitlines() if not line.startswith("#")]


SCRIPT, WITHOUT_A_SERVER, ERRORS = lines("script.txt"), lines("script-without-a-server.txt"), lines("failing.txt")


@functools.cache
def commands() -> dict[str, str]:
    """The help of every command that has no commands below it, and of `repair`, which also works alone."""
    parts = [part.split("\n", 1) for part in HELP.read_text().split("=== ")[1:]]
    found = {name.strip().removeprefix("archipel").strip(): text for name, text in parts}
    return {name: text for name, text in found.items() if "\nCommands:" not in text or name == "repair"}


def command_of(line: str) -> str | None:
    """The command of a line: the longest that it begins with."""
    words = line.split()
    names = (" ".join(words[:count]) for count in range(len(words), 0, -1))
    return next((name for name in names if name in commands()), None)


def test_every_command_is_in_the_golden_files():
    with_json = {name for name, text in commands().items() if "--json" in text}
    scripted = {command_of(line) for line in SCRIPT + WITHOUT_A_SERVER}
    assert with_json - scripted - set(NOT_IN_THE_SCRIPT) == set()
    assert set(NOT_IN_THE_SCRIPT) <= with_json - scripted, "no longer true"
    assert set(commands()) - {command_of(line) for line in ERRORS} == set()
    without = {"server", "completions", "man", "config example"}
    assert set(commands()) - with_json == without, "a command without --json"


@pytest.fixture
def files(three, tmp_path):
    """The files that lines name."""
    made = {}
    for name, document in FILES.items():
        made[name] = tmp_path / f"{name}.json"
        made[name].write_text(json.dumps(document).replace("{key}", three.access_key))
    made["secret"] = tmp_path / "secret"
    made["secret"].write_text("a-secret-of-a-key-that-is-imported-here\n")
    made["secret"].chmod(0o600)
    return made


def run(three, line: str, names: dict, folder: Path) -> subprocess.CompletedProcess:
    words = [word.format(**names) for word in line.split()]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ARCHIPEL_", "AWS_"))}
    env |= {"ARCHIPEL_ADMIN_SOCKET": three.nodes[0]["admin"], "ARCHIPEL_K2V_URL": three.k2v}
    env |= {"AWS_ACCESS_KEY_ID": three.access_key, "AWS_SECRET_ACCESS_KEY": three.secret_key}
    env |= {"AWS_DEFAULT_REGION": three.region}
    given = json.dumps(RULES) if words[-1] == "-" or words[-2:] == ["-", "--json"] else None
    command = [str(binary()), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, input=given, cwd=folder)


def other_node(nodes: list[dict]) -> dict:
    node = next(node for node in nodes if node["state"] != "self")
    # As much as it has, and a little more: nothing moves.
    capacity = f"{node['capacity_bytes'] // 1_000_000 + 1}MB"
    return {"node": node["short"], "address": node["addresses"][0], "capacity": capacity}


def kind(values: list, indent: str) -> str:
    """The types of values, and the names of their parts: the same for every run."""
    known = {
        type(None): "null",
        bool: "boolean",
        int: "number",
        float: "number",
        str: "string",
    }
    kinds = {known[type(value)] for value in values if type(value) in known}
    told = sorted(kinds - {"null"})
    lists = [one for value in values if isinstance(value, list) for one in value]
    if any(isinstance(value, list) for value in values):
        told.append("list of " + kind(lists, indent) if lists else "list")
    objects = [value for value in values if isinstance(value, dict)]
    if objects:
        names = sorted({name for one in objects for name in one})
        parts = {name: [one[name] for one in objects if name in one] for name in names}
        told.append("object" + "".join(f"\n{indent}{name}: {kind(of, indent + '  ')}" for name, of in parts.items()))
    return " or ".join(told + sorted(kinds & {"null"}))


def names_only(value, indent: str) -> str:
    """The names that are always there."""
    if isinstance(value, list):
        objects = [one for one in value if isinstance(one, dict)]
        always = set.intersection(*(set(one) for one in objects)) if objects else set()
        return "list" + "".join(f"\n{indent}{name}" for name in sorted(always))
    if isinstance(value, dict):
        inner = {name: "list" if isinstance(of, list) else names_only(of, indent + "  ") for name, of in value.items()}
        return "object" + "".join(f"\n{indent}{name}: {of}" for name, of in sorted(inner.items()))
    return "value"


def shape(line: str, text: str) -> str:
    if not text:
        return "nothing"
    value = json.loads(text)
    if command_of(line) in LIVELY:
        return names_only(value, "    ")
    if isinstance(value, list):
        # Other tests make things, too.
        own = [one for one in value if str(one.get("name", "")).startswith("gold")]
        value = own or value
    return kind([value], "    ")


def compare(name: str, made: str) -> None:
    path = GOLDEN / name
    made = "\n".join(line.rstrip() for line in made.splitlines()) + "\n"
    if os.environ.get("REWRITE"):
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(made)
    assert made == path.read_text(), f"{path} differs; fix: REWRITE=1 cargo xtask clients -k test_golden"


@pytest.fixture
def stopped(tmp_path):
    """A stopped server without a cluster, which has a snapshot."""
    server = Server(tmp_path / "lone")
    server.folder.mkdir()
    file = server.folder / "archipel.toml"
    file.write_text(f'data_dir = "{server.data}"\n[s3]\nlisten = "127.0.0.1:{free_port()}"\n')
    server.start()
    try:
        made = server.cli_json("snapshot", "create")
    finally:
        server.stop()
    return {"lone": file, "snapshot": made["name"], "new": tmp_path / "new"}


def test_json_has_the_shape_that_it_had(three, files, stopped, tmp_path):
    # A finished verification, which is only there at times, is there now. It leaves out what is not the same everywhere yet.
    assert wait_until(lambda: run(three, "verify", {}, tmp_path).returncode == 0, 60)
    boto_of(three).put_object(Bucket="demo", Key="golden-object", Body=b"hello", Metadata={"a": "b"}, Tagging="c=d")
    made = ""
    names = {**files, **stopped}
    script = [f"{line} --json" for line in SCRIPT] + WITHOUT_A_SERVER
    for line in script:
        done = run(three, line, names, tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), line
        made += f"archipel {line}\n  {shape(line, done.stdout)}\n\n"
        if keep := KEPT.get(command_of(line)):
            names |= keep(json.loads(done.stdout))
    compare("json.txt", made)


def test_errors_say_what_they_said(three, files, tmp_path):
    made = ""
    for line in ERRORS:
        told = run(three, line, files, tmp_path)
        assert told.returncode != 0 and told.stdout == "", line
        assert told.stderr.startswith("error: "), line
        text = re.sub(r"\n\nFor more information.*", "", told.stderr, flags=re.S).strip()
        text = text.replace(" --socket <FILE>", "").replace(f"Usage: {binary().name} ", "Usage: archipel ")
        status = f"exit status {told.returncode}"
        if "--json" in commands().get(command_of(line), ""):
            problem = run(three, line + " --json", files, tmp_path)
            assert (problem.returncode, problem.stdout) == (told.returncode, ""), line
            document = json.loads(problem.stderr)
            assert document["type"] == "urn:archipel:problem:" + document["code"], line
            assert document["code"] == "WrongCommandLine" or document["detail"] in told.stderr, line
            status += f", {document['code']}"
        # Other tests change the layout of these nodes.
        text = re.sub(r"next version is \d+", "next version is N", text).replace(str(tmp_path), "FOLDER")
        made += f"archipel {line}\n  {status}\n  "
        made += text.replace("\n", "\n  ") + "\n\n"
    compare("errors.txt", made)
