"""PutObject, GetObject, HeadObject, DeleteObject: content, headers, ranges, preconditions."""

import datetime
from email.utils import format_datetime, parsedate_to_datetime

import pytest
from support.data import KIB, MIB, content, etag
from support.expect import absent, answer, holds, refused
from support.unchanged import unchanged

SIZES = [0, 1, 3 * KIB, 3 * KIB + 1, 20 * KIB, MIB - 1, MIB, MIB + 1, 5 * MIB + 7]


@pytest.mark.parametrize("size", SIZES)
def test_round_trip(s3, bucket, size):
    data = content(size, f"round-{size}")
    put = s3.put_object(Bucket=bucket, Key="k", Body=data)
    assert put["ETag"] == etag(data)
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["ContentLength"] == size and got["ETag"] == etag(data)
    assert got["Body"].read() == data
    assert got["AcceptRanges"] == "bytes"
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["ContentLength"] == size and head["ETag"] == etag(data)


def test_compressible_content(s3, bucket):
    data = b"the same line again and again\n" * 200_000
    assert s3.put_object(Bucket=bucket, Key="k", Body=data)["ETag"] == etag(data)
    holds(s3, bucket, "k", data)
    part = s3.get_object(Bucket=bucket, Key="k", Range="bytes=4000000-4000099")
    assert part["Body"].read() == data[4000000:4000100]


def test_overwrite_is_whole(s3, bucket):
    for size in (2 * MIB, 10, 0, 64 * KIB):
        data = content(size, f"over-{size}")
        s3.put_object(Bucket=bucket, Key="k", Body=data)
        holds(s3, bucket, "k", data)
    assert len(s3.list_objects_v2(Bucket=bucket)["Contents"]) == 1


def test_same_content_under_two_keys(s3, bucket):
    """One copy deleted must leave the other whole."""
    data = content(3 * MIB, "twin")
    s3.put_object(Bucket=bucket, Key="a", Body=data)
    s3.put_object(Bucket=bucket, Key="b", Body=data)
    s3.delete_object(Bucket=bucket, Key="a")
    holds(s3, bucket, "b", data)
    s3.put_object(Bucket=bucket, Key="a", Body=data)
    s3.delete_object(Bucket=bucket, Key="b")
    holds(s3, bucket, "a", data)


def test_missing_key(s3, raw, bucket):
    with refused(404, "NoSuchKey"):
        s3.get_object(Bucket=bucket, Key="missing")
    head = raw.head(bucket, "missing")
    assert head.status == 404 and head.body == b""
    assert s3.delete_object(Bucket=bucket, Key="missing")["ResponseMetadata"]["HTTPStatusCode"] == 204


def test_delete(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert s3.delete_object(Bucket=bucket, Key="k")["ResponseMetadata"]["HTTPStatusCode"] == 204
    absent(s3, bucket, "k")


def test_last_modified(s3, bucket):
    before = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    seen = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    after = datetime.datetime.now(datetime.timezone.utc)
    assert before <= seen <= after
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"][0]["LastModified"]
    assert listed.replace(microsecond=0) == seen


# Headers


def test_system_and_user_metadata(s3, bucket):
    wanted = {
        "CacheControl": "max-age=17, private",
        "ContentDisposition": 'attachment; filename="a b.txt"',
        "ContentEncoding": "gzip",
        "ContentLanguage": "de, en",
        "ContentType": "text/plain; charset=utf-8",
    }
    expires = datetime.datetime(2031, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    metadata = {"colour": "blue", "empty": "", "long-name": "v" * 500, "punctuation": "a=b; c,d \"e\""}
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Expires=expires, Metadata=metadata, **wanted)
    for reply in (s3.get_object(Bucket=bucket, Key="k"), s3.head_object(Bucket=bucket, Key="k")):
        assert {name: reply[name] for name in wanted} == wanted
        assert reply["Metadata"] == metadata
        assert reply["Expires"] == expires


def test_default_content_type(raw, s3, bucket):
    answer(raw.put(bucket, "k", b"x"), 200)
    assert s3.head_object(Bucket=bucket, Key="k")["ContentType"] == "binary/octet-stream"


def test_overwriting_replaces_metadata(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"a": "1"}, ContentType="text/a")
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"b": "2"})
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["Metadata"] == {"b": "2"} and head["ContentType"] != "text/a"


