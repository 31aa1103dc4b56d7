"""Versions through further operations: batch deletions, presigned URLs, encodings, emptying a bucket."""

from __future__ import annotations

import urllib.request

import pytest
from support.expect import absent, answer, holds, keys, refused


@pytest.fixture
def versioned(s3, make_bucket):
    bucket = make_bucket("v")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


def put(s3, bucket, key, body: bytes, **more) -> str:
    return s3.put_object(Bucket=bucket, Key=key, Body=body, **more)["VersionId"]


def pages(s3, bucket, size, **more):
    paginator = s3.get_paginator("list_object_versions")
    yield from paginator.paginate(Bucket=bucket, PaginationConfig={"PageSize": size}, **more)


def found(page):
    return page.get("Versions", []) + page.get("DeleteMarkers", [])


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_bucket_is_emptied_while_it_is_listed(s3, versioned, size):
    """As boto3's `bucket.object_versions.delete()`: a page is deleted before the next one is asked for."""
    s3.put_bucket_versioning(Bucket=versioned, VersioningConfiguration={"Status": "Suspended"})
    for key in ("a", "b/1", "b/2"):
        s3.put_object(Bucket=versioned, Key=key, Body=b"null")
    s3.put_bucket_versioning(Bucket=versioned, VersioningConfiguration={"Status": "Enabled"})
    for key in ("a", "b/1", "b/2"):
        for n in range(3):
            put(s3, versioned, key, b"%d" % n)
        s3.delete_object(Bucket=versioned, Key=key)
    assert sum(len(found(page)) for page in pages(s3, versioned, size)) == 15
    for page in pages(s3, versioned, size):
        entries = [{"Key": v["Key"], "VersionId": v["VersionId"]} for v in found(page)]
        if entries:
            deleted = s3.delete_objects(Bucket=versioned, Delete={"Objects": entries, "Quiet": True})
            assert "Errors" not in deleted
    assert [found(page) for page in pages(s3, versioned, size)] == [[]]
    s3.delete_bucket(Bucket=versioned)


def test_presigned_urls_of_versions(s3, versioned):
    first = put(s3, versioned, "k", b"first")
    put(s3, versioned, "k", b"second")
    named = {"Bucket": versioned, "Key": "k", "VersionId": first}
    url = s3.generate_presigned_url("get_object", Params=named)
    with urllib.request.urlopen(url) as reply:
        assert (reply.read(), reply.headers["x-amz-version-id"]) == (b"first", first)
    url = s3.generate_presigned_url("delete_object", Params=named)
    with urllib.request.urlopen(urllib.request.Request(url, method="DELETE")) as reply:
        assert (reply.status, reply.headers["x-amz-version-id"]) == (204, first)
    with refused(404, "NoSuchVersion"):
        s3.get_object(**named)
    holds(s3, versioned, "k", b"second")


def test_names_are_encoded_if_asked(raw, s3, versioned):
    name = "ü b&c/d+e"
    ids = [put(s3, versioned, name, b"%d" % n) for n in range(2)]
    query = [("encoding-type", "url"), ("max-keys", "1"), ("versions", "")]
    page = raw.request("GET", f"/{versioned}", query).xml()
    encoded = "%C3%BC+b%26c/d%2Be"
    assert page.findtext("{*}EncodingType") == "url"
    assert page.findtext("{*}Version/{*}Key").replace("%20", "+") == encoded
    assert page.findtext("{*}NextKeyMarker").replace("%20", "+") == encoded
    assert page.findtext("{*}NextVersionIdMarker") == ids[1]
    assert [v["VersionId"] for page in pages(s3, versioned, 1) for v in found(page)] == ids[::-1]


def test_nul_in_a_prefix_or_a_marker_is_in_no_key(raw, s3, versioned):
    """The rows of versions hold the key, NUL and the name of the version."""
    for key in ("a", "b"):
        ids = [put(s3, versioned, key, b"%d" % n) for n in range(3)]

    def listed(*query):
        root = answer(raw.request("GET", f"/{versioned}", [("versions", ""), *query]), 200).xml()
        return [version.findtext("VersionId") for version in root.iter("Version")]

    assert listed(("prefix", "a\0")) == []
    assert listed(("prefix", "a\0"), ("delimiter", "/")) == []
    assert listed(("key-marker", "a\0")) == ids[::-1]


def test_the_null_version_across_many_pages(s3, make_bucket):
    bucket = make_bucket("v")
    mode = lambda status: s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})
    s3.put_object(Bucket=bucket, Key="k", Body=b"0")
    mode("Enabled")
    ids = [put(s3, bucket, "k", b"x") for _ in range(3)]
    expected = [*ids[::-1], "null"]
    for size in (1, 2, 3, 4):
        assert [v["VersionId"] for page in pages(s3, bucket, size) for v in found(page)] == expected
    mode("Suspended")
    s3.put_object(Bucket=bucket, Key="k", Body=b"null")
    mode("Enabled")
    ids += [put(s3, bucket, "k", b"x") for _ in range(2)]
    expected = [ids[4], ids[3], "null", ids[2], ids[1], ids[0]]
    for size in (1, 2, 3, 4, 6):
        assert [v["VersionId"] for page in pages(s3, bucket, size) for v in found(page)] == expected
    page = s3.list_object_versions(Bucket=bucket, KeyMarker="k", VersionIdMarker="null")
    assert [(v["VersionId"], v["IsLatest"]) for v in page["Versions"]] == [(v, False) for v in ids[2::-1]]
    # The rest is not listed after a version that was deleted.
    s3.delete_object(Bucket=bucket, Key="k", VersionId="null")
    s3.delete_object(Bucket=bucket, Key="k", VersionId=ids[4])
    page = s3.list_object_versions(Bucket=bucket)
    assert [(v["VersionId"], v["IsLatest"]) for v in page["Versions"]] == [
        (v, v == ids[3]) for v in (ids[3], ids[2], ids[1], ids[0])
    ]


def test_a_version_of_many_parts_is_read_after_others_replace_it(s3, versioned):
    part = b"p" * (5 << 20)
    upload = s3.create_multipart_upload(Bucket=versioned, Key="k")["UploadId"]
    named = {"Bucket": versioned, "Key": "k", "UploadId": upload}
    tags = [s3.upload_part(**named, PartNumber=n, Body=part)["ETag"] for n in (1, 2)]
    parts = {"Parts": [{"PartNumber": n, "ETag": tag} for n, tag in zip((1, 2), tags)]}
    first = s3.complete_multipart_upload(**named, MultipartUpload=parts)["VersionId"]
    put(s3, versioned, "k", b"small")
    s3.delete_object(Bucket=versioned, Key="k")
    absent(s3, versioned, "k")
    assert keys(s3, versioned) == []
    got = s3.get_object(Bucket=versioned, Key="k", VersionId=first, Range=f"bytes={5 << 20}-{(5 << 20) + 9}")
    assert got["Body"].read() == part[:10]
    assert len(s3.get_object(Bucket=versioned, Key="k", VersionId=first)["Body"].read()) == 2 * len(part)
    of = s3.get_object_attributes(
        Bucket=versioned, Key="k", VersionId=first, ObjectAttributes=["ObjectSize", "ObjectParts"]
    )
    assert (of["ObjectSize"], of["ObjectParts"]["TotalPartsCount"]) == (2 * len(part), 2)
