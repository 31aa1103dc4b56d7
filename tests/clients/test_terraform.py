"""Terraform itself: its state in a versioned bucket, locked by its S3 backend. No provider is needed for that."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid

import pytest
from support.expect import keys
from support.server import wait_until
from support.tools import neutral_environment

pytestmark = pytest.mark.process

# `terraform_data` is built in. Its value waits for a file to appear, if one is named.
CONFIGURATION = """
terraform {
  backend "s3" {
    bucket       = "%(bucket)s"
    key          = "%(key)s"
    region       = "%(region)s"
    endpoints    = { s3 = "%(endpoint)s" }
    use_lockfile = true

    use_path_style              = true
    skip_credentials_validation = true
    skip_metadata_api_check     = true
    skip_requesting_account_id  = true
  }
}

variable "value" { type = string }

variable "wait_for" {
  type    = string
  default = ""
}

resource "terraform_data" "it" {
  input            = var.value
  triggers_replace = var.wait_for

  provisioner "local-exec" {
    command = "touch '${path.module}/begun'; until [ -z '${var.wait_for}' ] || [ -e '${var.wait_for}' ]; do sleep 0.1; done"
  }
}

output "value" { value = terraform_data.it.output }
"""


class Terraform:
    """One checkout of a configuration."""

    def __init__(self, folder, server, bucket: str, key: str):
        self.folder = folder
        folder.mkdir()
        place = {"bucket": bucket, "key": key, "region": server.region, "endpoint": server.endpoint}
        (folder / "main.tf").write_text(CONFIGURATION % place)
        outside = neutral_environment()
        self.environment = {name: value for name, value in outside.items() if not name.startswith("TF_")} | {
            "AWS_ACCESS_KEY_ID": server.access_key,
            "AWS_SECRET_ACCESS_KEY": server.secret_key,
            "AWS_EC2_METADATA_DISABLED": "true",
            "CHECKPOINT_DISABLE": "1",
            "TF_IN_AUTOMATION": "1",
            "TF_INPUT": "0",
            "HOME": str(folder),
        }
        self("init")

    def begin(self, *arguments: str) -> subprocess.Popen:
        """Starts a command."""
        return subprocess.Popen(
            [shutil.which("terraform"), *arguments, "-no-color"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __call__(self, *arguments: str, status: int = 0) -> str:
        """Runs a command to its end, and returns what it says."""
        running = self.begin(*arguments)
        said = running.communicate(timeout=300)[0]
        assert running.returncode == status, f"terraform {arguments}: {running.returncode}\n{said}"
        return said

    def apply(self, value: str, *more: str) -> None:
        self("apply", "-auto-approve", f"-var=value={value}", *more)

    def value(self) -> str:
        return json.loads(self("output", "-json"))["value"]["value"]


@pytest.fixture(autouse=True)
def installed():
    if not shutil.which("terraform"):
        pytest.skip("terraform is not installed, and no registry has it")


@pytest.fixture
def state(s3, bucket):
    """A versioned bucket, and the key of a state in it."""
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket, f"env/{uuid.uuid4().hex[:8]}.tfstate"


def test_apply_plan_change_destroy_with_history(server, s3, state, tmp_path):
    bucket, key = state
    terraform = Terraform(tmp_path / "one", server, bucket, key)
    terraform.apply("first")
    # Nothing is left to do, and no lock is left.
    terraform("plan", "-detailed-exitcode", "-var=value=first")
    assert keys(s3, bucket) == [key]
    terraform("plan", "-detailed-exitcode", "-var=value=second", status=2)
    terraform.apply("second")
    # Another checkout sees it.
    other = Terraform(tmp_path / "other", server, bucket, key)
    assert other.value() == "second"

    # Back to the first state by its version.
    versions = [v for v in s3.list_object_versions(Bucket=bucket, Prefix=key)["Versions"] if v["Key"] == key]
    values = {}
    for version in versions:
        body = s3.get_object(Bucket=bucket, Key=key, VersionId=version["VersionId"])["Body"].read()
        values[json.loads(body)["outputs"].get("value", {}).get("value")] = version["VersionId"]
    s3.copy_object(Bucket=bucket, Key=key, CopySource={"Bucket": bucket, "Key": key, "VersionId": values["first"]})
    assert other.value() == "first"

    other("workspace", "new", "staging")
    other.apply("staged")
    assert "env:/staging/" + key in keys(s3, bucket)
    other("destroy", "-auto-approve", "-var=value=staged")
    other("workspace", "select", "default")
    other("workspace", "delete", "staging")
    other("destroy", "-auto-approve", "-var=value=first")
    assert json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())["resources"] == []
    assert keys(s3, bucket) == [key]


def test_one_at_a_time_and_a_lock_that_was_left_behind(server, s3, state, tmp_path):
    bucket, key = state
    one = Terraform(tmp_path / "one", server, bucket, key)
    other = Terraform(tmp_path / "other", server, bucket, key)
    go = tmp_path / "go"
    held = one.begin("apply", "-auto-approve", "-var=value=held", f"-var=wait_for={go}")
    try:
        assert wait_until(lambda: (one.folder / "begun").exists() or held.poll() is not None, 120)
        said = other("apply", "-auto-approve", "-var=value=other", "-lock-timeout=0s", status=1)
        assert "Error acquiring the state lock" in said and "PreconditionFailed" in said, said
        go.write_text("")
        assert held.wait(120) == 0, held.stdout.read()
    finally:
        held.kill()
        held.wait()
        held.stdout.close()
    assert other.value() == "held"
    assert keys(s3, bucket) == [key]

    # Killed while it held the lock.
    lost = one.begin("apply", "-auto-approve", "-var=value=lost", f"-var=wait_for={tmp_path / 'never'}")
    os.remove(one.folder / "begun")
    assert wait_until(lambda: (one.folder / "begun").exists() or lost.poll() is not None, 120)
    lost.kill()
    lost.wait()
    lost.stdout.close()
    (tmp_path / "never").write_text("")  # ends the shell that it began
    lock = json.loads(s3.get_object(Bucket=bucket, Key=f"{key}.tflock")["Body"].read())
    said = other("apply", "-auto-approve", "-var=value=other", "-lock-timeout=0s", status=1)
    assert lock["ID"] in said, said
    other("force-unlock", "-force", lock["ID"])
    other.apply("other")
    assert other.value() == "other"
    assert keys(s3, bucket) == [key]
