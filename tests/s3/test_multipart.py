"""The seven multipart operations."""

import pytest
from support.data import KIB, MIB, content, etag, multipart_etag
from support.expect import absent, answer, holds, keys, refused
from support.sigv4 import object_path
from support.unchanged import unchanged


def start(s3, bucket, key="k", **more) -> str:
    return s3.create_multipart_upload(Bucket=bucket, Key=key, **more)["UploadId"]


def add(s3, bucket, upload, number, data, key="k", **more) -> dict:
    reply = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=data, **more)
    return {"PartNumber": number, "ETag": reply["ETag"]}


def complete(s3, bucket, upload, parts, key="k", **more) -> dict:
    return s3.complete_multipart_upload(
        Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts}, **more
    )


def test_whole_life(s3, bucket):
    data = [content(5 * MIB, "p1"), content(6 * MIB + 3, "p2"), content(100, "p3")]
    upload = start(s3, bucket, ContentType="text/x", Metadata={"a": "1"}, CacheControl="no-cache")
    parts = [add(s3, bucket, upload, n, d) for n, d in enumerate(data, 1)]
    assert parts[0]["ETag"] == etag(data[0])
    absent(s3, bucket, "k")
    done = complete(s3, bucket, upload, parts)
    assert done["ETag"] == multipart_etag(data) and done["Bucket"] == bucket and done["Key"] == "k"
    assert done["Location"].endswith(f"/{bucket}/k")
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["ETag"] == multipart_etag(data) and head["ContentType"] == "text/x"
    assert head["Metadata"] == {"a": "1"} and head["CacheControl"] == "no-cache"
    whole = b"".join(data)
    holds(s3, bucket, "k", whole)
    edge = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={5 * MIB - 5}-{11 * MIB + 10}")
    assert edge["Body"].read() == whole[5 * MIB - 5 : 11 * MIB + 11]
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_parts_out_of_order_with_gaps_and_again(s3, bucket):
    one, two = content(5 * MIB, "one"), content(1000, "two")
    upload = start(s3, bucket)
    last = add(s3, bucket, upload, 900, two)
    add(s3, bucket, upload, 7, content(5 * MIB, "replaced"))
    first = add(s3, bucket, upload, 7, one)
    add(s3, bucket, upload, 300, content(5 * MIB, "left out"))
    assert complete(s3, bucket, upload, [first, last])["ETag"] == multipart_etag([one, two])
    holds(s3, bucket, "k", one + two)


def test_single_small_part(s3, bucket):
    upload = start(s3, bucket)
    done = complete(s3, bucket, upload, [add(s3, bucket, upload, 1, b"tiny")])
    assert done["ETag"] == multipart_etag([b"tiny"])
    holds(s3, bucket, "k", b"tiny")


def test_empty_part(s3, bucket):
    upload = start(s3, bucket)
    complete(s3, bucket, upload, [add(s3, bucket, upload, 1, b"")])
    assert s3.head_object(Bucket=bucket, Key="k")["ContentLength"] == 0


def test_refused_completions(s3, bucket, nothing_changes):
    """Each refusal leaves the upload as it was."""
    upload = start(s3, bucket)
    small = add(s3, bucket, upload, 1, b"small")
    other = add(s3, bucket, upload, 2, b"other")
    with nothing_changes():
        with refused(400, "EntityTooSmall"):
            complete(s3, bucket, upload, [small, other])
        with refused(400, "InvalidPartOrder"):
            complete(s3, bucket, upload, [other, small])
        with refused(400, "InvalidPartOrder"):
            complete(s3, bucket, upload, [small, small])
        with refused(400, "InvalidPart"):
            complete(s3, bucket, upload, [{"PartNumber": 1, "ETag": etag(b"wrong")}])
        with refused(400, "InvalidPart"):
            complete(s3, bucket, upload, [small | {"PartNumber": 3}])
        with refused(400, "MalformedXML", "InvalidRequest"):
            complete(s3, bucket, upload, [])
    absent(s3, bucket, "k")
    complete(s3, bucket, upload, [small])
    holds(s3, bucket, "k", b"small")


