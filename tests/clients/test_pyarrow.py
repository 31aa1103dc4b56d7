"""The file system of pyarrow (the AWS SDK for C++), and Parquet datasets in it."""

from __future__ import annotations

import uuid
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import fs as arrow_fs
from support.boto import put_many
from support.data import KIB, MIB, content
from support.expect import keys
from support.unchanged import unchanged


def connect(server, **more) -> arrow_fs.S3FileSystem:
    endpoint = urlsplit(server.endpoint)
    return arrow_fs.S3FileSystem(
        **{"access_key": server.access_key, "secret_key": server.secret_key, **more},
        region=server.region,
        scheme=endpoint.scheme,
        endpoint_override=endpoint.netloc,
        retry_strategy=arrow_fs.AwsStandardS3RetryStrategy(max_attempts=1),
        allow_bucket_creation=True,
        allow_bucket_deletion=True,
    )


@pytest.fixture
def fs(server):
    return connect(server)


def read(fs, path: str) -> bytes:
    with fs.open_input_stream(path) as stream:
        return stream.read()


def write(fs, path: str, data: bytes, **more) -> None:
    with fs.open_output_stream(path, **more) as stream:
        stream.write(data)


@pytest.mark.parametrize("size", [0, 100, 21 * MIB + 5])
def test_streams(fs, s3, bucket, size):
    data = content(size, "arrow")
    path = f"{bucket}/folder/ü a+b%20c&d.bin"
    with fs.open_output_stream(path, metadata={"Content-Type": "text/x", "Cache-Control": "no-store"}) as stream:
        for begin in range(0, size, 3 * MIB):
            stream.write(data[begin : begin + 3 * MIB])
    stored = s3.get_object(Bucket=bucket, Key="folder/ü a+b%20c&d.bin")
    assert stored["Body"].read() == data
    assert (stored["ContentType"], stored["CacheControl"]) == ("text/x", "no-store")
    assert read(fs, path) == data
    info = fs.get_file_info(path)
    assert (info.type, info.size, info.base_name) == (arrow_fs.FileType.File, size, "ü a+b%20c&d.bin")


def test_random_access(fs, bucket):
    data = content(3 * MIB, "random")
    write(fs, f"{bucket}/k", data)
    with fs.open_input_file(f"{bucket}/k") as file:
        assert file.size() == len(data)
        assert file.read_at(10, MIB) == data[MIB : MIB + 10]
        file.seek(len(data) - 7)
        assert file.read() == data[-7:]
        file.seek(KIB)
        assert file.read(5) == data[KIB : KIB + 5] and file.tell() == KIB + 5


def test_folders_copies_and_moves(fs, s3, bucket):
    fs.create_dir(f"{bucket}/empty/folder", recursive=True)
    assert fs.get_file_info(f"{bucket}/empty/folder").type == arrow_fs.FileType.Directory
    names = ["a/one", "a/b/two", "a/b/c/three", "other"]
    for name in names:
        write(fs, f"{bucket}/{name}", content(1000, name))
    found = fs.get_file_info(arrow_fs.FileSelector(f"{bucket}/a", recursive=True))
    files = sorted(info.path for info in found if info.is_file)
    assert files == sorted(f"{bucket}/{name}" for name in names[:3])
    assert sorted(info.path for info in found if not info.is_file) == [f"{bucket}/a/b", f"{bucket}/a/b/c"]
    shallow = fs.get_file_info(arrow_fs.FileSelector(f"{bucket}/a"))
    assert sorted(info.base_name for info in shallow) == ["b", "one"]

    fs.copy_file(f"{bucket}/a/one", f"{bucket}/ü copy")
    fs.move(f"{bucket}/other", f"{bucket}/moved")
    assert read(fs, f"{bucket}/ü copy") == content(1000, "a/one")
    assert read(fs, f"{bucket}/moved") == content(1000, "other")
    fs.delete_file(f"{bucket}/moved")
    fs.delete_dir_contents(f"{bucket}/a/b")
    assert {key for key in keys(s3, bucket) if not key.endswith("/")} == {"a/one", "ü copy"}
    fs.delete_dir(f"{bucket}/a")
    fs.delete_dir(f"{bucket}/empty")
    assert keys(s3, bucket) == ["ü copy"]
    missing = fs.get_file_info([f"{bucket}/a/one", f"{bucket}/moved"])
    assert [info.type for info in missing] == [arrow_fs.FileType.NotFound] * 2


