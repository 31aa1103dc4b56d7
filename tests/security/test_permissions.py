"""The permissions of access keys: none, read, write, owner; and that taking them back works at once."""

from __future__ import annotations

import pytest
from support.expect import answer, holds
from support.sigv4 import Credentials, object_path
from support.unchanged import Look, unchanged

pytestmark = pytest.mark.process


OPERATIONS = {
    "read": [
        ("GET", "k", [], b""), ("HEAD", "k", [], b""), ("GET", None, [("list-type", "2")], b""), ("GET", None, [], b""),
        ("GET", "k", [("partNumber", "1")], b""), ("GET", None, [("uploads", "")], b""),
    ],
    "write": [
        ("PUT", "new", [], b"x"), ("DELETE", "new", [], b""), ("POST", "multi", [("uploads", "")], b""),
    ],
    "owner": [
        ("PUT", None, [("cors", "")], b"<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod>"
                                      b"<AllowedOrigin>*</AllowedOrigin></CORSRule></CORSConfiguration>"),
        ("DELETE", None, [("cors", "")], b""),
    ],
}  # fmt: skip


@pytest.mark.parametrize("granted", ["", "read", "write", "owner", "read write", "read write owner"])
def test_matrix(raw, s3, bucket, cli, make_key, granted):
    """Each operation with each grant: allowed exactly if its own permission was given."""
    raw.put(bucket, "k", b"kept")
    key = make_key(f"matrix {granted}")
    if granted:
        cli("key", "allow", key.access_key, "--bucket", bucket, *(f"--{g}" for g in granted.split()))
    for needed, operations in OPERATIONS.items():
        for method, name, query, body in operations:
            look = Look()
            reply = raw.request(method, object_path(bucket, name), query, body=body, credentials=key)
            if needed in granted:
                assert reply.status in (200, 204, 206), f"{granted}: {method} {name} {query} {reply.brief()}"
            else:
                answer(reply, 403, *([] if method == "HEAD" else ["AccessDenied"]))
                look.same()
    holds(s3, bucket, "k", b"kept")


def test_list_buckets_shows_only_what_is_granted(raw, make_bucket, cli, make_key):
    mine, other = make_bucket(), make_bucket()
    key = make_key("lister")
    cli("key", "allow", key.access_key, "--bucket", mine, "--read")
    names = [b.findtext("Name") for b in answer(raw.request("GET", "/", credentials=key), 200).xml().iter("Bucket")]
    assert names == [mine] and other not in names


def test_readers_do_not_learn_the_id_of_the_owners_key(raw, s3, bucket, cli, make_key, credentials):
    """Half of a credential is no name: documents give a canonical id, as S3 does."""
    raw.put(bucket, "k", b"x")
    s3.create_multipart_upload(Bucket=bucket, Key="m")
    key = make_key("reader of names")
    cli("key", "allow", key.access_key, "--bucket", bucket, "--read")
    owners = set()
    for query in ([], [("list-type", "2"), ("fetch-owner", "true")], [("uploads", "")]):
        reply = answer(raw.request("GET", f"/{bucket}", query, credentials=key), 200)
        assert credentials.access_key.encode() not in reply.body
        owners |= {e.text for e in reply.xml().iter() if e.tag.endswith("ID")}
    assert len(owners) == 1 and all(len(o) == 64 and int(o, 16) for o in owners)
    expected = [("x-amz-expected-bucket-owner", owners.pop())]
    answer(raw.get(bucket, "k", expected, credentials=key), 200)


def test_create_bucket_needs_its_own_permission(raw, s3, cli, make_key):
    key = make_key("plain")
    with unchanged():
        answer(raw.request("PUT", "/not-allowed-bucket", credentials=key), 403, "AccessDenied")
    maker = make_key("maker", "--create-bucket")
    answer(raw.request("PUT", "/makers-bucket", credentials=maker), 200)
    answer(raw.request("PUT", "/makers-bucket/k", body=b"x", credentials=maker), 200)
    answer(raw.request("DELETE", "/makers-bucket/k", credentials=maker), 204)
    answer(raw.request("DELETE", "/makers-bucket", credentials=maker), 204)


def test_name_of_another_owner(raw, bucket, cli, make_key, nothing_changes):
    """Creating a bucket that someone else has is refused, and gives no access to it."""
    maker = make_key("taker", "--create-bucket")
    raw.put(bucket, "k", b"mine")
    with nothing_changes():
        answer(raw.request("PUT", f"/{bucket}", credentials=maker), 409, "BucketAlreadyExists")
        answer(raw.get(bucket, "k", credentials=maker), 403, "AccessDenied")


