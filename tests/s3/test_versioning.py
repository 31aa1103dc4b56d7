"""Buckets with versions, as AWS documents them."""

from __future__ import annotations

import pytest
from support.expect import absent, answer, holds, keys, refused
from support.sigv4 import object_path
from support.unchanged import unchanged


def set_versioning(s3, bucket, status):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})


@pytest.fixture
def bucket(make_bucket):
    """A bucket that no other test uses: versioning never ends."""
    return make_bucket("v")


@pytest.fixture
def versioned(s3, bucket):
    set_versioning(s3, bucket, "Enabled")
    return bucket


def put(s3, bucket, key, body: bytes, **more) -> str | None:
    return s3.put_object(Bucket=bucket, Key=key, Body=body, **more).get("VersionId")


def listed(s3, bucket, size=1000, **more):
    """(key, id, is marker, is latest) of all versions, in the order of the listing."""
    paginator = s3.get_paginator("list_object_versions")
    found = []
    for page in paginator.paginate(Bucket=bucket, PaginationConfig={"PageSize": size}, **more):
        both = [(v, False) for v in page.get("Versions", [])] + [(v, True) for v in page.get("DeleteMarkers", [])]
        # boto3 sorts them into two lists; within a key the order of time is that of the listing.
        found += [(v["Key"], v["VersionId"], marker, v["IsLatest"]) for v, marker in both]
    return found


def test_the_state_of_a_bucket(s3, raw, bucket):
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    for status in ("Enabled", "Suspended", "Enabled"):
        set_versioning(s3, bucket, status)
        assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == status
    with refused(501, "NotImplemented"):
        s3.put_bucket_versioning(
            Bucket=bucket, VersioningConfiguration={"Status": "Enabled", "MFADelete": "Enabled"}, MFA="1 2"
        )
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled", "MFADelete": "Disabled"})
    start, end = '<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">', "</VersioningConfiguration>"
    for body, code in (
        ("<Status>On</Status>", "MalformedXML"),
        ("", "IllegalVersioningConfigurationException"),
        ("<Other/>", "MalformedXML"),
    ):
        with unchanged():
            reply = raw.request("PUT", f"/{bucket}", [("versioning", "")], body=(start + body + end).encode())
            answer(reply, 400, code)


def test_every_write_makes_a_version(s3, versioned):
    ids = [put(s3, versioned, "k", b"%d" % n) for n in range(5)]
    assert len(set(ids)) == 5 and "null" not in ids
    holds(s3, versioned, "k", b"4")
    for n, version in enumerate(ids):
        got = s3.get_object(Bucket=versioned, Key="k", VersionId=version)
        assert (got["Body"].read(), got["VersionId"]) == (b"%d" % n, version)
        head = s3.head_object(Bucket=versioned, Key="k", VersionId=version)
        assert (head["VersionId"], head["ContentLength"]) == (version, 1)
    assert s3.head_object(Bucket=versioned, Key="k")["VersionId"] == ids[-1]
    for size in (1, 2, 1000):
        assert listed(s3, versioned, size) == [("k", v, False, v == ids[-1]) for v in reversed(ids)]


