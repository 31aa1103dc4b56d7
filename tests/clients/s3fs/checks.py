"""The usual work with s3fs. tests/clients/test_s3fs.py runs it, against the server that the environment names."""

from __future__ import annotations

import os
import urllib.request
import uuid

import pytest
import s3fs
from support.data import KIB, MIB, content, etag, multipart_etag

BLOCK = 5 * MIB


def connect(**more) -> s3fs.S3FileSystem:
    """A file system without any memory of listings or of earlier instances, that hides nothing behind retries."""
    login = {"key": os.environ["ARCHIPEL_TEST_ACCESS_KEY"], "secret": os.environ["ARCHIPEL_TEST_SECRET_KEY"]}
    fs = s3fs.S3FileSystem(
        endpoint_url=os.environ["ARCHIPEL_TEST_ENDPOINT"],
        client_kwargs={"region_name": os.environ["ARCHIPEL_TEST_REGION"]},
        use_listings_cache=False,
        skip_instance_cache=True,
        # Its own 5 and 15 seconds are short on a busy machine.
        config_kwargs={"retries": {"total_max_attempts": 1}, "connect_timeout": 60, "read_timeout": 60},
        **{**login, **more},
    )
    fs.retries = 1
    return fs


@pytest.fixture(scope="module")
def fs() -> s3fs.S3FileSystem:
    return connect()


@pytest.fixture
def bucket(fs):
    name = f"s3fs-{uuid.uuid4().hex[:12]}"
    fs.mkdir(name)
    yield name
    fs.rm(name, recursive=True)
    assert not fs.exists(name)


def test_buckets(fs, bucket):
    assert bucket in fs.ls("")
    assert fs.isdir(bucket) and fs.info(bucket)["type"] == "directory"
    with pytest.raises(FileExistsError):
        fs.makedirs(bucket)
    other = f"{bucket}-other"
    fs.mkdir(other)
    fs.touch(f"{other}/k")
    with pytest.raises(OSError):
        fs.rmdir(other)
    fs.rm(f"{other}/k")
    fs.rmdir(other)
    with pytest.raises(FileNotFoundError):
        fs.ls(other)


def test_files(fs, bucket):
    data = content(300 * KIB, "s3fs")
    path = f"{bucket}/folder/ü a+b%20c&d.bin"
    fs.pipe(path, data, ContentType="text/x", Metadata={"a": "1"})
    assert fs.cat(path) == data
    info = fs.info(path)
    assert (info["size"], info["ETag"], info["type"], info["ContentType"]) == (len(data), etag(data), "file", "text/x")
    assert fs.metadata(path)["a"] == "1"
    assert fs.cat_file(path, start=100, end=200) == data[100:200] and fs.cat_file(path, start=-5) == data[-5:]
    assert fs.cat_ranges([path] * 3, [0, 10, 1000], [5, 20, 1001]) == [data[:5], data[10:20], data[1000:1001]]
    assert fs.tail(path, 9) == data[-9:] and fs.head(path, 9) == data[:9]
    fs.rm(path)
    assert not fs.exists(path)
    for call in (fs.cat, fs.info):
        with pytest.raises(FileNotFoundError):
            call(path)


def test_reading_and_writing_as_a_file(fs, bucket):
    data = content(2 * BLOCK + 77, "file")
    path = f"{bucket}/file"
    with fs.open(path, "wb", block_size=BLOCK) as file:
        for begin in range(0, len(data), 700_001):
            file.write(data[begin : begin + 700_001])
    with fs.open(path, "rb", block_size=MIB) as file:
        assert file.read() == data
        file.seek(-10, 2)
        assert file.read() == data[-10:]
        file.seek(BLOCK - 3)
        assert file.read(6) == data[BLOCK - 3 : BLOCK + 3]
    # Appending copies what is there, as the first part of an upload.
    with fs.open(path, "ab", block_size=BLOCK) as file:
        file.write(b"appended")
    assert fs.cat(path) == data + b"appended"
    with fs.open(f"{bucket}/text", "wt", encoding="utf-8") as file:
        file.write("één\ntwee\n")
    with fs.open(f"{bucket}/text", "rt", encoding="utf-8") as file:
        assert file.readlines() == ["één\n", "twee\n"]
    with fs.open(f"{bucket}/text", "ab") as file:
        file.write(b"drie\n")
    assert fs.cat(f"{bucket}/text") == "één\ntwee\ndrie\n".encode()
    with fs.open(f"{bucket}/nothing", "wb"):
        pass
    assert fs.info(f"{bucket}/nothing")["size"] == 0


def test_a_file_that_changes_meanwhile_is_not_mixed(fs, bucket):
    path = f"{bucket}/k"
    fs.pipe(path, b"a" * MIB)
    with fs.open(path, "rb", block_size=KIB, cache_type="none") as file:
        assert file.read(5) == b"aaaaa"
        fs.pipe(path, b"b" * MIB)
        with pytest.raises(OSError):
            file.read(5)


def test_exclusive_creation(fs, bucket):
    path = f"{bucket}/once"
    for size in (10, 2 * BLOCK):
        fs.pipe_file(path, content(size, "first"), mode="create", chunksize=BLOCK)
        with pytest.raises(FileExistsError):
            fs.pipe_file(path, content(size, "second"), mode="create", chunksize=BLOCK)
        with pytest.raises(FileExistsError), fs.open(path, "xb", block_size=BLOCK) as file:
            file.write(content(size, "third"))
        assert fs.cat(path) == content(size, "first")
        fs.rm(path)
    # An upload that could not be completed is left for its user to remove.
    fs.clear_multipart_uploads(bucket)
    assert fs.list_multipart_uploads(bucket) == []


