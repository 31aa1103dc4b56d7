"""restic: a backup tool that verifies every byte itself."""

from support.tools import run, same_tree


def test_backup_restore_forget_check(server, aws_env, bucket, files, tmp_path):
    env = {
        **aws_env,
        "RESTIC_REPOSITORY": f"s3:{server.endpoint}/{bucket}/repository",
        "RESTIC_PASSWORD": "correct horse",
        "RESTIC_CACHE_DIR": str(tmp_path / "cache"),
    }
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
