"""DeleteObjects."""

import base64
import hashlib

from support.expect import absent, answer, holds, keys, refused


def test_many(s3, bucket):
    for n in range(5):
        s3.put_object(Bucket=bucket, Key=f"k{n}", Body=b"x")
    wanted = [{"Key": f"k{n}"} for n in range(4)] + [{"Key": "missing"}]
    reply = s3.delete_objects(Bucket=bucket, Delete={"Objects": wanted})
    assert sorted(d["Key"] for d in reply["Deleted"]) == ["k0", "k1", "k2", "k3", "missing"]
    assert "Errors" not in reply
    assert keys(s3, bucket) == ["k4"]


def test_quiet(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    reply = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k"}], "Quiet": True})
    assert "Deleted" not in reply
    absent(s3, bucket, "k")


def test_odd_keys(s3, bucket):
    odd = ["a&b", "<x>", "ü", "a\nb", "  spaces  ", "a+b", "%41", "]]>"]
    for key in odd:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    s3.put_object(Bucket=bucket, Key="A", Body=b"kept")
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": k} for k in odd]})
    assert keys(s3, bucket) == ["A"]


def test_ids_that_no_version_can_have(s3, bucket):
    """DeleteObject answers 400 for these; DeleteObjects says that there is no such version."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    wanted = [{"Key": "k", "VersionId": text} for text in ("", "wrong")]
    errors = s3.delete_objects(Bucket=bucket, Delete={"Objects": wanted})["Errors"]
    assert [(e["Key"], e["Code"]) for e in errors] == [("k", "NoSuchVersion")] * 2
    holds(s3, bucket, "k", b"x")


def test_thousand_and_one_are_refused(s3, bucket, nothing_changes):
    s3.put_object(Bucket=bucket, Key="k0", Body=b"x")
    wanted = [{"Key": f"k{n}"} for n in range(1001)]
    with nothing_changes():
        with refused(400, "MalformedXML"):
            s3.delete_objects(Bucket=bucket, Delete={"Objects": wanted})
    holds(s3, bucket, "k0", b"x")
    reply = s3.delete_objects(Bucket=bucket, Delete={"Objects": wanted[:1000]})
    assert len(reply["Deleted"]) == 1000


def post(raw, bucket, body, headers=()):
    digest = base64.b64encode(hashlib.md5(body).digest()).decode()
    given = {name.lower() for name, _ in headers}
    extra = [] if "content-md5" in given else [("Content-MD5", digest)]
    return raw.request("POST", f"/{bucket}", [("delete", "")], [*headers, *extra], body)


def test_a_key_must_be_named(raw, bucket, nothing_changes):
    raw.put(bucket, "k", b"x")
    with nothing_changes():
        body = b"<Delete><Object><Key>k</Key></Object><Object><Key></Key></Object></Delete>"
        answer(post(raw, bucket, body), 400, "UserKeyMustBeSpecified")


def test_quiet_in_capitals(raw, bucket):
    raw.put(bucket, "k", b"x")
    reply = post(raw, bucket, b"<Delete><Object><Key>k</Key></Object><Quiet>TRUE</Quiet></Delete>")
    assert answer(reply, 200).xml().find("Deleted") is None


def test_malformed(raw, s3, bucket, nothing_changes):
    raw.put(bucket, "k", b"x")
    bodies = [
        b"",
        b"<Delete>",
        b"<Delete></Delete>",
        b"<Delete><Object></Object></Delete>",
        b"<Other><Object><Key>k</Key></Object></Other>",
        b"<Delete><Object><Key>k</Key></Object></Delete><more/>",
        b'<!DOCTYPE d [<!ENTITY e "k">]><Delete><Object><Key>&e;</Key></Object></Delete>',
    ]
    with nothing_changes():
        for body in bodies:
            answer(post(raw, bucket, body), 400, "MalformedXML", "InvalidRequest", "MissingRequestBodyError")
    holds(s3, bucket, "k", b"x")


def test_wrong_md5_deletes_nothing(raw, s3, bucket, nothing_changes):
    raw.put(bucket, "k", b"x")
    body = b"<Delete><Object><Key>k</Key></Object></Delete>"
    wrong = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    with nothing_changes():
        answer(post(raw, bucket, body, [("Content-MD5", wrong)]), 400, "BadDigest")
    holds(s3, bucket, "k", b"x")
    answer(post(raw, bucket, body), 200)
    absent(s3, bucket, "k")


def test_a_request_without_a_digest_deletes_nothing(raw, s3, bucket, nothing_changes):
    raw.put(bucket, "k", b"x")
    body = b"<Delete><Object><Key>k</Key></Object></Delete>"
    with nothing_changes():
        answer(raw.request("POST", f"/{bucket}", [("delete", "")], body=body), 400, "InvalidRequest")
    holds(s3, bucket, "k", b"x")


def test_a_version_is_not_ignored(s3, bucket, nothing_changes):
    """No versioning: deleting some version must not delete the object."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    wanted = {"Objects": [{"Key": "k", "VersionId": "3sL4kqtJlcpXroDTDmJ"}]}
    with nothing_changes():
        try:
            reply = s3.delete_objects(Bucket=bucket, Delete=wanted)
            assert "Errors" in reply
        except s3.exceptions.ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] in (400, 404, 501)
    holds(s3, bucket, "k", b"x")


def test_oversized_body(raw, s3, bucket, nothing_changes):
    """Three thousand objects are refused."""
    raw.put(bucket, "k", b"x")
    filler = b"<Object><Key>" + b"k" * 1000 + b"</Key></Object>"
    body = b"<Delete>" + filler * 3000 + b"</Delete>"
    with nothing_changes():
        reply = post(raw, bucket, body)
    assert reply.status == 400, reply.brief()
    holds(s3, bucket, "k", b"x")
