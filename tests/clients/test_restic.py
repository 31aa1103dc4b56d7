"""restic: a backup tool that verifies every byte itself."""

import pytest
from botocore.exceptions import ClientError
from support.tools import run, same_tree


def repository(aws_env, server, bucket: str, tmp_path) -> dict[str, str]:
    """The environment of restic with a repository in this bucket."""
    return {
        **aws_env,
        "RESTIC_REPOSITORY": f"s3:{server.endpoint}/{bucket}/repository",
        "RESTIC_PASSWORD": "correct horse",
        "RESTIC_CACHE_DIR": str(tmp_path / "cache"),
    }


def test_backup_restore_forget_check(server, aws_env, bucket, files, tmp_path):
    env = repository(aws_env, server, bucket, tmp_path)
    run(["restic", "init"], env)
    run(["restic", "backup", "."], env, cwd=files)
    run(["restic", "check", "--read-data"], env)
    run(["restic", "restore", "latest", "--target", tmp_path / "back"], env)
    same_tree(files, tmp_path / "back")
    (files / "plain.txt").write_bytes(b"second version")
    (files / "large.bin").unlink()
    run(["restic", "backup", "."], env, cwd=files)
    run(["restic", "forget", "--keep-last", "1", "--prune"], env)
    run(["restic", "check", "--read-data"], env)
    run(["restic", "restore", "latest", "--target", tmp_path / "again"], env)
    same_tree(files, tmp_path / "again")


def test_a_locked_bucket(server, aws_env, s3, bucket, files, tmp_path):
    name = f"{bucket}-locked"
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}
    s3.put_object_lock_configuration(
        Bucket=name, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    env = repository(aws_env, server, name, tmp_path)
    run(["restic", "init"], env)
    run(["restic", "backup", "."], env, cwd=files)
    kept = s3.list_object_versions(Bucket=name)["Versions"]
    (files / "plain.txt").write_bytes(b"second version")
    run(["restic", "backup", "."], env, cwd=files)
    run(["restic", "forget", "--keep-last", "1", "--prune"], env)
    run(["restic", "check", "--read-data"], env)
    run(["restic", "restore", "latest", "--target", tmp_path / "back"], env)
    same_tree(files, tmp_path / "back")
    # A client with the keys cannot destroy what was backed up.
    now = {v["VersionId"] for v in s3.list_object_versions(Bucket=name)["Versions"]}
    assert {v["VersionId"] for v in kept} <= now
    for version in kept:
        with pytest.raises(ClientError) as refused:
            s3.delete_object(
                Bucket=name, Key=version["Key"], VersionId=version["VersionId"], BypassGovernanceRetention=True
            )
        assert refused.value.response["Error"]["Code"] == "AccessDenied"
