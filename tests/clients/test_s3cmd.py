"""s3cmd."""

import pytest
from support.expect import keys
from support.tools import run, same_tree


@pytest.fixture
def s3cmd(server, tmp_path):
    host = server.endpoint.split("://")[1]
    config = tmp_path / "s3cfg"
    config.write_text(
        f"[default]\naccess_key = {server.access_key}\nsecret_key = {server.secret_key}\n"
        f"host_base = {host}\nhost_bucket = {host}\nuse_https = False\nbucket_location = {server.region}\n"
    )

    def call(*arguments, **more):
        return run(["s3cmd", "-c", config, "--no-progress", *arguments], **more)

    return call


def test_put_get_ls_del(s3cmd, bucket, files, tmp_path, s3):
    s3cmd("put", files / "with space.txt", f"s3://{bucket}/with space.txt")
    assert "with space.txt" in s3cmd("ls", f"s3://{bucket}").stdout.decode()
    s3cmd("get", f"s3://{bucket}/with space.txt", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (files / "with space.txt").read_bytes()
    s3cmd("cp", f"s3://{bucket}/with space.txt", f"s3://{bucket}/ünï")
    s3cmd("mv", f"s3://{bucket}/ünï", f"s3://{bucket}/moved")
    assert keys(s3, bucket) == ["moved", "with space.txt"]
    s3cmd("del", f"s3://{bucket}/moved")
    s3cmd("del", "--recursive", "--force", f"s3://{bucket}")
    assert keys(s3, bucket) == []


def test_multipart(s3cmd, bucket, files, tmp_path, s3):
    s3cmd("put", "--multipart-chunk-size-mb=5", files / "large.bin", f"s3://{bucket}/large.bin")
    assert s3.head_object(Bucket=bucket, Key="large.bin")["ETag"].endswith('-5"')
    s3cmd("get", f"s3://{bucket}/large.bin", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (files / "large.bin").read_bytes()


def test_sync_both_ways(s3cmd, bucket, files, tmp_path):
    s3cmd("sync", f"{files}/", f"s3://{bucket}/tree/")
    (tmp_path / "back").mkdir()
    s3cmd("sync", f"s3://{bucket}/tree/", f"{tmp_path}/back/")
    same_tree(files, tmp_path / "back")


def test_make_and_remove_bucket(s3cmd, bucket):
    s3cmd("mb", f"s3://{bucket}-s3cmd")
    assert f"{bucket}-s3cmd" in s3cmd("ls").stdout.decode()
    s3cmd("rb", f"s3://{bucket}-s3cmd")
