"""ListObjects v1 and v2: against a model in ten lines, and parameter by parameter."""

import random

import pytest
from support.data import etag
from support.expect import answer, refused
from support.unchanged import unchanged


@pytest.fixture(scope="module")
def tree(s3, raw):
    """A bucket with keys that share prefixes in many ways; read only."""
    name = "listing-model"
    s3.create_bucket(Bucket=name)
    rng = random.Random(7)
    parts = ["a", "b", "ab", "a b", "a+b", "ü", "é/", "/", "//", "-", "z", "0", "~", "\U0001f600"]
    keys = set()
    while len(keys) < 250:
        keys.add("".join(rng.choice(parts) + rng.choice(["/", "", "-"]) for _ in range(rng.randint(1, 4))))
    for key in keys:
        answer(raw.put(name, key, key.encode()), 200)
    yield name, sorted(keys, key=lambda k: k.encode())
    for start in range(0, len(keys), 1000):
        batch = [{"Key": k} for k in list(keys)[start : start + 1000]]
        s3.delete_objects(Bucket=name, Delete={"Objects": batch})
    s3.delete_bucket(Bucket=name)


def model(keys, prefix="", delimiter="", after="") -> list[tuple[str, str]]:
    """Returns what a listing must show, in order: ("key", k) and ("prefix", p)."""
    shown = []
    for key in keys:
        if not key.startswith(prefix) or (after and key.encode() <= after.encode()):
            continue
        rest = key[len(prefix) :]
        if delimiter and delimiter in rest:
            entry = ("prefix", prefix + rest[: rest.index(delimiter) + len(delimiter)])
            if after and after.encode() >= entry[1].encode() and after.startswith(entry[1]):
                continue  # everything under this prefix was passed already
        else:
            entry = ("key", key)
        if entry not in shown:
            shown.append(entry)
    return shown


def shown(page) -> list[tuple[str, str]]:
    """Returns what a page shows; keys and prefixes each keep their own order."""
    found = [("key", o["Key"]) for o in page.get("Contents", [])]
    found += [("prefix", p["Prefix"]) for p in page.get("CommonPrefixes", [])]
    return found


def by_name(entries) -> list[tuple[str, str]]:
    return sorted(entries, key=lambda e: e[1].encode())


@pytest.mark.parametrize("seed", range(30))
def test_v2_against_the_model(s3, tree, seed):
    """Random prefix, delimiter, start and page size: each entry once, in order, none missing."""
    name, keys = tree
    rng = random.Random(seed)
    prefix = rng.choice(["", "", "a", "a/", "ab", "ü", "z//", "no such"])
    delimiter = rng.choice(["", "/", "/", "-", "b", "//"])
    after = rng.choice(["", "", rng.choice(keys), "b", "\U0001f600"])
    size = rng.choice([1, 2, 3, 7, 50, 1000])
    pages, token = [], {}
    for _ in range(400):
        arguments = dict(Bucket=name, Prefix=prefix, MaxKeys=size, **token)
        if delimiter:
            arguments["Delimiter"] = delimiter
        if after and not token:
            arguments["StartAfter"] = after
        page = s3.list_objects_v2(**arguments)
        assert page["KeyCount"] == len(shown(page)) <= size
        pages.append(page)
        if not page["IsTruncated"]:
            break
        token = {"ContinuationToken": page["NextContinuationToken"]}
    found = [e for page in pages for e in by_name(shown(page))]
    assert found == by_name(model(keys, prefix, delimiter, after))


@pytest.mark.parametrize("seed", range(15))
def test_v1_against_the_model(s3, tree, seed):
    name, keys = tree
    rng = random.Random(1000 + seed)
    prefix = rng.choice(["", "a", "a/", "ü"])
    delimiter = rng.choice(["", "/", "-"])
    size = rng.choice([1, 3, 50])
    found, marker = [], ""
    for _ in range(400):
        page = s3.list_objects(Bucket=name, Prefix=prefix, Delimiter=delimiter, MaxKeys=size, Marker=marker)
        found += by_name(shown(page))
        if not page["IsTruncated"]:
            break
        assert delimiter or "NextMarker" not in page or page["NextMarker"] == page["Contents"][-1]["Key"]
        marker = page.get("NextMarker") or page["Contents"][-1]["Key"]
    assert found == by_name(model(keys, prefix, delimiter))


def test_entries_tell_the_object(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"12345")
    page = s3.list_objects_v2(Bucket=bucket, FetchOwner=True)
    entry = page["Contents"][0]
    assert (entry["Size"], entry["ETag"], entry["StorageClass"]) == (5, etag(b"12345"), "STANDARD")
    assert entry["Owner"]["ID"]
    assert "Owner" not in s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    assert s3.list_objects(Bucket=bucket)["Contents"][0]["Owner"]["ID"]


def test_echoed_parameters(raw, bucket):
    query = [("list-type", "2"), ("prefix", "p/"), ("delimiter", "/"), ("max-keys", "7"), ("start-after", "p/a")]
    root = answer(raw.request("GET", f"/{bucket}", query), 200).xml()
    assert root.tag == "ListBucketResult" and root.findtext("Name") == bucket
    assert root.findtext("Prefix") == "p/" and root.findtext("Delimiter") == "/"
    assert root.findtext("MaxKeys") == "7" and root.findtext("StartAfter") == "p/a"
    assert root.findtext("KeyCount") == "0" and root.findtext("IsTruncated") == "false"


