"""Terraform with its AWS provider: users, groups, roles, policies, a bucket and its settings.

The provider is no package of a registry. `TERRAFORM_PROVIDER_AWS=FILE` names its program, whose name ends with its version
(`terraform-provider-aws_v1.60.0`); without it the test is skipped.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from support.boto import boto
from support.tools import neutral_environment

pytestmark = pytest.mark.process

CONFIGURATION = Path(__file__).with_name("terraform_aws.tf")
PLATFORMS = {"x86_64": "linux_amd64", "aarch64": "linux_arm64"}


class Terraform:
    """One checkout of the configuration."""

    def __init__(self, folder: Path, server, provider: Path, key: tuple[str, str]):
        self.folder = folder / "work"
        self.folder.mkdir()
        version = provider.name.rpartition("_v")[2]
        place = folder / "mirror/registry.terraform.io/hashicorp/aws" / version / PLATFORMS[platform.machine()]
        place.mkdir(parents=True)
        shutil.copy(provider, place / provider.name)
        settings = folder / "terraformrc"
        settings.write_text(f'provider_installation {{\n  filesystem_mirror {{ path = "{folder}/mirror" }}\n}}\n')
        (self.folder / "main.tf").write_text(CONFIGURATION.read_text())
        self.environment = {
            name: value for name, value in neutral_environment().items() if not name.startswith("TF_")
        } | {
            "AWS_ACCESS_KEY_ID": key[0],
            "AWS_SECRET_ACCESS_KEY": key[1],
            "CHECKPOINT_DISABLE": "1",
            "TF_CLI_CONFIG_FILE": str(settings),
            "TF_INPUT": "0",
            "TF_VAR_endpoint": server.endpoint,
            "TF_VAR_region": server.region,
            "HOME": str(folder),
        }
        self("init")

    def __call__(self, *arguments: str, days: int = 7, status: int = 0) -> str:
        """Runs a command, and returns what it says."""
        done = subprocess.run(
            ["terraform", *arguments, "-no-color"],
            cwd=self.folder,
            env=self.environment | {"TF_VAR_days": str(days)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == status, f"terraform {arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def output(self, name: str) -> str:
        return json.loads(self("output", "-json"))[name]["value"]


@pytest.fixture
def provider() -> Path:
    named = os.environ.get("TERRAFORM_PROVIDER_AWS")
    if not named or not shutil.which("terraform"):
        pytest.skip("terraform is not installed, or TERRAFORM_PROVIDER_AWS names no provider")
    return Path(named)


def test_plan_apply_change_destroy(server, admin, provider, tmp_path):
    terraform = Terraform(tmp_path, server, provider, admin)
    terraform("plan", "-detailed-exitcode", status=2)
    terraform("apply", "-auto-approve")
    # The state is as it was asked for.
    terraform("plan", "-detailed-exitcode")
    assert terraform.output("account") == "000000000000"
    ann = boto("s3", server.endpoint, terraform.output("key"), terraform.output("secret"))
    assert ann.get_object(Bucket="tf-photos", Key="ann/hello.txt")["Body"].read() == b"hello"
    with pytest.raises(ann.exceptions.ClientError, match="AccessDenied"):
        ann.put_object(Bucket="tf-photos", Key="bob/x", Body=b"x")
    terraform("apply", "-auto-approve", days=9)
    terraform("plan", "-detailed-exitcode", days=9)
    terraform("destroy", "-auto-approve", days=9)
    iam = boto("iam", server.endpoint, *admin)
    assert [user["UserName"] for user in iam.list_users(PathPrefix="/people/")["Users"]] == []
    assert "tf-photos" not in [bucket["Name"] for bucket in boto("s3", server.endpoint, *admin).list_buckets()["Buckets"]]