def test_malformed_completion(raw, s3, bucket, nothing_changes):
    upload = start(s3, bucket)
    add(s3, bucket, upload, 1, b"x")
    with nothing_changes():
        for body in (b"", b"<CompleteMultipartUpload>", b"not xml", b"<Other/>", b"<!DOCTYPE a []><a/>"):
            reply = raw.request("POST", object_path(bucket, "k"), [("uploadId", upload)], body=body)
            answer(reply, 400, "MalformedXML" if body else "InvalidRequest")
    assert len(s3.list_parts(Bucket=bucket, Key="k", UploadId=upload)["Parts"]) == 1


def test_no_such_upload(s3, bucket, nothing_changes):
    upload = start(s3, bucket)
    with nothing_changes():
        for wrong, key in (("nosuchupload", "k"), (upload, "other"), (upload[:-1] + "0~", "k"), ("../..", "k")):
            with refused(404, "NoSuchUpload"):
                add(s3, bucket, wrong, 1, b"x", key=key)
            with refused(404, "NoSuchUpload"):
                complete(s3, bucket, wrong, [{"PartNumber": 1, "ETag": etag(b"x")}], key=key)
            with refused(404, "NoSuchUpload"):
                complete(s3, bucket, wrong, [{"PartNumber": 1, "ETag": "no tag"}], key=key)
            with refused(404, "NoSuchUpload"):
                s3.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=wrong)
            with refused(404, "NoSuchUpload"):
                s3.list_parts(Bucket=bucket, Key=key, UploadId=wrong)


def test_upload_of_another_bucket(s3, make_bucket, nothing_changes):
    one, other = make_bucket(), make_bucket()
    upload = start(s3, one)
    with nothing_changes():
        with refused(404, "NoSuchUpload"):
            add(s3, other, upload, 1, b"x")
        with refused(404, "NoSuchUpload"):
            s3.abort_multipart_upload(Bucket=other, Key="k", UploadId=upload)
    add(s3, one, upload, 1, b"x")


def test_part_numbers(raw, s3, bucket, nothing_changes):
    upload = start(s3, bucket)
    with nothing_changes():
        for number in ("0", "10001", "-1", "x", "", "99999999999"):
            query = [("partNumber", number), ("uploadId", upload)]
            reply = raw.request("PUT", object_path(bucket, "k"), query, body=b"x")
            answer(reply, 400, "InvalidArgument")
    part = add(s3, bucket, upload, 10000, b"last")
    complete(s3, bucket, upload, [part])


def test_abort(s3, bucket, nothing_changes):
    upload = start(s3, bucket)
    add(s3, bucket, upload, 1, content(5 * MIB, "gone"))
    reply = s3.abort_multipart_upload(Bucket=bucket, Key="k", UploadId=upload)
    assert reply["ResponseMetadata"]["HTTPStatusCode"] == 204
    with nothing_changes():
        with refused(404, "NoSuchUpload"):
            s3.list_parts(Bucket=bucket, Key="k", UploadId=upload)
        with refused(404, "NoSuchUpload"):
            add(s3, bucket, upload, 2, b"x")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    absent(s3, bucket, "k")


def test_completing_twice(s3, bucket):
    """A client that lost the answer asks again: the same answer, and one object."""
    upload = start(s3, bucket)
    part = add(s3, bucket, upload, 1, b"once")
    first = complete(s3, bucket, upload, [part])
    for _ in range(3):
        again = complete(s3, bucket, upload, [part])
        assert again["ETag"] == first["ETag"] and again["Location"] == first["Location"]
    holds(s3, bucket, "k", b"once")
    with refused(404, "NoSuchUpload"):
        s3.abort_multipart_upload(Bucket=bucket, Key="k", UploadId=upload)
    s3.put_object(Bucket=bucket, Key="k", Body=b"newer")
    with refused(404, "NoSuchUpload"):
        complete(s3, bucket, upload, [part])
    holds(s3, bucket, "k", b"newer")


