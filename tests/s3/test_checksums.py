"""Checksums in headers and trailers, of whole objects and composed of parts; GetObjectAttributes."""

import pytest
from support import chunked
from support.checksums import ALGORITHMS, COMPOSITE, FULL_OBJECT, composite, encoded, field, header
from support.data import KIB, MIB, content, etag, md5, multipart_etag
from support.expect import absent, answer, holds, refused
from support.sigv4 import object_path
from support.unchanged import unchanged

DATA = content(70 * KIB, "checksums")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_in_a_header(raw, s3, bucket, algorithm):
    right = encoded(algorithm, DATA)
    put = answer(raw.put(bucket, "k", DATA, [(header(algorithm), right)]), 200)
    assert put.headers[header(algorithm)] == right
    assert put.headers.get("x-amz-checksum-type", "FULL_OBJECT") == "FULL_OBJECT"
    for call in (s3.head_object, s3.get_object):
        got = call(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
        assert got[field(algorithm)] == right and got["ChecksumType"] == "FULL_OBJECT"
    assert header(algorithm) not in raw.head(bucket, "k").headers
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    assert listed.get("ChecksumAlgorithm", [algorithm]) == [algorithm]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_wrong_in_a_header(raw, s3, bucket, algorithm, nothing_changes):
    raw.put(bucket, "k", b"old")
    with nothing_changes():
        reply = raw.put(bucket, "k", DATA, [(header(algorithm), encoded(algorithm, b"other"))])
    answer(reply, 400, "BadDigest")
    holds(s3, bucket, "k", b"old")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_malformed_in_a_header(raw, s3, bucket, algorithm, nothing_changes):
    with nothing_changes():
        for value in ("AAAA", "no base64!", encoded("SHA256", b"") + "AAAA"):
            answer(raw.put(bucket, "k", DATA, [(header(algorithm), value)]), 400, "InvalidRequest")
    absent(s3, bucket, "k")


def test_md5_as_a_checksum(raw, s3, bucket):
    """boto3 does not compute it; other SDKs do."""
    md5 = ("x-amz-checksum-md5", encoded("MD5", DATA))
    assert answer(raw.put(bucket, "k", DATA, [md5]), 200).headers[md5[0]] == md5[1]
    head = raw.request("HEAD", f"/{bucket}/k", headers=[("x-amz-checksum-mode", "ENABLED")])
    assert head.headers[md5[0]] == md5[1]
    answer(raw.put(bucket, "k", DATA, [(md5[0], encoded("MD5", b"other"))]), 400, "BadDigest")


def test_two_checksums_are_refused(raw, s3, bucket, nothing_changes):
    headers = [(header(a), encoded(a, DATA)) for a in ("CRC32", "SHA1")]
    with nothing_changes():
        answer(raw.put(bucket, "k", DATA, headers), 400, "InvalidRequest")
    absent(s3, bucket, "k")


def test_algorithms_that_contradict_or_do_not_exist(raw, s3, bucket, nothing_changes):
    of_crc32 = (header("CRC32"), encoded("CRC32", b"x"))
    with nothing_changes():
        for headers in (
            [("x-amz-sdk-checksum-algorithm", "SHA1"), of_crc32],
            [("x-amz-sdk-checksum-algorithm", "ROT13"), of_crc32],
            [("x-amz-sdk-checksum-algorithm", "SHA1")],
            [("x-amz-sdk-checksum-algorithm", "CRC32"), ("x-amz-sdk-checksum-algorithm", "SHA1"), of_crc32],
            [("x-amz-checksum-rot13", "eA==")],
        ):
            answer(raw.put(bucket, "k", b"x", headers), 400, "InvalidRequest")


def test_modes_that_do_not_exist(raw, bucket):
    raw.put(bucket, "k", b"x")
    for mode in ("DISABLED", ""):
        asked = [("x-amz-checksum-mode", mode)]
        with unchanged():
            answer(raw.request("GET", f"/{bucket}/k", headers=asked), 400, "InvalidRequest")
            assert raw.request("HEAD", f"/{bucket}/k", headers=asked).status == 400


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_by_the_sdk(s3, bucket, algorithm):
    """boto3 sends it in an unsigned trailer over plain HTTP or in a header, as it sees fit."""
    put = s3.put_object(Bucket=bucket, Key="k", Body=DATA, ChecksumAlgorithm=algorithm)
    assert put[field(algorithm)] == encoded(algorithm, DATA)
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == DATA and got[field(algorithm)] == encoded(algorithm, DATA)


@pytest.mark.parametrize("mode", [chunked.SIGNED_TRAILER, chunked.UNSIGNED_TRAILER])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_in_a_trailer(raw, s3, bucket, algorithm, mode):
    chunks = [DATA[: 64 * KIB], DATA[64 * KIB :]]
    trailers = [(header(algorithm), encoded(algorithm, DATA))]
    answer(chunked.put(raw, bucket, "k", chunked.Upload(chunks, mode, trailers)), 200)
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == DATA and got[field(algorithm)] == encoded(algorithm, DATA)
    assert got.get("ContentEncoding") in (None, "")


@pytest.mark.parametrize("mode", [chunked.SIGNED_TRAILER, chunked.UNSIGNED_TRAILER])
def test_in_a_trailer_as_minio_go_sends_it(raw, s3, bucket, mode):
    """An empty line stands before the trailer's signature, and a second one behind unsigned trailers."""

    def spaced(frames):
        *chunks, tail = frames
        checksum, rest = tail.split(b"\r\n", 1)
        return [*chunks, checksum + b"\n\r\n" + (rest or b"\r\n")]

    upload = chunked.Upload([DATA], mode, [(header("CRC32"), encoded("CRC32", DATA))], change=spaced)
    answer(chunked.put(raw, bucket, "k", upload), 200)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == DATA


@pytest.mark.parametrize("mode", [chunked.SIGNED_TRAILER, chunked.UNSIGNED_TRAILER])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_wrong_in_a_trailer(raw, s3, bucket, algorithm, mode, nothing_changes):
    trailers = [(header(algorithm), encoded(algorithm, b"other"))]
    with nothing_changes():
        reply = chunked.put(raw, bucket, "k", chunked.Upload([DATA], mode, trailers))
    answer(reply, 400, "BadDigest")
    absent(s3, bucket, "k")


def test_content_encoding_loses_only_aws_chunked(raw, s3, bucket):
    upload = chunked.Upload([DATA], chunked.SIGNED)
    upload.headers = []
    head, frames = chunked.build(raw, "PUT", object_path(bucket, "k"), [], upload)
    assert b"content-encoding: aws-chunked" in head
    client_upload = chunked.Upload([DATA], chunked.UNSIGNED_TRAILER)
    answer(chunked.put(raw, bucket, "k", client_upload), 200)
    assert "ContentEncoding" not in s3.head_object(Bucket=bucket, Key="k")


# Multipart


def send(s3, bucket, algorithm, kind, parts, **more):
    """Uploads with part checksums computed by the SDK; returns the completion's answer."""
    upload = s3.create_multipart_upload(
        Bucket=bucket, Key="k", ChecksumAlgorithm=algorithm, ChecksumType=kind
    )
    assert upload["ChecksumAlgorithm"] == algorithm and upload["ChecksumType"] == kind
    listed = []
    for number, data in enumerate(parts, 1):
        reply = s3.upload_part(
            Bucket=bucket, Key="k", UploadId=upload["UploadId"], PartNumber=number, Body=data,
            ChecksumAlgorithm=algorithm,
        )  # fmt: skip
        assert reply[field(algorithm)] == encoded(algorithm, data)
        listed.append({"PartNumber": number, "ETag": reply["ETag"], field(algorithm): reply[field(algorithm)]})
    return s3.complete_multipart_upload(
        Bucket=bucket, Key="k", UploadId=upload["UploadId"], MultipartUpload={"Parts": listed}, **more
    )


PARTS = [content(5 * MIB, "c1"), content(5 * MIB + 17, "c2"), content(999, "c3")]


@pytest.mark.parametrize("algorithm", COMPOSITE)
def test_composite(s3, bucket, algorithm):
    done = send(s3, bucket, algorithm, "COMPOSITE", PARTS)
    assert done[field(algorithm)] == composite(algorithm, PARTS)
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head[field(algorithm)] == composite(algorithm, PARTS) and head["ChecksumType"] == "COMPOSITE"


@pytest.mark.parametrize("algorithm", FULL_OBJECT)
def test_full_object(s3, bucket, algorithm):
    whole = encoded(algorithm, b"".join(PARTS))
    done = send(s3, bucket, algorithm, "FULL_OBJECT", PARTS, **{field(algorithm): whole})
    assert done[field(algorithm)] == whole and done["ChecksumType"] == "FULL_OBJECT"
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head[field(algorithm)] == whole and head["ChecksumType"] == "FULL_OBJECT"


@pytest.mark.parametrize("algorithm", FULL_OBJECT)
def test_full_object_wrong_at_completion(s3, bucket, algorithm):
    with refused(400, "BadDigest"):
        send(s3, bucket, algorithm, "FULL_OBJECT", PARTS, **{field(algorithm): encoded(algorithm, b"other")})
    absent(s3, bucket, "k")


def test_full_object_size_at_completion(s3, bucket):
    with refused(400, "InvalidRequest"):
        send(s3, bucket, "CRC32", "FULL_OBJECT", PARTS, MpuObjectSize=1)
    absent(s3, bucket, "k")
    send(s3, bucket, "CRC32", "FULL_OBJECT", PARTS, MpuObjectSize=sum(map(len, PARTS)))


def test_impossible_kinds(s3, bucket, nothing_changes):
    with nothing_changes():
        for algorithm, kind in (("CRC64NVME", "COMPOSITE"), ("SHA1", "FULL_OBJECT"), ("SHA256", "FULL_OBJECT")):
            with refused(400, "InvalidRequest"):
                s3.create_multipart_upload(
                    Bucket=bucket, Key="k", ChecksumAlgorithm=algorithm, ChecksumType=kind
                )


def test_part_with_another_algorithm(raw, s3, bucket, nothing_changes):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm="SHA256")["UploadId"]
    query = [("partNumber", "1"), ("uploadId", upload)]
    headers = [(header("CRC32"), encoded("CRC32", b"x"))]
    with nothing_changes():
        reply = raw.request("PUT", object_path(bucket, "k"), query, headers, b"x")
    answer(reply, 400, "InvalidRequest")