def test_folders(fs, bucket, tmp_path):
    names = ["a.txt", "sub/b.txt", "sub/deep/ü c.bin", "sub/empty", "other/d"]
    for number, name in enumerate(names):
        path = tmp_path / "from" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if name.endswith("empty") else content(number * 1000 + 1, name))
    root = f"{bucket}/tree"
    fs.put(str(tmp_path / "from"), root, recursive=True)
    wanted = sorted(f"{root}/{name}" for name in names)
    assert fs.find(root) == wanted
    assert sorted(fs.ls(root)) == [f"{root}/a.txt", f"{root}/other", f"{root}/sub"]
    assert fs.glob(f"{root}/**/*.bin") == [f"{root}/sub/deep/ü c.bin"]
    walked = {folder: (sorted(folders), sorted(files)) for folder, folders, files in fs.walk(root)}
    assert walked[f"{root}/sub"] == (["deep"], ["b.txt", "empty"])
    assert fs.du(root) == sum((tmp_path / "from" / name).stat().st_size for name in names)
    fs.get(root, str(tmp_path / "back"), recursive=True)
    for name in names:
        assert (tmp_path / "back" / name).read_bytes() == (tmp_path / "from" / name).read_bytes()
    fs.cp(f"{root}/sub", f"{root}/copied", recursive=True)
    assert fs.find(f"{root}/copied") == [path.replace("/sub/", "/copied/") for path in wanted if "/sub/" in path]
    fs.mv(f"{root}/a.txt", f"{root}/moved.txt")
    assert fs.cat(f"{root}/moved.txt") == content(1, "a.txt") and not fs.exists(f"{root}/a.txt")
    fs.rm(root, recursive=True)
    assert fs.find(bucket) == []


def test_many_small_files(fs, bucket):
    files = {f"{bucket}/many/{n:04}": content(n % 50, str(n)) for n in range(600)}
    fs.pipe(files)
    assert fs.cat(fs.find(f"{bucket}/many")) == files
    fs.rm(f"{bucket}/many", recursive=True)
    assert fs.find(bucket) == []


def test_copies(fs, bucket):
    data = content(2 * BLOCK + 5, "copies")
    parts = [data[:BLOCK], data[BLOCK : 2 * BLOCK], data[2 * BLOCK :]]
    path = f"{bucket}/from"
    fs.pipe_file(path, data, chunksize=BLOCK)
    assert fs.info(path)["ETag"] == multipart_etag(parts)
    fs.cp_file(path, f"{bucket}/plain")
    fs.cp_file(path, f"{bucket}/kept", preserve_etag=True)
    fs.merge(f"{bucket}/merged", [path, path])
    assert fs.cat(f"{bucket}/plain") == fs.cat(f"{bucket}/kept") == data
    assert fs.info(f"{bucket}/kept")["ETag"] == multipart_etag(parts)
    assert fs.cat(f"{bucket}/merged") == data + data


def test_metadata_and_tags(fs, bucket):
    path = f"{bucket}/k"
    fs.pipe(path, b"x", Metadata={"one": "1", "two": "2"})
    fs.setxattr(path, two="zwei", three="3")
    assert fs.metadata(path, refresh=True) == {"one": "1", "two": "zwei", "three": "3"}
    assert fs.getxattr(path, "two") == "zwei"
    fs.put_tags(path, {"a": "b c"})
    fs.put_tags(path, {"d": "ü"}, mode="m")
    assert fs.get_tags(path) == {"a": "b c", "d": "ü"}
    assert fs.cat(path) == b"x"


def test_versions(bucket):
    fs = connect(version_aware=True)
    fs.make_bucket_versioned(bucket)
    assert fs.is_bucket_versioned(bucket)
    path = f"{bucket}/k"
    written = []
    for text in (b"one", b"two", b"three"):
        with fs.open(path, "wb") as file:
            file.write(text)
        written.append(file.version_id)
    listed = [v["VersionId"] for v in fs.object_version_info(path)]
    assert listed == written[::-1]
    for version, text in zip(written, (b"one", b"two", b"three")):
        assert fs.cat_file(f"{path}?versionId={version}") == text
        with fs.open(path, "rb", version_id=version) as file:
            assert file.read() == text
    fs.rm(path)
    assert not fs.exists(path)
    assert fs.cat_file(f"{path}?versionId={written[0]}") == b"one"


def test_signed_urls(fs, bucket):
    path = f"{bucket}/ü/a b"
    fs.pipe(path, b"signed")
    with urllib.request.urlopen(fs.sign(path, expiration=60), timeout=30) as answer:
        assert answer.read() == b"signed"


def test_refusals(fs, bucket):
    for login in ({"secret": "wrong"}, {"key": "AKUNKNOWN"}):
        with pytest.raises(PermissionError):
            connect(**login).pipe(f"{bucket}/k", b"x")
    with pytest.raises(FileNotFoundError):
        fs.pipe(f"{bucket}-none/k", b"x")
    with pytest.raises(PermissionError):
        connect(anon=True, key=None, secret=None).ls(bucket)
    assert fs.find(bucket) == []