def test_copy_needs_the_right_to_read_its_source(raw, s3, make_bucket, cli, make_key, nothing_changes):
    """Classes of CVE-2026-39360 and SeaweedFS c61d22761: CopyObject and UploadPartCopy, in every spelling."""
    source, target = make_bucket(), make_bucket()
    raw.put(source, "secret", b"secret")
    key = make_key("copier")
    cli("key", "allow", key.access_key, "--bucket", target, "--read", "--write")
    upload = answer(raw.request("POST", object_path(target, "up"), [("uploads", "")], credentials=key), 200)
    upload_id = upload.xml().findtext("UploadId")
    with nothing_changes():
        for spelled in (f"/{source}/secret", f"{source}/secret", f"%2F{source}%2Fsecret", f"{source}%2Fsecret"):
            header = [("x-amz-copy-source", spelled)]
            reply = raw.put(target, "stolen", b"", header, credentials=key)
            assert reply.status in (400, 403, 404), reply.brief()
            query = [("partNumber", "1"), ("uploadId", upload_id)]
            reply = raw.request("PUT", object_path(target, "up"), query, header, credentials=key)
            assert reply.status in (400, 403, 404), reply.brief()
    with unchanged():
        answer(raw.get(target, "stolen"), 404)


def test_copy_needs_the_right_to_write_its_target(raw, make_bucket, cli, make_key, nothing_changes):
    source, target = make_bucket(), make_bucket()
    raw.put(source, "k", b"x")
    key = make_key("reader")
    cli("key", "allow", key.access_key, "--bucket", source, "--read")
    with nothing_changes():
        reply = raw.put(target, "k", b"", [("x-amz-copy-source", f"/{source}/k")], credentials=key)
    answer(reply, 403, "AccessDenied")


def test_delete_objects_needs_write(raw, s3, bucket, cli, make_key, nothing_changes):
    raw.put(bucket, "k", b"kept")
    key = make_key("reader only")
    cli("key", "allow", key.access_key, "--bucket", bucket, "--read")
    body = b"<Delete><Object><Key>k</Key></Object></Delete>"
    from s3.test_delete_objects import post

    class As:
        def request(self, *arguments, **more):
            return raw.request(*arguments, **more, credentials=key)

    with nothing_changes():
        reply = answer(post(As(), bucket, body), 200)
    assert b"<Key>k</Key><Code>AccessDenied</Code>" in reply.body and b"<Deleted>" not in reply.body
    holds(s3, bucket, "k", b"kept")


def test_post_form_and_presigned_need_write(raw, s3, bucket, cli, make_key, nothing_changes):
    """Class of CVE-2021-21362: a read-only key through the form and through a URL."""
    from s3.test_post_object import send, signed_fields, usual
    from support import sigv4

    key = make_key("form reader")
    cli("key", "allow", key.access_key, "--bucket", bucket, "--read")
    conditions, fields = usual(bucket)
    with nothing_changes():
        answer(send(raw, bucket, signed_fields(key, conditions, fields)), 403, "AccessDenied")
        url = sigv4.presign(key, "PUT", raw.host, object_path(bucket, "k"))
        answer(raw.presigned("PUT", url, body=b"x"), 403, "AccessDenied")
    with unchanged():
        answer(raw.get(bucket, "k"), 404)


def test_foreign_upload_ids(raw, make_bucket, cli, make_key, nothing_changes):
    """An upload id of a bucket that the key may not use is worth nothing elsewhere."""
    mine, other = make_bucket(), make_bucket()
    upload = raw.request("POST", object_path(other, "k"), [("uploads", "")]).xml().findtext("UploadId")
    key = make_key("uploader")
    cli("key", "allow", key.access_key, "--bucket", mine, "--read", "--write")
    query = [("partNumber", "1"), ("uploadId", upload)]
    with nothing_changes():
        answer(raw.request("PUT", object_path(mine, "k"), query, body=b"x", credentials=key), 404, "NoSuchUpload")
        answer(raw.request("PUT", object_path(other, "k"), query, body=b"x", credentials=key), 403, "AccessDenied")


def test_denied_and_deleted_keys_stop_at_once(raw, bucket, cli, make_key, server):
    raw.put(bucket, "k", b"x")
    key = make_key("short-lived")
    cli("key", "allow", key.access_key, "--bucket", bucket, "--read", "--write")
    answer(raw.get(bucket, "k", credentials=key), 200)
    cli("key", "deny", key.access_key, "--bucket", bucket, "--read")
    with unchanged():
        answer(raw.get(bucket, "k", credentials=key), 403, "AccessDenied")
    answer(raw.put(bucket, "k2", b"x", credentials=key), 200)
    gone = cli("key", "create", "to delete")
    cli("key", "allow", gone["id"], "--bucket", bucket, "--read")
    dead = Credentials(gone["id"], gone["secret"], server.region)
    answer(raw.get(bucket, "k", credentials=dead), 200)
    cli("key", "delete", gone["id"])
    with unchanged():
        answer(raw.get(bucket, "k", credentials=dead), 403, "InvalidAccessKeyId")