def test_a_delete_marker_hides_the_object(s3, raw, versioned):
    first = put(s3, versioned, "k", b"x")
    deleted = s3.delete_object(Bucket=versioned, Key="k")
    assert deleted["DeleteMarker"] is True
    marker = deleted["VersionId"]
    absent(s3, versioned, "k")
    with unchanged():
        reply = answer(raw.request("GET", object_path(versioned, "k")), 404, "NoSuchKey")
    assert reply.headers["x-amz-delete-marker"] == "true"
    assert reply.headers["x-amz-version-id"] == marker
    for method in ("GET", "HEAD"):
        with unchanged():
            reply = raw.request(method, object_path(versioned, "k"), [("versionId", marker)])
            assert reply.status == 405, reply.brief()
        assert reply.headers["x-amz-delete-marker"] == "true"
        assert reply.headers["allow"] == "DELETE"
        assert "last-modified" in reply.headers
    with refused(405, "MethodNotAllowed"):
        s3.put_object_tagging(Bucket=versioned, Key="k", VersionId=marker, Tagging={"TagSet": []})
    with refused(400, "InvalidRequest"):
        s3.copy_object(Bucket=versioned, Key="c", CopySource={"Bucket": versioned, "Key": "k", "VersionId": marker})
    with refused(404, "NoSuchKey"):
        s3.copy_object(Bucket=versioned, Key="c", CopySource={"Bucket": versioned, "Key": "k"})
    assert sorted(listed(s3, versioned)) == sorted([("k", marker, True, True), ("k", first, False, False)])
    # Deleting the marker brings the object back.
    gone = s3.delete_object(Bucket=versioned, Key="k", VersionId=marker)
    assert (gone["DeleteMarker"], gone["VersionId"]) == (True, marker)
    holds(s3, versioned, "k", b"x")
    assert listed(s3, versioned) == [("k", first, False, True)]
    # A marker needs no object.
    again = s3.delete_object(Bucket=versioned, Key="never")
    assert again["DeleteMarker"] is True
    assert ("never", again["VersionId"], True, True) in listed(s3, versioned)


def test_deleting_versions(s3, versioned):
    ids = [put(s3, versioned, "k", b"%d" % n) for n in range(4)]
    named = {"Bucket": versioned, "Key": "k"}
    gone = s3.delete_object(**named, VersionId=ids[1])
    assert gone["VersionId"] == ids[1] and "DeleteMarker" not in gone
    holds(s3, versioned, "k", b"3")
    s3.delete_object(**named, VersionId=ids[3])
    holds(s3, versioned, "k", b"2")
    assert s3.head_object(**named)["VersionId"] == ids[2]
    s3.delete_object(**named, VersionId=ids[3])  # once more
    with refused(404, "NoSuchVersion"):
        s3.get_object(**named, VersionId=ids[3])
    assert listed(s3, versioned) == [("k", ids[2], False, True), ("k", ids[0], False, False)]
    for version in (ids[0], ids[2]):
        s3.delete_object(**named, VersionId=version)
    absent(s3, versioned, "k")
    assert listed(s3, versioned) == []


def test_several_versions_of_one_key_at_once(s3, bucket):
    """As concurrent requests, the deletion of the null version would be overtaken by that of the key."""
    kinds = range(4)
    for kind in kinds:
        put(s3, bucket, f"k{kind}", b"null")
    set_versioning(s3, bucket, "Enabled")
    ids = [put(s3, bucket, f"k{kind}", b"named") for kind in kinds]
    null, bare = {"VersionId": "null"}, {}
    wanted = []
    for kind, order in enumerate([(null, bare), (bare, null), (null, {"VersionId": ids[2]}), (null, null)]):
        wanted += [{"Key": f"k{kind}", **entry} for entry in order]
    deleted = s3.delete_objects(Bucket=bucket, Delete={"Objects": wanted})
    assert "Errors" not in deleted
    told = [(entry["Key"], entry.get("VersionId")) for entry in deleted["Deleted"]]
    assert told == [(entry["Key"], entry.get("VersionId")) for entry in wanted]
    left = {(key, marker, version) for key, version, marker, _ in listed(s3, bucket)}
    named = {(f"k{kind}", False, ids[kind]) for kind in (0, 1, 3)}
    assert {entry for entry in left if not entry[1]} == named
    assert sorted(key for key, marker, _ in left if marker) == ["k0", "k1"]


