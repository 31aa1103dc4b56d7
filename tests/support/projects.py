"""Test projects of other languages, in folders of `clients/`: runs one, and checks that each test in its sources has passed."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from . import go
from .tools import run

TOOLS = Path(__file__).resolve().parents[2] / "target/black-box-tools"
OLDEST_NODE = (20, 15)


def settings(server) -> dict[str, str]:
    """The environment that tells a project which server to test."""
    return {
        "ARCHIPEL_TEST_ENDPOINT": server.endpoint,
        "ARCHIPEL_TEST_REGION": server.region,
        "ARCHIPEL_TEST_ACCESS_KEY": server.access_key,
        "ARCHIPEL_TEST_SECRET_KEY": server.secret_key,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def run_go(project: Path, server) -> None:
    """Runs the tests of a Go module."""
    if not shutil.which("go"):
        pytest.skip("Go is not installed (1.24 or later; Debian 12 has 1.19)")
    done = run(go.test_command(), {**settings(server), **go.ENVIRONMENT}, cwd=project, timeout=1200)
    all_passed(done.stdout, r"--- PASS: (\w+)", project.glob("*_test.go"), r"func (Test\w+)\(")


def run_node(project: Path, server, folder: Path) -> None:
    """Runs the tests of a package of Node, copied into a folder and installed there."""
    missing = why_no_node()
    if missing:
        pytest.skip(missing)
    shutil.copytree(project, folder, ignore=shutil.ignore_patterns("node_modules"))
    quick = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    run(["npm", "install", *quick], cwd=folder)
    done = run(["node", "--test-reporter=tap", "tests.mjs"], settings(server), cwd=folder, timeout=600)
    all_passed(done.stdout, r"ok \d+ - ([^#\n]+)", project.glob("*.mjs"), r"test\('([^']+)'")


def why_no_node() -> str | None:
    """Returns what is missing for `run_node`, or None."""
    if shutil.which("node") and shutil.which("npm"):
        told = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=60).stdout
        if tuple(int(number) for number in re.findall(r"\d+", told)[:2]) >= OLDEST_NODE:
            return None
    return "Node with npm is not installed (20.15 or later; Debian 12 has 18)"


def run_python(checks: Path, server, *packages: str) -> None:
    """Runs a file of tests with packages that cannot be beside those of the other tests."""
    found = f"{installed(*packages)}:{Path(__file__).parents[1]}"
    command = [sys.executable, "-m", "pytest", "--noconftest", "-c", "/dev/null", "-p", "no:cacheprovider", "-rA", "--tb=short"]
    done = run([*command, checks], {**settings(server), "PYTHONPATH": found}, timeout=600)
    all_passed(done.stdout, r"PASSED .*::(\w+)", [checks], r"def (test_\w+)\(")


def installed(*packages: str) -> Path:
    """A folder with these packages and what they need, made once."""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", *packages]
    folder = TOOLS / "_".join([f"python3.{sys.version_info.minor}", *packages])
    return made_once(folder, lambda new: run([*install, "--target", new], timeout=600))


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """A folder that `make` fills under another name, once for all processes: a folder that exists is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f"{folder.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            new = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(new, ignore_errors=True)
            make(new)
            new.rename(folder)
    return folder


def all_passed(output: bytes, line: str, sources, declaration: str) -> None:
    """Asserts that the tests which the output calls passed are those which the sources declare."""
    declared = {name for source in sources for name in re.findall(f"^{declaration}", source.read_text(), re.MULTILINE)}
    passed = {name.strip() for name in re.findall(f"^{line}", output.decode(), re.MULTILINE)}
    assert declared and passed == declared, output.decode()
