"""obstore: `object_store` of Rust, from Python, with its conditional writes."""

from __future__ import annotations

import asyncio
import threading
import urllib.request
from datetime import timedelta

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, NotModifiedError, PermissionDeniedError, PreconditionError
from obstore.store import S3Store
from support.boto import put_many
from support.data import MIB, content, etag, multipart_etag
from support.expect import holds, keys
from support.unchanged import unchanged

PART = 5 * MIB


def connect(server, bucket, **more) -> S3Store:
    return S3Store(
        bucket,
        **{"access_key_id": server.access_key, "secret_access_key": server.secret_key, **more},
        region=server.region,
        endpoint=server.endpoint,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


@pytest.fixture
def store(server, bucket):
    return connect(server, bucket, copy_if_not_exists="multipart")


@pytest.mark.parametrize("checksum", [None, "SHA256", "CRC64NVME"])
def test_put_get_head_and_ranges(server, s3, bucket, checksum):
    store = connect(server, bucket, **({"checksum_algorithm": checksum} if checksum else {}))
    data = content(MIB + 5, "obstore")
    sent = {"Content-Type": "text/x", "Cache-Control": "max-age=60", "own": "1"}
    done = store.put("a b/ü+c", data, attributes=sent, tags={"k": "v w"})
    assert done["e_tag"] == etag(data)
    got = store.get("a b/ü+c")
    assert {name: got.attributes[name] for name in sent} == sent
    assert got.bytes() == data
    meta = store.head("a b/ü+c")
    assert (meta["path"], meta["size"], meta["e_tag"]) == ("a b/ü+c", len(data), etag(data))
    assert s3.get_object_tagging(Bucket=bucket, Key="a b/ü+c")["TagSet"] == [{"Key": "k", "Value": "v w"}]
    assert store.get_range("a b/ü+c", start=5, end=15) == data[5:15]
    assert store.get_ranges("a b/ü+c", starts=[0, MIB], lengths=[3, 5]) == [data[:3], data[MIB : MIB + 5]]
    assert store.get("a b/ü+c", options={"range": {"suffix": 9}}).bytes() == data[-9:]
    assert store.get("a b/ü+c", options={"range": {"offset": MIB}}).bytes() == data[MIB:]
    assert b"".join(bytes(part) for part in store.get("a b/ü+c")) == data


def test_conditions(store, bucket, s3):
    first = store.put("k", b"first", mode="create")
    with unchanged(), pytest.raises(AlreadyExistsError):
        store.put("k", b"second", mode="create")
    second = store.put("k", b"second", mode={"e_tag": first["e_tag"]})
    with unchanged():
        with pytest.raises(PreconditionError):
            store.put("k", b"third", mode={"e_tag": first["e_tag"]})
        with pytest.raises(NotModifiedError):
            store.get("k", options={"if_none_match": second["e_tag"]})
        with pytest.raises(PreconditionError):
            store.get("k", options={"if_match": first["e_tag"]})
    holds(s3, bucket, "k", b"second")


def test_no_increment_is_lost(store, bucket, s3):
    """Compare and swap, from four threads."""
    store.put("counter", b"0", mode="create")

    def count() -> None:
        done = 0
        while done < 10:
            read = store.get("counter")
            number = int(read.bytes().to_bytes())
            try:
                store.put("counter", b"%d" % (number + 1), mode={"e_tag": read.meta["e_tag"]})
                done += 1
            except PreconditionError:
                pass

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    holds(s3, bucket, "counter", b"40")


def test_uploads_in_parts(store, s3, bucket, tmp_path):
    data = content(2 * PART + 7, "parts")
    tag = multipart_etag([data[:PART], data[PART : 2 * PART], data[2 * PART :]])
    path = tmp_path / "file"
    path.write_bytes(data)
    pieces = [data[begin : begin + 700_001] for begin in range(0, len(data), 700_001)]
    assert store.put("bytes", data)["e_tag"] == tag
    assert store.put("path", path)["e_tag"] == tag
    assert store.put("pieces", iter(pieces))["e_tag"] == tag
    with obstore.open_writer(store, "writer", buffer_size=PART) as writer:
        for piece in pieces:
            writer.write(piece)

    async def stream() -> None:
        await store.put_async("async", await store.get_async("bytes"))

    asyncio.run(stream())
    for key in ("bytes", "path", "pieces", "writer", "async"):
        holds(s3, bucket, key, data)
    assert s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []


def test_reading_as_a_file(store):
    data = b"".join(b"line %d\n" % n for n in range(200_000))
    store.put("k", data)
    reader = obstore.open_reader(store, "k", buffer_size=100_000)
    assert reader.size == len(data)
    assert reader.readline() == b"line 0\n"
    reader.seek(MIB)
    assert reader.read(20) == data[MIB : MIB + 20] and reader.tell() == MIB + 20
    reader.seek(0)
    assert reader.read() == data
    reader.close()


def test_listings_and_deletions(store, s3, bucket):
    names = [f"a/{n:04}" for n in range(1100)]
    put_many(s3, bucket, names)
    store.put("b/c/d", b"x")
    store.put("top", b"xy")
    assert [meta["path"] for chunk in store.list("a", chunk_size=100) for meta in chunk] == names
    assert [meta["path"] for meta in store.list("a", offset="a/1097").collect()] == names[1098:]
    level = store.list_with_delimiter()
    assert (list(level["common_prefixes"]), [(m["path"], m["size"]) for m in level["objects"]]) == (["a", "b"], [("top", 2)])
    # In requests of at most 1000 keys, and without an error for what is not there.
    store.delete([*names, "missing"])
    assert keys(s3, bucket) == ["b/c/d", "top"]


def test_copies_and_renames(store, s3, bucket):
    data = content(MIB, "copies")
    store.put("from ü", data)
    store.copy("from ü", "copied")
    store.copy("from ü", "only new", overwrite=False)
    with pytest.raises(AlreadyExistsError):
        store.copy("from ü", "copied", overwrite=False)
    store.rename("from ü", "renamed")
    assert keys(s3, bucket) == ["copied", "only new", "renamed"]
    for key in ("copied", "only new", "renamed"):
        holds(s3, bucket, key, data)


def test_signed_urls(store, s3, bucket):
    minute = timedelta(minutes=1)
    put = urllib.request.Request(obstore.sign(store, "PUT", "a b/ü", minute), b"signed", method="PUT")
    with urllib.request.urlopen(put, timeout=30) as answer:
        assert answer.status == 200
    holds(s3, bucket, "a b/ü", b"signed")
    urls = obstore.sign(store, "GET", ["a b/ü"], minute)
    with urllib.request.urlopen(urls[0], timeout=30) as answer:
        assert answer.read() == b"signed"


def test_refusals(server, store, bucket):
    with unchanged():
        for call in (store.get, store.head):
            with pytest.raises(FileNotFoundError):
                call("missing")
        with pytest.raises(FileNotFoundError):
            connect(server, f"{bucket}-none").put("k", b"x")
        for login in ({"access_key_id": "AKUNKNOWN"}, {"secret_access_key": "wrong"}):
            with pytest.raises(PermissionDeniedError):
                connect(server, bucket, **login).put("k", b"x")
        with pytest.raises(PermissionDeniedError):
            connect(server, bucket, skip_signature=True).get("k")