def test_many_at_once(s3, versioned):
    ids = {key: put(s3, versioned, key, key.encode()) for key in ("a", "b", "c")}
    objects = [{"Key": "a"}, {"Key": "b", "VersionId": ids["b"]}, {"Key": "none"}]
    deleted = s3.delete_objects(Bucket=versioned, Delete={"Objects": objects})
    assert "Errors" not in deleted
    of = {entry["Key"]: entry for entry in deleted["Deleted"]}
    assert of["a"]["DeleteMarker"] and of["a"]["DeleteMarkerVersionId"] != ids["a"]
    assert of["b"] == {"Key": "b", "VersionId": ids["b"]}
    marker = of["none"]["DeleteMarkerVersionId"]
    again = s3.delete_objects(Bucket=versioned, Delete={"Objects": [{"Key": "none", "VersionId": marker}]})
    assert again["Deleted"] == [
        {"Key": "none", "VersionId": marker, "DeleteMarker": True, "DeleteMarkerVersionId": marker}
    ]
    assert keys(s3, versioned) == ["c"]


def test_null_versions(s3, bucket):
    put(s3, bucket, "k", b"before")
    set_versioning(s3, bucket, "Enabled")
    assert s3.head_object(Bucket=bucket, Key="k")["VersionId"] == "null"
    second = put(s3, bucket, "k", b"second")
    assert s3.get_object(Bucket=bucket, Key="k", VersionId="null")["Body"].read() == b"before"
    set_versioning(s3, bucket, "Suspended")
    put(s3, bucket, "k", b"third")
    # There is one null version, and it was replaced.
    assert s3.get_object(Bucket=bucket, Key="k", VersionId="null")["Body"].read() == b"third"
    assert listed(s3, bucket) == [("k", "null", False, True), ("k", second, False, False)]
    deleted = s3.delete_object(Bucket=bucket, Key="k")
    assert (deleted["DeleteMarker"], deleted["VersionId"]) == (True, "null")
    absent(s3, bucket, "k")
    assert sorted(listed(s3, bucket)) == sorted([("k", "null", True, True), ("k", second, False, False)])
    set_versioning(s3, bucket, "Enabled")
    fourth = put(s3, bucket, "k", b"fourth")
    assert sorted(listed(s3, bucket)) == sorted(
        [("k", fourth, False, True), ("k", "null", True, False), ("k", second, False, False)]
    )
    s3.delete_object(Bucket=bucket, Key="k", VersionId="null")
    assert listed(s3, bucket) == [("k", fourth, False, True), ("k", second, False, False)]


def test_conditions_are_about_the_current_version(s3, versioned):
    put(s3, versioned, "k", b"x")
    tag = s3.head_object(Bucket=versioned, Key="k")["ETag"]
    with refused(412, "PreconditionFailed"):
        put(s3, versioned, "k", b"y", IfNoneMatch="*")
    with refused(412, "PreconditionFailed"):
        put(s3, versioned, "k", b"y", IfMatch='"other"')
    second = put(s3, versioned, "k", b"y", IfMatch=tag)
    with refused(412, "PreconditionFailed"):
        s3.delete_object(Bucket=versioned, Key="k", IfMatch=tag)
    s3.delete_object(Bucket=versioned, Key="k")
    with refused(404, "NoSuchKey"):
        put(s3, versioned, "k", b"z", IfMatch=tag)
    third = put(s3, versioned, "k", b"z", IfNoneMatch="*")
    assert len({second, third}) == 2
    holds(s3, versioned, "k", b"z")
    assert len(listed(s3, versioned)) == 4


def test_other_ways_to_write(s3, versioned):
    first = put(s3, versioned, "k", b"x", Metadata={"a": "1"})
    second = put(s3, versioned, "k", b"yy")
    source = {"Bucket": versioned, "Key": "k", "VersionId": first}
    copied = s3.copy_object(Bucket=versioned, Key="copy", CopySource=source)
    assert copied["CopySourceVersionId"] == first and copied["VersionId"]
    holds(s3, versioned, "copy", b"x")
    # An old version becomes the current one again.
    restored = s3.copy_object(Bucket=versioned, Key="k", CopySource=source)["VersionId"]
    assert s3.head_object(Bucket=versioned, Key="k")["Metadata"] == {"a": "1"}
    assert [v for _, v, _, _ in listed(s3, versioned, Prefix="k")] == [restored, second, first]

    upload = s3.create_multipart_upload(Bucket=versioned, Key="k")["UploadId"]
    named = {"Bucket": versioned, "Key": "k", "UploadId": upload}
    part = s3.upload_part_copy(**named, PartNumber=1, CopySource={**source, "VersionId": second})
    assert part["CopySourceVersionId"] == second
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["CopyPartResult"]["ETag"]}]}
    completed = s3.complete_multipart_upload(**named, MultipartUpload=parts)
    assert completed["VersionId"]
    assert s3.head_object(Bucket=versioned, Key="k")["VersionId"] == completed["VersionId"]
    got = s3.get_object(Bucket=versioned, Key="k", VersionId=completed["VersionId"])
    assert got["Body"].read() == b"yy"


