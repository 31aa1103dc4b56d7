"""`aws-chunked` uploads: every deviation is refused, and the old object stays whole."""

import pytest
from support import chunked
from support.checksums import encoded
from support.chunked import SIGNED, SIGNED_TRAILER, UNSIGNED_TRAILER, Upload
from support.data import KIB, content
from support.expect import absent, answer, holds
from support.sigv4 import object_path

PARTS = [content(64 * KIB, "one"), content(64 * KIB, "two"), content(3000, "three")]
WHOLE = b"".join(PARTS)
CRC = ("x-amz-checksum-crc32", encoded("CRC32", WHOLE))
MODES = [SIGNED, SIGNED_TRAILER, UNSIGNED_TRAILER]


def trailers(mode):
    return [] if mode == SIGNED else [CRC]


@pytest.mark.parametrize("mode", MODES)
def test_right_ones(raw, s3, bucket, mode):
    answer(chunked.put(raw, bucket, "k", Upload(PARTS, mode, trailers(mode))), 200)
    holds(s3, bucket, "k", WHOLE)
    assert "ContentEncoding" not in s3.head_object(Bucket=bucket, Key="k")


@pytest.mark.parametrize("mode", MODES)
def test_empty_object(raw, s3, bucket, mode):
    answer(chunked.put(raw, bucket, "k", Upload([], mode)), 200)
    holds(s3, bucket, "k", b"")


def test_other_encodings_stay(raw, s3, bucket):
    upload = Upload(PARTS, SIGNED, headers=[])
    head, frames = chunked.build(raw, "PUT", object_path(bucket, "k"), [], upload)
    assert b"aws-chunked" in head
    raw_upload = Upload(PARTS, UNSIGNED_TRAILER, [CRC])
    answer(chunked.put(raw, bucket, "k", raw_upload), 200)
    holds(s3, bucket, "k", WHOLE)


@pytest.mark.parametrize("mode", MODES)
def test_upload_part(raw, s3, bucket, mode):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    query = [("partNumber", "1"), ("uploadId", upload)]
    from support import wire

    head, frames = chunked.build(raw, "PUT", object_path(bucket, "k"), query, Upload(PARTS, mode))
    reply = answer(wire.exchange(raw.address, head + b"".join(frames), "PUT"), 200)
    parts = {"Parts": [{"PartNumber": 1, "ETag": reply.headers["etag"]}]}
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload=parts)
    holds(s3, bucket, "k", WHOLE)


@pytest.mark.parametrize("mode", MODES)
def test_forged_seed(raw, s3, bucket, mode, nothing_changes):
    """Class of CVE-2025-31489: a known key and any secret, in every mode."""
    with nothing_changes():
        reply = chunked.put(raw, bucket, "k", Upload(PARTS, mode, trailers(mode), wrong_secret=True))
    answer(reply, 403, "SignatureDoesNotMatch")
    absent(s3, bucket, "k")


def swap(frames):
    return [frames[1], frames[0], *frames[2:]]


def flip_data(frames):
    """One bit of the second chunk's content."""
    second = bytearray(frames[1])
    second[-10] ^= 1
    return [frames[0], bytes(second), *frames[2:]]


def wrong_signature(index):
    def change(frames):
        head, _, rest = frames[index].partition(b"\r\n")
        forged = head[:-64] + b"0" * 64
        return [*frames[:index], forged + b"\r\n" + rest, *frames[index + 1 :]]

    return change


def rename(frames, old: bytes, new: bytes, index=0):
    return [*frames[:index], frames[index].replace(old, new, 1), *frames[index + 1 :]]


SIGNED_CHANGES = {
    "chunks swapped": swap,
    "chunk dropped": lambda f: [f[0], *f[2:]],
    "chunk repeated": lambda f: [f[0], f[0], *f[1:]],
    "content changed": flip_data,
    "first signature wrong": wrong_signature(0),
    "second signature wrong": wrong_signature(1),
    "last signature wrong": wrong_signature(3),
    "signature missing": lambda f: [f[0].split(b";")[0] + b"\r\n" + f[0].split(b"\r\n", 1)[1], *f[1:]],
    "extension renamed": lambda f: rename(f, b"chunk-signature", b"other-signature"),
}


@pytest.mark.parametrize("name", SIGNED_CHANGES)
def test_broken_signatures(raw, s3, bucket, name, nothing_changes):
    """Class of CVE-2021-21390: nothing of an unverified chunk is kept."""
    raw.put(bucket, "k", b"old")
    with nothing_changes():
        reply = chunked.put(raw, bucket, "k", Upload(PARTS, SIGNED, change=SIGNED_CHANGES[name]))
    assert reply is None or reply.status in (400, 403), reply.brief()
    holds(s3, bucket, "k", b"old")