def test_two_uploads_of_one_key(s3, bucket):
    one, two = start(s3, bucket), start(s3, bucket)
    assert one != two
    first, second = add(s3, bucket, one, 1, b"one"), add(s3, bucket, two, 1, b"two")
    complete(s3, bucket, two, [second])
    holds(s3, bucket, "k", b"two")
    complete(s3, bucket, one, [first])
    holds(s3, bucket, "k", b"one")


def test_list_parts(s3, bucket):
    upload = start(s3, bucket, StorageClass="STANDARD")
    sizes = {1: 5 * MIB, 3: 7, 5: 5 * MIB + 1, 8: 0}
    sent = {n: add(s3, bucket, upload, n, content(s, str(n)))["ETag"] for n, s in sizes.items()}
    whole = s3.list_parts(Bucket=bucket, Key="k", UploadId=upload)
    assert {p["PartNumber"]: p["Size"] for p in whole["Parts"]} == sizes
    assert {p["PartNumber"]: p["ETag"] for p in whole["Parts"]} == sent
    assert not whole["IsTruncated"] and whole["StorageClass"] == "STANDARD"
    assert whole["Initiator"]["ID"] and whole["Owner"]["ID"]
    found, marker = [], 0
    for _ in range(5):
        page = s3.list_parts(Bucket=bucket, Key="k", UploadId=upload, MaxParts=1, PartNumberMarker=marker)
        found += [p["PartNumber"] for p in page["Parts"]]
        if not page["IsTruncated"]:
            break
        marker = page["NextPartNumberMarker"]
    assert found == list(sizes)


def test_list_uploads(s3, bucket):
    wanted = []
    for key in ("b/1", "a", "b/2", "c", "b/1", "ü +"):
        wanted.append((key, start(s3, bucket, key)))
    page = s3.list_multipart_uploads(Bucket=bucket)
    found = [(u["Key"], u["UploadId"]) for u in page["Uploads"]]
    assert sorted(found) == sorted(wanted)
    assert [k for k, _ in found] == sorted((k for k, _ in wanted), key=lambda k: k.encode())
    entry = page["Uploads"][0]
    assert entry["Initiated"] and entry["StorageClass"] and entry["Owner"]["ID"] and entry["Initiator"]["ID"]
    folded = s3.list_multipart_uploads(Bucket=bucket, Delimiter="/")
    assert [p["Prefix"] for p in folded["CommonPrefixes"]] == ["b/"]
    assert [u["Key"] for u in folded["Uploads"]] == ["a", "c", "ü +"]
    below = s3.list_multipart_uploads(Bucket=bucket, Prefix="b/")
    assert [u["Key"] for u in below["Uploads"]] == ["b/1", "b/1", "b/2"]
    paged, marker = [], {}
    for _ in range(10):
        page = s3.list_multipart_uploads(Bucket=bucket, MaxUploads=1, **marker)
        paged += [(u["Key"], u["UploadId"]) for u in page["Uploads"]]
        if not page["IsTruncated"]:
            break
        marker = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
    assert paged == found
    assert (page["NextKeyMarker"], page["NextUploadIdMarker"]) == found[-1]