def test_tags_and_attributes_of_versions(s3, versioned):
    first, second = put(s3, versioned, "k", b"x", Tagging="n=1"), put(s3, versioned, "k", b"yy")
    tags = {"TagSet": [{"Key": "n", "Value": "2"}]}
    set_ = s3.put_object_tagging(Bucket=versioned, Key="k", VersionId=first, Tagging=tags)
    assert set_["VersionId"] == first
    got = s3.get_object_tagging(Bucket=versioned, Key="k", VersionId=first)
    assert (got["TagSet"], got["VersionId"]) == (tags["TagSet"], first)
    assert s3.get_object_tagging(Bucket=versioned, Key="k")["TagSet"] == []
    assert s3.put_object_tagging(Bucket=versioned, Key="k", Tagging=tags)["VersionId"] == second
    s3.delete_object_tagging(Bucket=versioned, Key="k", VersionId=first)
    assert s3.get_object_tagging(Bucket=versioned, Key="k")["TagSet"] == tags["TagSet"]
    of = s3.get_object_attributes(Bucket=versioned, Key="k", VersionId=first, ObjectAttributes=["ObjectSize"])
    assert (of["ObjectSize"], of["VersionId"]) == (1, first)


def test_listing_with_prefix_delimiter_and_markers(s3, versioned):
    names = ["a", "d/1", "d/2", "e/1", "z ü"]
    for name in names:
        for n in range(3):
            put(s3, versioned, name, b"%d" % n)
    page = s3.list_object_versions(Bucket=versioned, Delimiter="/")
    assert [p["Prefix"] for p in page["CommonPrefixes"]] == ["d/", "e/"]
    assert [v["Key"] for v in page["Versions"]] == ["a"] * 3 + ["z ü"] * 3
    whole = listed(s3, versioned)
    assert [key for key, *_ in whole] == [name for name in names for _ in range(3)]
    for size in (1, 2, 4, 7):
        assert listed(s3, versioned, size) == whole
        assert listed(s3, versioned, size, Prefix="d/") == whole[3:9]
    for at, (key, version, _, _) in enumerate(whole):
        page = s3.list_object_versions(Bucket=versioned, KeyMarker=key, VersionIdMarker=version)
        assert [v["VersionId"] for v in page.get("Versions", [])] == [v for _, v, _, _ in whole[at + 1 :]]
        page = s3.list_object_versions(Bucket=versioned, KeyMarker=key)
        assert {v["Key"] for v in page.get("Versions", [])} == {k for k in names if k > key}
    with refused(400, "InvalidArgument"):
        s3.list_object_versions(Bucket=versioned, VersionIdMarker=whole[0][1])


def test_a_bucket_with_versions_left_is_not_deleted(s3, versioned):
    put(s3, versioned, "k", b"x")
    s3.delete_object(Bucket=versioned, Key="k")
    assert keys(s3, versioned) == []
    with refused(409, "BucketNotEmpty"):
        s3.delete_bucket(Bucket=versioned)
    first, second = listed(s3, versioned)
    for key, version, marker, _ in (first, second):
        if not marker:
            s3.delete_object(Bucket=versioned, Key=key, VersionId=version)
    with refused(409, "BucketNotEmpty"):
        s3.delete_bucket(Bucket=versioned)
