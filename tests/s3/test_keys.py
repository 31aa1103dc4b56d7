"""Odd keys: each must come back as itself, from every operation that names it."""

import pytest
from support.expect import answer, refused
from support.sigv4 import object_path
from support.unchanged import unchanged

KEYS = [
    "a b", "a+b", "a%b", "a%20b", "a%2Fb", "%", "%%", "a&b=c", "a?b", "a#b", "a;b", "a:b", "a@b", "a,b",
    "'single'", '"double"', "<tag>", "a&amp;b", "[x]", "{x}", "|", "\\", "\\..\\x", "^", "`", "~", "*", "!", "$", "()",
    ".", "..", "...", "../x", "a/../b", "a/./b", "./a", "/", "//", "/a", "//a", "a/", "a//", "a//b", " ", " a", "a ", "a ",
    "soap", "k.", "CON", "-", "_", "=", "ü", "u\u0308", "日本語/キー", "🙂", "\u00a0", "\u200b", "\ue000", "\uffff"[:0] + "é",
    "tab\tkey", "line\nfeed", "return\rkey", "\x7f", "\x01",
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=lambda k: k.encode("unicode_escape").decode().replace("/", "∕"))
def test_round_trip(raw, bucket, key):
    data = b"content of " + key.encode()
    answer(raw.put(bucket, key, data), 200)
    assert answer(raw.get(bucket, key), 200).body == data
    answer(raw.head(bucket, key), 200)
    assert listed(raw, bucket) == [key]
    source = [("x-amz-copy-source", object_path(bucket, key))]
    answer(raw.put(bucket, "copied", b"", source), 200)
    assert raw.get(bucket, "copied").body == data
    answer(raw.delete(bucket, key), 204)
    with unchanged():
        answer(raw.get(bucket, key), 404, "NoSuchKey")
    assert listed(raw, bucket) == ["copied"]


def listed(raw, bucket) -> list[str]:
    from urllib.parse import unquote

    query = [("list-type", "2"), ("encoding-type", "url")]
    reply = answer(raw.request("GET", f"/{bucket}", query), 200).xml()
    return [unquote(c.findtext("Key").replace("+", "%20")) for c in reply.iter("Contents")]


def test_all_odd_keys_beside_each_other(s3, raw, bucket):
    """No two are taken for one; the order is that of their UTF-8 bytes."""
    wanted = sorted(set(KEYS), key=lambda k: k.encode())
    for key in wanted:
        answer(raw.put(bucket, key, key.encode()), 200)
    assert listed(raw, bucket) == wanted
    for key in wanted:
        assert raw.get(bucket, key).body == key.encode()


def test_listing_stays_well_formed_xml(raw, bucket):
    """Without encoding-type, a key that XML 1.0 cannot hold must not break the document."""
    for key in ("\x01", "ok", "a\x0bb"):
        answer(raw.put(bucket, key, b"x"), 200)
    reply = raw.request("GET", f"/{bucket}", [("list-type", "2")])
    assert reply.status in (200, 400), reply.brief()
    reply.xml()


def test_longest_key(raw, bucket):
    for key in ("k" * 1024, "ü" * 512, "d/" * 512):
        assert len(key.encode()) == 1024
        answer(raw.put(bucket, key, b"long"), 200)
        assert raw.get(bucket, key).body == b"long"
    assert len(listed(raw, bucket)) == 3


def test_too_long_key(raw, s3, bucket, nothing_changes):
    with nothing_changes():
        for key in ("k" * 1025, "ü" * 512 + "x"):
            answer(raw.put(bucket, key, b"x"), 400, "KeyTooLongError")
            answer(raw.get(bucket, key), 400, "KeyTooLongError")
        with refused(400, "KeyTooLongError"):
            s3.create_multipart_upload(Bucket=bucket, Key="k" * 1025)
    assert listed(raw, bucket) == []


def test_invalid_utf8_is_refused(raw, bucket, nothing_changes):
    """%FF, an overlong slash and a lone surrogate are no UTF-8."""
    with nothing_changes():
        for path in ("%FF", "%C0%AF", "%ED%A0%80", "a%80"):
            reply = raw.request("PUT", f"/{bucket}/{path}", body=b"x")
            assert reply.status == 400, reply.brief()
    assert listed(raw, bucket) == []


def test_composed_and_decomposed_are_two_keys(raw, bucket):
    answer(raw.put(bucket, "\u00fc", b"one"), 200)
    answer(raw.put(bucket, "u\u0308", b"two"), 200)
    assert raw.get(bucket, "\u00fc").body == b"one"
    assert raw.get(bucket, "u\u0308").body == b"two"


def test_raw_dots_in_the_path_are_not_resolved(raw, make_bucket):
    """`/a/x/../../b/y` names the key `x/../../b/y` of bucket a, and nothing in bucket b."""
    one, other = make_bucket(), make_bucket()
    answer(raw.put(other, "secret", b"other's"), 200)
    with unchanged():
        answer(raw.request("GET", f"/{one}/../{other}/secret"), 404, "NoSuchKey")
    answer(raw.request("PUT", f"/{one}/../{other}/secret", body=b"mine"), 200)
    assert raw.get(other, "secret").body == b"other's"
    assert listed(raw, one) == [f"../{other}/secret"]