def test_uploads_of_a_key_are_listed_as_they_began(s3, bucket):
    begun = [s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"] for _ in range(6)]
    other = s3.create_multipart_upload(Bucket=bucket, Key="a")["UploadId"]
    pages = s3.get_paginator("list_multipart_uploads").paginate(
        Bucket=bucket, PaginationConfig={"PageSize": 4}
    )
    uploads = [upload for page in pages for upload in page["Uploads"]]
    assert [upload["UploadId"] for upload in uploads] == [other, *begun]
    times = [upload["Initiated"] for upload in uploads[1:]]
    assert times == sorted(times)


def test_part_number_of_a_finished_object(s3, bucket):
    data = [content(5 * MIB, "a"), content(5 * MIB + 9, "b"), content(77, "c")]
    upload = start(s3, bucket)
    complete(s3, bucket, upload, [add(s3, bucket, upload, n, d) for n, d in zip((2, 4, 9), data)])
    offset = 0
    for number, part in enumerate(data, 1):
        for call in (s3.get_object, s3.head_object):
            got = call(Bucket=bucket, Key="k", PartNumber=number)
            assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
            assert got["PartsCount"] == 3 and got["ContentLength"] == len(part)
            assert got["ContentRange"] == f"bytes {offset}-{offset + len(part) - 1}/{sum(map(len, data))}"
        assert s3.get_object(Bucket=bucket, Key="k", PartNumber=number)["Body"].read() == part
        offset += len(part)
    with refused(416, "InvalidPartNumber"):
        s3.get_object(Bucket=bucket, Key="k", PartNumber=4)
    with refused(400, "InvalidRequest"):
        s3.get_object(Bucket=bucket, Key="k", PartNumber=1, Range="bytes=0-1")


def test_part_number_of_a_simple_object(s3, raw, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"simple")
    got = s3.get_object(Bucket=bucket, Key="k", PartNumber=1)
    assert got["Body"].read() == b"simple" and "PartsCount" not in got
    with refused(416, "InvalidPartNumber"):
        s3.get_object(Bucket=bucket, Key="k", PartNumber=2)
    for bad in ("0", "x", "10001"):
        with unchanged():
            answer(raw.get(bucket, "k", query=[("partNumber", bad)]), 400, "InvalidArgument")


def test_upload_part_copy(s3, bucket):
    source = content(6 * MIB, "source")
    s3.put_object(Bucket=bucket, Key="source ü", Body=source)
    tag = etag(source)
    upload = start(s3, bucket)
    common = dict(Bucket=bucket, Key="k", UploadId=upload, CopySource={"Bucket": bucket, "Key": "source ü"})
    whole = s3.upload_part_copy(PartNumber=1, **common)["CopyPartResult"]
    assert whole["ETag"] == tag and whole["LastModified"]
    some = s3.upload_part_copy(PartNumber=2, CopySourceRange=f"bytes=10-{5 * MIB + 9}", **common)["CopyPartResult"]
    last = s3.upload_part_copy(PartNumber=3, CopySourceRange="bytes=5-5", **common)["CopyPartResult"]
    parts = [{"PartNumber": n, "ETag": p["ETag"]} for n, p in ((1, whole), (2, some), (3, last))]
    complete(s3, bucket, upload, parts)
    holds(s3, bucket, "k", source + source[10 : 5 * MIB + 10] + source[5:6])


def test_upload_part_copy_refusals(s3, bucket, nothing_changes):
    s3.put_object(Bucket=bucket, Key="source", Body=b"0123456789")
    upload = start(s3, bucket)
    common = dict(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1)
    source = {"Bucket": bucket, "Key": "source"}
    with nothing_changes():
        for wrong in ("bytes=0-10", "bytes=5-2", "bytes=3-", "bytes=-3", "0-3"):
            try:
                s3.upload_part_copy(CopySource=source, CopySourceRange=wrong, **common)
                raise AssertionError(f"{wrong} was accepted")
            except s3.exceptions.ClientError as error:
                assert error.response["Error"]["Code"] in ("InvalidArgument", "InvalidRange"), wrong
        with refused(404, "NoSuchKey"):
            s3.upload_part_copy(CopySource={"Bucket": bucket, "Key": "missing"}, **common)
        with refused(404, "NoSuchBucket"):
            s3.upload_part_copy(CopySource={"Bucket": "no-such-source", "Key": "k"}, **common)
        with refused(412, "PreconditionFailed"):
            s3.upload_part_copy(CopySource=source, CopySourceIfMatch=etag(b"other"), **common)
        with refused(412, "PreconditionFailed"):
            s3.upload_part_copy(CopySource=source, CopySourceIfNoneMatch=etag(b"0123456789"), **common)
    assert "Parts" not in s3.list_parts(Bucket=bucket, Key="k", UploadId=upload)


def test_parts_outlive_their_source(s3, bucket):
    data = content(5 * MIB, "copied part")
    s3.put_object(Bucket=bucket, Key="source", Body=data)
    upload = start(s3, bucket)
    part = s3.upload_part_copy(
        Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, CopySource=f"{bucket}/source"
    )["CopyPartResult"]
    s3.delete_object(Bucket=bucket, Key="source")
    complete(s3, bucket, upload, [{"PartNumber": 1, "ETag": part["ETag"]}])
    holds(s3, bucket, "k", data)


def test_wrong_md5_of_a_part_keeps_the_old_one(s3, bucket, nothing_changes):
    upload = start(s3, bucket)
    good = add(s3, bucket, upload, 1, b"good")
    with nothing_changes():
        with refused(400, "BadDigest"):
            add(s3, bucket, upload, 1, b"bad", ContentMD5="1B2M2Y8AsgTpgAmY7PhCfg==")
    complete(s3, bucket, upload, [good])
    holds(s3, bucket, "k", b"good")


def test_many_parts(s3, bucket):
    """120 parts of 5 MiB would be slow: the last may be small, so one large object is joined from copies."""
    source = content(5 * MIB, "many")
    s3.put_object(Bucket=bucket, Key="source", Body=source)
    upload = start(s3, bucket)
    parts = []
    for number in range(1, 41):
        reply = s3.upload_part_copy(
            Bucket=bucket, Key="k", UploadId=upload, PartNumber=number, CopySource=f"{bucket}/source"
        )
        parts.append({"PartNumber": number, "ETag": reply["CopyPartResult"]["ETag"]})
    assert complete(s3, bucket, upload, parts)["ETag"] == multipart_etag([source] * 40)
    assert s3.head_object(Bucket=bucket, Key="k")["ContentLength"] == 40 * len(source)
    for at in (0, 64 * MIB - 5, 128 * MIB - 5, 195 * MIB):
        got = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={at}-{at + 9}")["Body"].read()
        assert got == bytes(source[(at + i) % len(source)] for i in range(10))


def test_racing_completions(s3, bucket):
    """Two completions with different parts at once: one of the two objects, never a mixture."""
    from concurrent.futures import ThreadPoolExecutor

    for number in range(5):
        key = f"k{number}"
        upload = start(s3, bucket, key)
        a = add(s3, bucket, upload, 1, b"first", key=key)
        b = add(s3, bucket, upload, 2, b"second", key=key)

        def attempt(part):
            try:
                return complete(s3, bucket, upload, [part], key=key)["ETag"]
            except s3.exceptions.ClientError as error:
                return error.response["Error"]["Code"]

        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(attempt, [a, b]))
        body = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        assert body in (b"first", b"second"), answers
        assert multipart_etag([body]) in answers
    assert sorted(keys(s3, bucket)) == [f"k{n}" for n in range(5)]


def test_listing_shows_multipart_size_and_tag(s3, bucket):
    upload = start(s3, bucket)
    data = [content(5 * MIB, "x"), content(KIB, "y")]
    complete(s3, bucket, upload, [add(s3, bucket, upload, n, d) for n, d in enumerate(data, 1)])
    entry = s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    assert entry["Size"] == 5 * MIB + KIB and entry["ETag"] == multipart_etag(data)


def test_the_only_part_is_empty(raw, s3, bucket):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    named = {"Bucket": bucket, "Key": "k", "UploadId": upload}
    part = s3.upload_part(**named, PartNumber=1, Body=b"")
    parts = [{"PartNumber": 1, "ETag": part["ETag"]}]
    s3.complete_multipart_upload(**named, MultipartUpload={"Parts": parts})
    reply = answer(raw.request("GET", object_path(bucket, "k"), [("partNumber", "1")]), 200)
    assert reply.body == b"" and "content-range" not in reply.headers
    assert reply.headers["x-amz-mp-parts-count"] == "1"
