"""The AWS command line: `aws s3` and `aws s3api`."""

import json
import urllib.request

import pytest
from support.data import MIB, content
from support.expect import keys
from support.tools import run, same_tree


def test_cp_mv_rm_ls(aws_env, bucket, files, tmp_path, s3):
    large = files / "large.bin"
    run(["aws", "s3", "cp", large, f"s3://{bucket}/dir/large.bin"], aws_env)
    run(["aws", "s3", "cp", f"s3://{bucket}/dir/large.bin", tmp_path / "back"], aws_env)
    assert (tmp_path / "back").read_bytes() == large.read_bytes()
    run(["aws", "s3", "mv", f"s3://{bucket}/dir/large.bin", f"s3://{bucket}/moved"], aws_env)
    assert keys(s3, bucket) == ["moved"]
    listing = run(["aws", "s3", "ls", f"s3://{bucket}/"], aws_env).stdout.decode()
    assert f"{20 * MIB + 5} moved" in listing
    run(["aws", "s3", "rm", f"s3://{bucket}/moved"], aws_env)
    assert keys(s3, bucket) == []


def test_streams(aws_env, bucket):
    data = content(9 * MIB, "stream")
    run(["aws", "s3", "cp", "-", f"s3://{bucket}/k"], aws_env, stdin=data)
    assert run(["aws", "s3", "cp", f"s3://{bucket}/k", "-"], aws_env).stdout == data


def test_sync_both_ways(aws_env, bucket, files, tmp_path, s3):
    run(["aws", "s3", "sync", files, f"s3://{bucket}/tree"], aws_env)
    run(["aws", "s3", "sync", f"s3://{bucket}/tree", tmp_path / "back"], aws_env)
    same_tree(files, tmp_path / "back")
    again = run(["aws", "s3", "sync", files, f"s3://{bucket}/tree"], aws_env)
    assert b"upload:" not in again.stdout
    (files / "plain.txt").unlink()
    run(["aws", "s3", "sync", "--delete", files, f"s3://{bucket}/tree"], aws_env)
    assert "tree/plain.txt" not in keys(s3, bucket)


def test_presign(aws_env, bucket, s3):
    s3.put_object(Bucket=bucket, Key="a b", Body=b"signed")
    url = run(["aws", "s3", "presign", f"s3://{bucket}/a b", "--expires-in", "60"], aws_env).stdout.decode().strip()
    assert urllib.request.urlopen(url).read() == b"signed"


def test_make_and_remove_bucket(aws_env, s3):
    run(["aws", "s3", "mb", "s3://cli-made-bucket"], aws_env)
    s3.put_object(Bucket="cli-made-bucket", Key="k", Body=b"x")
    assert run(["aws", "s3", "rb", "s3://cli-made-bucket"], aws_env, check=False).returncode != 0
    run(["aws", "s3", "rb", "--force", "s3://cli-made-bucket"], aws_env)


def test_s3api(aws_env, bucket, tmp_path):
    def api(*arguments):
        out = run(["aws", "s3api", *arguments, "--output", "json"], aws_env).stdout
        return json.loads(out) if out.strip() else {}

    source = tmp_path / "body"
    source.write_bytes(b"by s3api")
    for algorithm in ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"):
        put = api(
            "put-object", "--bucket", bucket, "--key", "k", "--body", str(source),
            "--checksum-algorithm", algorithm, "--metadata", "a=1",
        )  # fmt: skip
        assert put[f"Checksum{algorithm}"]
        head = api("head-object", "--bucket", bucket, "--key", "k", "--checksum-mode", "ENABLED")
        assert head["ContentLength"] == 8 and head["Metadata"] == {"a": "1"}
    api("get-object", "--bucket", bucket, "--key", "k", "--range", "bytes=3-7", str(tmp_path / "part"))
    assert (tmp_path / "part").read_bytes() == b"s3api"
    attributes = api(
        "get-object-attributes", "--bucket", bucket, "--key", "k", "--object-attributes", "ETag", "ObjectSize"
    )
    assert attributes["ObjectSize"] == 8
    listed = api("list-objects-v2", "--bucket", bucket)
    assert [o["Key"] for o in listed["Contents"]] == ["k"]
    refused = run(
        ["aws", "s3api", "put-object", "--bucket", bucket, "--key", "k", "--if-none-match", "*"], aws_env, check=False
    )
    assert refused.returncode != 0 and b"PreconditionFailed" in refused.stderr
    deleted = api("delete-objects", "--bucket", bucket, "--delete", '{"Objects":[{"Key":"k"}]}')
    assert [d["Key"] for d in deleted["Deleted"]] == ["k"]


@pytest.mark.long
def test_versions_with_s3api(aws_env, bucket, tmp_path):
    def s3api(operation, *arguments, check=True):
        done = run(["aws", "s3api", operation, "--bucket", bucket, *arguments], aws_env, check=check)
        return json.loads(done.stdout or "{}") if check else done

    s3api("put-bucket-versioning", "--versioning-configuration", "Status=Enabled")
    assert s3api("get-bucket-versioning")["Status"] == "Enabled"
    for text in ("one", "two"):
        (tmp_path / "file").write_text(text)
        run(["aws", "s3", "cp", tmp_path / "file", f"s3://{bucket}/k"], aws_env)
    run(["aws", "s3", "rm", f"s3://{bucket}/k"], aws_env)
    listed = s3api("list-object-versions", "--prefix", "k")
    (marker,), (two, one) = listed["DeleteMarkers"], listed["Versions"]
    assert (marker["IsLatest"], two["IsLatest"], one["IsLatest"]) == (True, False, False)
    for version, text in ((one, "one"), (two, "two")):
        back = tmp_path / "back"
        s3api("get-object", "--key", "k", "--version-id", version["VersionId"], str(back))
        assert back.read_text() == text
    assert s3api("head-object", "--key", "k", check=False).returncode != 0
    # The marker's deletion undoes the deletion.
    s3api("delete-object", "--key", "k", "--version-id", marker["VersionId"])
    assert run(["aws", "s3", "cp", f"s3://{bucket}/k", "-"], aws_env).stdout == b"two"
    # Copying an old version over the current one brings it back.
    source = f"{bucket}/k?versionId={one['VersionId']}"
    s3api("copy-object", "--key", "k", "--copy-source", source)
    assert run(["aws", "s3", "cp", f"s3://{bucket}/k", "-"], aws_env).stdout == b"one"
    left = s3api("list-object-versions")["Versions"]
    assert len(left) == 3
    assert run(["aws", "s3", "rb", f"s3://{bucket}"], aws_env, check=False).returncode != 0
    gone = {"Objects": [{"Key": v["Key"], "VersionId": v["VersionId"]} for v in left]}
    assert len(s3api("delete-objects", "--delete", json.dumps(gone))["Deleted"]) == 3
    assert "Versions" not in s3api("list-object-versions")