def test_a_folder_of_many_files_is_deleted(fs, s3, bucket):
    put_many(s3, bucket, [f"many/{number}" for number in range(1100)])
    assert len(fs.get_file_info(arrow_fs.FileSelector(f"{bucket}/many"))) == 1100
    fs.delete_dir(f"{bucket}/many")
    assert [key for key in keys(s3, bucket) if key != "many/"] == []


def test_buckets(fs):
    name = f"arrow-{uuid.uuid4().hex[:12]}"
    fs.create_dir(name)
    assert name in [info.path for info in fs.get_file_info(arrow_fs.FileSelector(""))]
    write(fs, f"{name}/k", b"x")
    fs.delete_dir(name)
    assert fs.get_file_info(name).type == arrow_fs.FileType.NotFound


def test_refusals(server, fs, bucket):
    with unchanged():
        for call in (fs.open_input_file, fs.open_input_stream, fs.delete_file):
            with pytest.raises(FileNotFoundError):
                call(f"{bucket}/missing")
        with pytest.raises(OSError, match="NO_SUCH_BUCKET"):
            write(fs, f"{bucket}-none/k", b"x")
        with pytest.raises(OSError, match="INVALID_ACCESS_KEY_ID"):
            write(connect(server, access_key="AKUNKNOWN"), f"{bucket}/k", b"x")
        with pytest.raises(OSError, match="SIGNATURE_DOES_NOT_MATCH"):
            write(connect(server, secret_key="wrong"), f"{bucket}/k", b"x")


def table(rows: int) -> pa.Table:
    """Rows that differ, in five groups."""
    numbers = pa.array(range(rows))
    groups = pa.array([["a", "b c", "ü", "d/e", "f=g"][n % 5] for n in range(rows)])
    text = pa.array([f"row {n}" if n % 7 else None for n in range(rows)])
    return pa.table({"number": numbers, "group": groups, "text": text})


def test_parquet_files(fs, bucket):
    wanted = table(100_000)
    path = f"{bucket}/file.parquet"
    pq.write_table(wanted, path, filesystem=fs, row_group_size=10_000)
    assert pq.read_table(path, filesystem=fs).equals(wanted)
    assert pq.read_table(path, filesystem=fs, columns=["text"]).equals(wanted.select(["text"]))
    with fs.open_input_file(path) as file:
        parquet = pq.ParquetFile(file)
        assert parquet.num_row_groups == 10
        assert parquet.read_row_group(3).equals(wanted.slice(30_000, 10_000))


def test_parquet_datasets(fs, s3, bucket):
    wanted = table(20_000)
    root = f"{bucket}/data/set"
    hive = ds.partitioning(pa.schema([("group", pa.string())]), flavor="hive")
    how = {"filesystem": fs, "format": "parquet", "partitioning": hive}
    ds.write_dataset(wanted, root, **how, max_rows_per_file=1500, max_rows_per_group=1500)
    assert len([key for key in keys(s3, bucket) if key.endswith(".parquet")]) == 15
    dataset = ds.dataset(root, **how)

    def in_order(rows: pa.Table) -> pa.Table:
        return rows.select(wanted.column_names).sort_by("number").combine_chunks()

    assert in_order(dataset.to_table()).equals(wanted.combine_chunks())
    for group in ("ü", "d/e"):
        part = dataset.to_table(filter=pc.field("group") == group)
        assert in_order(part).equals(wanted.filter(pc.field("group") == group).combine_chunks())
    # The second writing replaces one partition, and leaves the others.
    other = pa.table({"number": [-1], "group": ["ü"], "text": ["new"]})
    ds.write_dataset(other, root, **how, existing_data_behavior="delete_matching")
    found = ds.dataset(root, **how).to_table()
    kept = wanted.filter(pc.field("group") != "ü")
    assert in_order(found).equals(pa.concat_tables([other, kept]).combine_chunks())