def test_page_sizes(s3, raw, bucket):
    for n in range(3):
        s3.put_object(Bucket=bucket, Key=f"k{n}", Body=b"")
    none = s3.list_objects_v2(Bucket=bucket, MaxKeys=0)
    assert "Contents" not in none and none["IsTruncated"] is False
    capped = s3.list_objects_v2(Bucket=bucket, MaxKeys=5000)
    assert capped["MaxKeys"] == 1000 and capped["KeyCount"] == 3
    for bad in ("-1", "x", "2147483648", "99999999999999999999", "1.5"):
        with unchanged():
            reply = raw.request("GET", f"/{bucket}", [("list-type", "2"), ("max-keys", bad)])
            answer(reply, 400, "InvalidArgument")


def test_more_than_a_thousand(s3, raw, bucket):
    """1,050 keys: two pages, and the first is full."""
    from concurrent.futures import ThreadPoolExecutor

    keys = [f"n{n:04}" for n in range(1050)]
    with ThreadPoolExecutor(8) as pool:
        assert {r.status for r in pool.map(lambda k: raw.put(bucket, k, b""), keys)} == {200}
    first = s3.list_objects_v2(Bucket=bucket)
    assert first["IsTruncated"] and first["KeyCount"] == 1000
    second = s3.list_objects_v2(Bucket=bucket, ContinuationToken=first["NextContinuationToken"])
    assert not second["IsTruncated"]
    assert second["ContinuationToken"] == first["NextContinuationToken"]
    assert [o["Key"] for p in (first, second) for o in p["Contents"]] == keys


def test_bad_arguments(raw, bucket):
    for query in (
        [("list-type", "2"), ("continuation-token", "forged!")],
        [("list-type", "2"), ("continuation-token", "")],
        [("list-type", "2"), ("encoding-type", "base64")],
        [("list-type", "3")],
        [("list-type", "2"), ("marker", "a")],
        [("continuation-token", "a")],
        [("start-after", "a")],
    ):
        with unchanged():
            reply = raw.request("GET", f"/{bucket}", query)
            answer(reply, 400, "InvalidArgument")


def test_encoding_type_url(raw, bucket):
    raw.put(bucket, "a b/ü+\x01", b"")
    query = [("list-type", "2"), ("encoding-type", "url"), ("delimiter", "/"), ("prefix", "a b")]
    root = answer(raw.request("GET", f"/{bucket}", query), 200).xml()
    assert root.findtext("EncodingType") == "url"
    assert root.findtext("Prefix") in ("a+b", "a%20b")
    assert root.find("CommonPrefixes").findtext("Prefix") in ("a+b/", "a%20b/")
    query = [("list-type", "2"), ("encoding-type", "url")]
    key = raw.request("GET", f"/{bucket}", query).xml().find("Contents").findtext("Key")
    assert key in ("a+b/%C3%BC%2B%01", "a%20b/%C3%BC%2B%01")


def test_listing_follows_every_write(s3, bucket):
    """A write that was acknowledged before the listing began is in it; a deleted object is not."""
    for n in range(60):
        s3.put_object(Bucket=bucket, Key=f"k{n % 7}", Body=b"x")
        wanted = {f"k{i % 7}" for i in range(n + 1)}
        if n % 3 == 0:
            s3.delete_object(Bucket=bucket, Key=f"k{n % 7}")
            wanted_now = {o["Key"] for o in s3.list_objects_v2(Bucket=bucket).get("Contents", [])}
            assert f"k{n % 7}" not in wanted_now
            s3.put_object(Bucket=bucket, Key=f"k{n % 7}", Body=b"y")
        assert {o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]} == wanted


def test_nul_in_a_prefix_or_a_marker_of_uploads_is_in_no_key(s3, raw, bucket):
    """The rows of uploads hold the key, NUL and the id."""
    for key in ("a", "a/b", "b"):
        s3.create_multipart_upload(Bucket=bucket, Key=key)

    def listed(*query):
        root = answer(raw.request("GET", f"/{bucket}", [("uploads", ""), *query]), 200).xml()
        return [upload.findtext("Key") for upload in root.iter("Upload")]

    assert listed(("prefix", "a\0"), ("delimiter", "/")) == []
    assert listed(("prefix", "a\0")) == []
    assert listed(("key-marker", "a\0")) == ["a/b", "b"]


@pytest.mark.parametrize("query", [[], [("list-type", "2")], [("versions", "")]])
def test_unknown_attributes_are_refused(raw, bucket, query):
    """Nothing is in an archive, so the only attribute that there is tells nothing."""
    raw.put(bucket, "a", b"x")

    def asked(*values):
        headers = [("x-amz-optional-object-attributes", value) for value in values]
        return raw.request("GET", f"/{bucket}", query, headers)

    for values in [("Owner",), ("RestoreStatus,Owner",), ("RestoreStatus", "restorestatus")]:
        answer(asked(*values), 400, "InvalidArgument")
    reply = answer(asked("RestoreStatus"), 200)
    assert [key.text for key in reply.xml().iter("Key")] == ["a"] and b"RestoreStatus" not in reply.body


def test_missing_bucket(s3):
    with refused(404, "NoSuchBucket"):
        s3.list_objects(Bucket="no-such-bucket-here")