def test_wrong_part_checksum_at_completion(s3, bucket, nothing_changes):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm="SHA256")["UploadId"]
    part = s3.upload_part(
        Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"x", ChecksumAlgorithm="SHA256"
    )
    wrong = {"PartNumber": 1, "ETag": part["ETag"], "ChecksumSHA256": encoded("SHA256", b"y")}
    with nothing_changes():
        with refused(400, "InvalidPart", "BadDigest"):
            s3.complete_multipart_upload(
                Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": [wrong]}
            )
    absent(s3, bucket, "k")


def test_list_parts_shows_checksums(s3, bucket):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm="CRC32C")["UploadId"]
    s3.upload_part(
        Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=DATA, ChecksumAlgorithm="CRC32C"
    )
    page = s3.list_parts(Bucket=bucket, Key="k", UploadId=upload)
    assert page["ChecksumAlgorithm"] == "CRC32C"
    assert page["Parts"][0]["ChecksumCRC32C"] == encoded("CRC32C", DATA)


def test_copy_computes_the_asked_checksum(s3, bucket):
    s3.put_object(Bucket=bucket, Key="source", Body=DATA, ChecksumAlgorithm="CRC32")
    copied = s3.copy_object(
        Bucket=bucket, Key="k", CopySource=f"{bucket}/source", ChecksumAlgorithm="SHA256"
    )["CopyObjectResult"]
    assert copied["ChecksumSHA256"] == encoded("SHA256", DATA)
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head["ChecksumSHA256"] == encoded("SHA256", DATA)