FRAME_CHANGES = {
    "no final chunk": lambda f: f[:-2],
    "no closing line": lambda f: [*f[:-1], b""],
    "cut in a chunk": lambda f: [f[0], f[1][:1000]],
    "cut in a size line": lambda f: [f[0], f[1][:3]],
    "huge size": lambda f: [b"ffffffff" + f[0][f[0].index(b"\r\n") :]],
    "overflowing size": lambda f: [b"ffffffffffffffff1" + f[0][f[0].index(b"\r\n") :]],
    "negative size": lambda f: [b"-1" + f[0][5:], *f[1:]],
    "no size": lambda f: [f[0][5:], *f[1:]],
    "not hexadecimal": lambda f: [b"0x10" + f[0][5:], *f[1:]],
    "no line break after a chunk": lambda f: [f[0][:-2], *f[1:]],
    "other bytes after a chunk": lambda f: [f[0][:-2] + b"xx", *f[1:]],
    "data after the end": lambda f: [*f, b"5\r\nhello\r\n0\r\n\r\n"],
    "endless size line": lambda f: [b"0" * 100_000 + f[0], *f[1:]],
    "nothing at all": lambda f: [],
}


@pytest.mark.parametrize("mode", [SIGNED, UNSIGNED_TRAILER])
@pytest.mark.parametrize("name", FRAME_CHANGES)
def test_broken_frames(raw, s3, bucket, name, mode, nothing_changes):
    raw.put(bucket, "k", b"old")
    upload = Upload(PARTS, mode, trailers(mode), change=FRAME_CHANGES[name])
    with nothing_changes():
        reply = chunked.put(raw, bucket, "k", upload)
    assert reply is None or reply.status in (400, 403), reply.brief()
    holds(s3, bucket, "k", b"old")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("difference", [-1, 1, -len(WHOLE), 10**12])
def test_wrong_decoded_length(raw, s3, bucket, mode, difference, nothing_changes):
    """Class of VersityGW 0a2a23d9."""
    raw.put(bucket, "k", b"old")
    upload = Upload(PARTS, mode, trailers(mode), decoded_length=len(WHOLE) + difference)
    with nothing_changes():
        reply = chunked.put(raw, bucket, "k", upload)
    assert reply is None or reply.status in (400, 403), reply.brief()
    holds(s3, bucket, "k", b"old")


def test_decoded_length_missing(raw, s3, bucket, nothing_changes):
    from support import sigv4

    headers = [("content-encoding", "aws-chunked")]
    with nothing_changes():
        reply = raw.put(bucket, "k", b"0\r\n\r\n", headers, payload_hash=chunked.UNSIGNED_TRAILER)
    answer(reply, 411, "MissingContentLength")
    absent(s3, bucket, "k")
    assert sigv4.UNSIGNED  # the mode above is not this one


WRONG = ("x-amz-checksum-crc32", encoded("CRC32", b"other"))
TRAILER_CHANGES = {
    "wrong value": Upload(PARTS, trailers=[WRONG]),
    "announced but missing": Upload(PARTS, announce=["x-amz-checksum-crc32"]),
    "not announced": Upload(PARTS, trailers=[CRC], announce=[]),
    "announced under another name": Upload(PARTS, trailers=[CRC], announce=["x-amz-checksum-crc32c"]),
    "unknown": Upload(PARTS, trailers=[("x-amz-checksum-md4", "AAAA")]),
    "no checksum at all": Upload(PARTS, trailers=[("x-amz-meta-a", "1")]),
    "malformed value": Upload(PARTS, trailers=[("x-amz-checksum-crc32", "!!")]),
    "endless": Upload(PARTS, trailers=[("x-amz-checksum-crc32", "A" * 100_000)]),
}


@pytest.mark.parametrize("mode", [SIGNED_TRAILER, UNSIGNED_TRAILER])
@pytest.mark.parametrize("name", TRAILER_CHANGES)
def test_broken_trailers(raw, s3, bucket, name, mode, nothing_changes):
    raw.put(bucket, "k", b"old")
    upload = TRAILER_CHANGES[name]
    with nothing_changes():
        reply = chunked.put(raw, bucket, "k", Upload(upload.chunks, mode, upload.trailers, upload.announce))
    assert reply is None or reply.status in (400, 403), reply.brief()
    holds(s3, bucket, "k", b"old")


def test_tampered_trailer(raw, s3, bucket, nothing_changes):
    """The trailer's own signature covers it."""

    def change(frames):
        return [*frames[:-1], frames[-1].replace(CRC[1].encode(), WRONG[1].encode())]

    with nothing_changes():
        reply = chunked.put(raw, bucket, "k", Upload(PARTS, SIGNED_TRAILER, [CRC], change=change))
    answer(reply, 403, "SignatureDoesNotMatch")
    absent(s3, bucket, "k")


def test_trailer_signature_missing(raw, s3, bucket, nothing_changes):
    def change(frames):
        return [*frames[:-1], frames[-1].split(b"x-amz-trailer-signature")[0] + b"\r\n"]

    with nothing_changes():
        reply = chunked.put(raw, bucket, "k", Upload(PARTS, SIGNED_TRAILER, [CRC], change=change))
    assert reply is None or reply.status in (400, 403), reply.brief()
    absent(s3, bucket, "k")


def test_chunk_of_another_upload(raw, s3, bucket, nothing_changes):
    """A rightly signed chunk, replayed into another request."""
    _, other = chunked.build(raw, "PUT", object_path(bucket, "other"), [], Upload(PARTS))
    with nothing_changes():
        reply = chunked.put(raw, bucket, "k", Upload(PARTS, change=lambda f: [other[0], *f[1:]]))
    answer(reply, 403, "SignatureDoesNotMatch")
    absent(s3, bucket, "k")
