"""rclone."""

import pytest
from support.data import MIB, content
from support.expect import keys
from support.tools import run, same_tree


@pytest.fixture
def env(server):
    prefix = "RCLONE_CONFIG_UNDERTEST_"
    return {
        "RCLONE_CONFIG": "/dev/null",
        prefix + "TYPE": "s3",
        prefix + "PROVIDER": "Other",
        prefix + "ENDPOINT": server.endpoint,
        prefix + "REGION": server.region,
        prefix + "ACCESS_KEY_ID": server.access_key,
        prefix + "SECRET_ACCESS_KEY": server.secret_key,
    }


def rclone(env, *arguments, **more):
    return run(["rclone", *arguments, "--retries", "1", "--low-level-retries", "1"], env, **more)


def test_copy_check_sync_delete(env, bucket, files, tmp_path, s3):
    where = f"undertest:{bucket}/tree"
    rclone(env, "copy", files, where)
    rclone(env, "check", files, where)
    rclone(env, "check", "--download", files, where)
    rclone(env, "copy", where, tmp_path / "back")
    same_tree(files, tmp_path / "back")
    (files / "plain.txt").write_bytes(b"changed")
    (files / "block.bin").unlink()
    rclone(env, "sync", files, where)
    rclone(env, "check", files, where)
    rclone(env, "purge", where)
    assert keys(s3, bucket) == []


def test_large_multipart(env, bucket, tmp_path, s3):
    (tmp_path / "big").mkdir()
    (tmp_path / "big/file").write_bytes(content(64 * MIB + 11, "rclone big"))
    where = f"undertest:{bucket}/big"
    rclone(env, "copy", tmp_path / "big", where, "--s3-upload-cutoff", "5M", "--s3-chunk-size", "5M")
    assert s3.head_object(Bucket=bucket, Key="big/file")["ETag"].endswith('-13"')
    rclone(env, "check", "--download", tmp_path / "big", where)
    rclone(env, "copy", where, tmp_path / "back", "--multi-thread-cutoff", "10M", "--multi-thread-streams", "4")
    same_tree(tmp_path / "big", tmp_path / "back")
    rclone(env, "moveto", where + "/file", where + "/renamed", "--s3-copy-cutoff", "5M")
    assert keys(s3, bucket) == ["big/renamed"]


@pytest.mark.long
def test_three_thousand_small_files(env, bucket, tmp_path):
    source = tmp_path / "many"
    for n in range(3000):
        path = source / f"d{n % 30}" / f"f{n}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(n % 700, str(n)))
    where = f"undertest:{bucket}"
    rclone(env, "copy", source, where, "--transfers", "32", "--checkers", "32")
    rclone(env, "copy", where, tmp_path / "back", "--transfers", "32", "--checkers", "32")
    same_tree(source, tmp_path / "back")
    rclone(env, "delete", where, "--transfers", "32", "--checkers", "32")


def test_rcat_cat_and_hashes(env, bucket):
    data = content(7 * MIB, "rcat")
    rclone(env, "rcat", f"undertest:{bucket}/k", stdin=data)
    assert rclone(env, "cat", f"undertest:{bucket}/k").stdout == data
    assert rclone(env, "cat", "--offset", "100", "--count", "50", f"undertest:{bucket}/k").stdout == data[100:150]
    rclone(env, "lsjson", "-R", "--hash", f"undertest:{bucket}")
    rclone(env, "mkdir", f"undertest:{bucket}-rclone")
    rclone(env, "rmdir", f"undertest:{bucket}-rclone")


def test_old_versions_are_shown_read_and_cleaned_up(env, bucket, files, tmp_path):
    where = f"undertest:{bucket}"
    rclone(env, "backend", "versioning", where, "Enabled")
    assert b"Enabled" in rclone(env, "backend", "versioning", where).stdout
    rclone(env, "copy", files, where)
    (files / "plain.txt").write_bytes(b"changed")
    (files / "block.bin").unlink()
    rclone(env, "sync", files, where)
    shown = rclone(env, "lsf", "-R", "--s3-versions", where).stdout.decode().splitlines()
    old = [name for name in shown if name.startswith(("plain-v", "block-v"))]
    assert len(old) == 2, shown
    rclone(env, "copy", f"{where}/{next(n for n in old if n.startswith('block'))}", tmp_path / "old", "--s3-versions")
    assert len(list((tmp_path / "old").iterdir())) == 1
    rclone(env, "copy", where, tmp_path / "new")
    same_tree(files, tmp_path / "new")
    rclone(env, "backend", "cleanup-hidden", where)
    shown = rclone(env, "lsf", "-R", "--s3-versions", where).stdout.decode()
    assert "-v2" not in shown
    rclone(env, "copy", where, tmp_path / "still")
    same_tree(files, tmp_path / "still")