def test_copy_keeps_the_checksum(s3, bucket):
    s3.put_object(Bucket=bucket, Key="source", Body=DATA, ChecksumAlgorithm="SHA1")
    s3.copy_object(Bucket=bucket, Key="k", CopySource=f"{bucket}/source")
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head["ChecksumSHA1"] == encoded("SHA1", DATA)


# GetObjectAttributes

ATTRIBUTES = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]


def test_attributes_of_a_simple_object(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=DATA, ChecksumAlgorithm="SHA256")
    got = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=ATTRIBUTES)
    assert got["ETag"] == md5(DATA) and got["ObjectSize"] == len(DATA)
    assert got["Checksum"]["ChecksumSHA256"] == encoded("SHA256", DATA)
    assert got["StorageClass"] == "STANDARD" and "ObjectParts" not in got and got["LastModified"]
    some = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["ObjectSize"])
    assert some["ObjectSize"] == len(DATA) and "ETag" not in some and "StorageClass" not in some


def test_attributes_of_a_multipart_object(s3, bucket):
    send(s3, bucket, "SHA256", "COMPOSITE", PARTS)
    got = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=ATTRIBUTES)
    assert got["ETag"] == multipart_etag(PARTS).strip('"')
    assert got["ObjectSize"] == sum(map(len, PARTS))
    parts = got["ObjectParts"]
    assert parts["TotalPartsCount"] == 3
    assert [p["Size"] for p in parts["Parts"]] == [len(p) for p in PARTS]
    assert [p["ChecksumSHA256"] for p in parts["Parts"]] == [encoded("SHA256", p) for p in PARTS]
    page = s3.get_object_attributes(
        Bucket=bucket, Key="k", ObjectAttributes=["ObjectParts"], MaxParts=1, PartNumberMarker=1
    )["ObjectParts"]
    assert page["IsTruncated"] and [p["PartNumber"] for p in page["Parts"]] == [2]
    assert page["NextPartNumberMarker"] == 2


def test_attributes_refusals(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    path = object_path(bucket, "k")
    with unchanged():
        answer(raw.request("GET", path, [("attributes", "")]), 400, "InvalidRequest")
    for names, wrong in (("ETag,Colour,Size", "Colour"), ("", ""), ("ETag,,ObjectSize", "")):
        with unchanged():
            asked = [("x-amz-object-attributes", names)]
            reply = answer(raw.request("GET", path, [("attributes", "")], asked), 400, "InvalidArgument")
        assert (reply.xml().findtext("ArgumentValue") or "") == wrong
    for name in ("x-amz-max-parts", "x-amz-part-number-marker"):
        with unchanged():
            asked = [("x-amz-object-attributes", "ETag,ObjectParts"), (name, "two")]
            reply = answer(raw.request("GET", path, [("attributes", "")], asked), 400, "InvalidArgument")
        assert reply.xml().findtext("ArgumentName") == name
    ends = [("x-amz-object-attributes", "ETag,,")]
    assert answer(raw.request("GET", path, [("attributes", "")], ends), 200).xml().findtext("ETag")
    with refused(404, "NoSuchKey"):
        s3.get_object_attributes(Bucket=bucket, Key="missing", ObjectAttributes=["ETag"])
    assert etag(b"x") == s3.head_object(Bucket=bucket, Key="k")["ETag"]