def test_metadata_names_are_lower_case(raw, bucket):
    answer(raw.put(bucket, "k", b"x", [("X-Amz-Meta-MiXed", "Value")]), 200)
    assert raw.head(bucket, "k").headers["x-amz-meta-mixed"] == "Value"


def test_metadata_of_two_kib(s3, bucket, nothing_changes):
    """Names (without the prefix) and values together: 2048 bytes fit, one more does not."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"name": "v" * 2044})
    assert len(s3.head_object(Bucket=bucket, Key="k")["Metadata"]["name"]) == 2044
    with nothing_changes():
        with refused(400, "MetadataTooLarge"):
            s3.put_object(Bucket=bucket, Key="more", Body=b"x", Metadata={"name": "v" * 2049})
    absent(s3, bucket, "more")


def test_non_ascii_metadata_is_refused_or_kept(raw, bucket):
    """Raw UTF-8 in a header: an error, or exactly what was sent; never something else."""
    value = "ü€".encode().decode("latin-1")
    reply = raw.put(bucket, "k", b"x", [("x-amz-meta-name", value)])
    if reply.status == 200:
        assert raw.head(bucket, "k").headers["x-amz-meta-name"] == value
    else:
        assert reply.status in (400, 403), reply.brief()
        with unchanged():
            answer(raw.head(bucket, "k"), 404)


@pytest.mark.parametrize("name", ["STANDARD", "STANDARD_IA", "REDUCED_REDUNDANCY", "INTELLIGENT_TIERING"])
def test_storage_class_is_accepted(s3, bucket, name):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", StorageClass=name)
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"][0]["StorageClass"]
    assert listed in (name, "STANDARD")


# The last two are for other kinds of buckets.
@pytest.mark.parametrize("name", ["NO_SUCH_CLASS", "EXPRESS_ONEZONE", "OUTPOSTS"])
def test_unknown_storage_class_is_refused(raw, s3, bucket, name, nothing_changes):
    with nothing_changes():
        reply = raw.put(bucket, "k", b"x", [("x-amz-storage-class", name)])
    answer(reply, 400, "InvalidStorageClass")
    absent(s3, bucket, "k")


def test_response_overrides(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ContentType="text/plain", CacheControl="no-store")
    overrides = {
        "ResponseCacheControl": "max-age=1",
        "ResponseContentDisposition": "inline",
        "ResponseContentEncoding": "br",
        "ResponseContentLanguage": "fr",
        "ResponseContentType": "application/x-test",
        "ResponseExpires": datetime.datetime(2030, 1, 1, tzinfo=datetime.timezone.utc),
    }
    got = s3.get_object(Bucket=bucket, Key="k", **overrides)
    for name, value in overrides.items():
        assert got[name.removeprefix("Response")] == value
    assert s3.head_object(Bucket=bucket, Key="k")["ContentType"] == "text/plain"


# Integrity


def test_content_md5(s3, bucket, nothing_changes):
    import base64
    import hashlib

    data = b"to be checked"
    right = base64.b64encode(hashlib.md5(data).digest()).decode()
    s3.put_object(Bucket=bucket, Key="k", Body=data, ContentMD5=right)
    wrong = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    with nothing_changes():
        with refused(400, "BadDigest"):
            s3.put_object(Bucket=bucket, Key="bad", Body=data, ContentMD5=wrong)
        absent(s3, bucket, "bad")
        for malformed in ("short", "AAAA", "!" * 24, ""):
            with refused(400, "InvalidDigest"):
                s3.put_object(Bucket=bucket, Key="bad", Body=data, ContentMD5=malformed)
        with refused(400, "BadDigest"):
            s3.put_object(Bucket=bucket, Key="k", Body=b"new", ContentMD5=wrong)
    holds(s3, bucket, "k", data)


def test_object_above_five_gib_is_refused_unread(raw, s3, bucket, nothing_changes):
    """The announced length alone is reason enough; the body is never sent."""
    headers = [("Content-Length", str(5 * 1024 * MIB + 1))]
    with nothing_changes():
        reply = raw.put(bucket, "k", b"", headers, payload_hash="UNSIGNED-PAYLOAD")
    answer(reply, 400, "EntityTooLarge")
    absent(s3, bucket, "k")


# Ranges

RANGES = [
    ("bytes=0-0", 0, 1),
    ("bytes=0-9", 0, 10),
    ("bytes=5-", 5, None),
    ("bytes=-7", -7, None),
    ("bytes=1048570-1048581", 1048570, 1048582),
    ("bytes=1048576-1048576", 1048576, 1048577),
    ("bytes=100-99999999", 100, None),
    ("bytes=-99999999", 0, None),
]


@pytest.mark.parametrize("text,start,end", RANGES)
def test_ranges(s3, bucket, text, start, end):
    data = content(2 * MIB + 100, "ranges")
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    wanted = data[start:end]
    for call in (s3.get_object, s3.head_object):
        got = call(Bucket=bucket, Key="k", Range=text)
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
        assert got["ContentLength"] == len(wanted)
        first = start if start >= 0 else len(data) + start
        last = first + len(wanted) - 1
        assert got["ContentRange"] == f"bytes {first}-{last}/{len(data)}"
        assert got["ETag"] == etag(data)
    assert s3.get_object(Bucket=bucket, Key="k", Range=text)["Body"].read() == wanted


@pytest.mark.parametrize("text", ["bytes=10-", "bytes=10-20", "bytes=99-", "bytes=-0"])
def test_ranges_that_cannot_be_satisfied(s3, bucket, text):
    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    with refused(416, "InvalidRange"):
        s3.get_object(Bucket=bucket, Key="k", Range=text)


@pytest.mark.parametrize("text", ["bytes=5-2", "items=0-1", "bytes=a-b", "bytes=", "0-1", "bytes=0-1,4-5"])
def test_ranges_that_make_no_sense_are_ignored(raw, bucket, text):
    raw.put(bucket, "k", b"0123456789")
    reply = answer(raw.get(bucket, "k", [("Range", text)]), 200)
    assert reply.body == b"0123456789"


def test_range_of_an_empty_object(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    with refused(416, "InvalidRange"):
        s3.get_object(Bucket=bucket, Key="k", Range="bytes=0-0")


# Preconditions on reading


def test_if_match(s3, bucket):
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch=tag)["ETag"] == tag
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch=tag.strip('"'))["ETag"] == tag
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch="*")["ETag"] == tag
    with refused(412, "PreconditionFailed"):
        s3.get_object(Bucket=bucket, Key="k", IfMatch=etag(b"other"))
    with refused(412):
        s3.head_object(Bucket=bucket, Key="k", IfMatch=etag(b"other"))


def test_if_none_match(raw, bucket):
    tag = raw.put(bucket, "k", b"x").headers["etag"]
    for method in (raw.get, raw.head):
        reply = answer(method(bucket, "k", [("If-None-Match", tag)]), 304)
        assert reply.body == b"" and reply.headers["etag"] == tag
        answer(method(bucket, "k", [("If-None-Match", etag(b"other"))]), 200)
        answer(method(bucket, "k", [("If-None-Match", f'{etag(b"other")}, {tag}')]), 304)
        answer(method(bucket, "k", [("If-None-Match", "*")]), 304)


def test_modified_since(raw, bucket):
    raw.put(bucket, "k", b"x")
    modified = parsedate_to_datetime(raw.head(bucket, "k").headers["last-modified"])
    earlier = format_datetime(modified - datetime.timedelta(hours=1), usegmt=True)
    same = format_datetime(modified, usegmt=True)
    later = format_datetime(modified + datetime.timedelta(hours=1), usegmt=True)
    answer(raw.get(bucket, "k", [("If-Modified-Since", earlier)]), 200)
    answer(raw.get(bucket, "k", [("If-Modified-Since", later)]), 200)  # S3 ignores the future.
    answer(raw.get(bucket, "k", [("If-Modified-Since", same)]), 304)
    answer(raw.get(bucket, "k", [("If-Unmodified-Since", same)]), 200)
    with unchanged():
        answer(raw.get(bucket, "k", [("If-Unmodified-Since", earlier)]), 412, "PreconditionFailed")
        answer(raw.head(bucket, "k", [("If-Unmodified-Since", earlier)]), 412)
    answer(raw.get(bucket, "k", [("If-Modified-Since", "no date")]), 200)


def test_combined_preconditions(raw, bucket):
    """A tag that decides overrules the date, as RFC 7232 and AWS say."""
    tag = raw.put(bucket, "k", b"x").headers["etag"]
    modified = parsedate_to_datetime(raw.head(bucket, "k").headers["last-modified"])
    earlier = format_datetime(modified - datetime.timedelta(hours=1), usegmt=True)
    answer(raw.get(bucket, "k", [("If-Match", tag), ("If-Unmodified-Since", earlier)]), 200)
    answer(raw.get(bucket, "k", [("If-None-Match", tag), ("If-Modified-Since", earlier)]), 304)


# Many at once


def test_parallel_readers_and_writers(s3, bucket):
    """Readers beside writers see one version or another, never a mixture."""
    from concurrent.futures import ThreadPoolExecutor

    versions = [content(700 * KIB + n, f"version-{n}") for n in range(8)]
    s3.put_object(Bucket=bucket, Key="k", Body=versions[0])

    def step(n: int) -> bool:
        if n % 2:
            s3.put_object(Bucket=bucket, Key="k", Body=versions[n % 8])
            return True
        return s3.get_object(Bucket=bucket, Key="k")["Body"].read() in versions

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(step, range(80)))


def test_reads_ignore_unknown_parameters(raw, bucket):
    """Links to fonts and styles have them: `font.eot?iefix`, `site.css?v=`."""
    raw.put(bucket, "font.eot", b"x")
    for query in ([("iefix", "")], [("v", "")], [("1732680000", ""), ("x", "1")]):
        for method in ("GET", "HEAD"):
            answer(raw.request(method, f"/{bucket}/font.eot", query), 200)
        answer(raw.request("GET", f"/{bucket}", query), 200)
    with unchanged():
        answer(raw.request("PUT", f"/{bucket}/font.eot", [("iefix", "")], body=b"y"), 501, "NotImplemented")


def test_the_first_part_of_an_empty_object_is_the_whole(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    for got in (
        s3.get_object(Bucket=bucket, Key="k", PartNumber=1),
        s3.head_object(Bucket=bucket, Key="k", PartNumber=1),
    ):
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 200
        assert got["ContentLength"] == 0 and "ContentRange" not in got


def test_listings_and_heads_tell_one_time(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    (listed,) = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert listed["LastModified"] == s3.head_object(Bucket=bucket, Key="k")["LastModified"]


def test_content_encoding_stays_as_it_was_given(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ContentEncoding="gzip, deflate")
    assert s3.head_object(Bucket=bucket, Key="k")["ContentEncoding"] == "gzip, deflate"


def test_attributes_that_did_not_change(raw, bucket):
    raw.put(bucket, "k", b"x")
    headers = [("x-amz-object-attributes", "ETag"), ("If-None-Match", etag(b"x"))]
    answer(raw.request("GET", f"/{bucket}/k", [("attributes", "")], headers), 304)


def test_other_authorisations(raw, bucket):
    reply = raw.request("GET", f"/{bucket}", headers=[("Authorization", "Bearer token")], anonymous=True)
    answer(reply, 400, "InvalidArgument")
    assert b"token" not in reply.body
