"""PostObject: the browser form and its policy."""

import base64
import datetime
import json
import uuid

import pytest
from support import sigv4
from support.data import MIB, content, etag
from support.expect import absent, answer, holds, keys


def policy(conditions, seconds=600, text=None) -> str:
    """An encoded policy; `text` takes the place of the whole document."""
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    document = {"expiration": end.strftime("%Y-%m-%dT%H:%M:%S.000Z"), "conditions": conditions}
    return base64.b64encode((text or json.dumps(document)).encode()).decode()


def signed_fields(credentials, conditions, fields, seconds=600, text=None, stamp=None) -> list[tuple[str, str]]:
    """The form's fields with policy and signature; the signing fields are among the conditions."""
    stamp = stamp or sigv4.timestamp()
    signing = [
        ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
        ("x-amz-credential", f"{credentials.access_key}/{sigv4.scope(credentials, stamp)}"),
        ("x-amz-date", stamp),
    ]
    encoded = policy([*conditions, *({n: v} for n, v in signing)], seconds, text)
    value = sigv4.sign_text(credentials, stamp, encoded)
    return [*fields, *signing, ("policy", encoded), ("x-amz-signature", value)]


def form(fields, file: bytes | None, after=(), filename="up.txt") -> tuple[str, bytes]:
    """The content type and body of a multipart form."""
    boundary = uuid.uuid4().hex
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n'.encode() for n, v in fields
    ]
    if file is not None:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\n'
        parts.append(head.encode() + b"Content-Type: text/plain\r\n\r\n" + file + b"\r\n")
    parts += [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n'.encode() for n, v in after
    ]
    return f"multipart/form-data; boundary={boundary}", b"".join(parts) + f"--{boundary}--\r\n".encode()


def send(raw, bucket, fields, file=b"content", **more):
    kind, body = form(fields, file, **more)
    headers = [("Content-Type", kind)]
    return raw.request("POST", f"/{bucket}", headers=headers, body=body, anonymous=True)


def usual(bucket, key="k"):
    return [{"bucket": bucket}, ["starts-with", "$key", ""]], [("key", key)]


def test_upload(raw, s3, bucket, credentials):
    conditions, fields = usual(bucket)
    reply = answer(send(raw, bucket, signed_fields(credentials, conditions, fields)), 204)
    assert reply.headers["etag"] == etag(b"content") and reply.headers["location"].endswith(f"/{bucket}/k")
    holds(s3, bucket, "k", b"content")


def test_boto3_presigned_post(raw, s3, bucket):
    made = s3.generate_presigned_post(
        bucket, "boto", Conditions=[["content-length-range", 1, 100]], ExpiresIn=60
    )
    answer(send(raw, bucket, list(made["fields"].items())), 204)
    holds(s3, bucket, "boto", b"content")


def test_conditions_in_headers_hold(raw, s3, bucket, credentials, nothing_changes):
    """Policies may ask for them (s3:if-none-match), so a form does not pass them over."""
    raw.put(bucket, "k", b"kept")
    conditions, fields = usual(bucket)
    kind, body = form(signed_fields(credentials, conditions, fields), b"content")
    headers = [("Content-Type", kind), ("If-None-Match", "*")]
    with nothing_changes():
        reply = raw.request("POST", f"/{bucket}", headers=headers, body=body, anonymous=True)
        answer(reply, 412, "PreconditionFailed")
    holds(s3, bucket, "k", b"kept")


def test_large_file(raw, s3, bucket, credentials):
    data = content(6 * MIB + 1, "posted") + b"\r\n--not the boundary\r\n"
    conditions, fields = usual(bucket)
    answer(send(raw, bucket, signed_fields(credentials, conditions, fields), data), 204)
    holds(s3, bucket, "k", data)


def test_metadata_type_and_filename(raw, s3, bucket, credentials):
    conditions, fields = usual(bucket, "dir/${filename}")
    conditions += [{"x-amz-meta-colour": "blue"}, ["starts-with", "$Content-Type", "image/"]]
    fields += [("x-amz-meta-colour", "blue"), ("Content-Type", "image/png")]
    answer(send(raw, bucket, signed_fields(credentials, conditions, fields), filename="pic 1.png"), 204)
    head = s3.head_object(Bucket=bucket, Key="dir/pic 1.png")
    assert head["Metadata"] == {"colour": "blue"} and head["ContentType"] == "image/png"


def test_success_action_status(raw, bucket, credentials):
    for status, wanted in (("200", 200), ("201", 201), ("204", 204), ("418", 204)):
        conditions, fields = usual(bucket)
        conditions.append(["starts-with", "$success_action_status", ""])
        fields.append(("success_action_status", status))
        reply = answer(send(raw, bucket, signed_fields(credentials, conditions, fields)), wanted)
        if wanted == 201:
            root = reply.xml()
            assert root.tag == "PostResponse" and root.findtext("Bucket") == bucket
            assert root.findtext("Key") == "k" and root.findtext("ETag") == etag(b"content")


def test_success_action_redirect(raw, bucket, credentials):
    conditions, fields = usual(bucket)
    target = "https://app.example/done?x=1"
    conditions.append({"success_action_redirect": target})
    fields.append(("success_action_redirect", target))
    reply = answer(send(raw, bucket, signed_fields(credentials, conditions, fields)), 303)
    location = reply.headers["location"]
    assert location.startswith(target + "&") and f"bucket={bucket}" in location and "key=k" in location
    assert "etag=" in location


def refused(raw, s3, bucket, fields, status, *codes, file=b"content", **more):
    answer(send(raw, bucket, fields, file, **more), status, *codes)
    assert keys(s3, bucket) == []


@pytest.mark.parametrize(
    "condition,field",
    [
        (["eq", "$key", "other"], None),
        (["starts-with", "$key", "dir/"], None),
        ({"x-amz-meta-a": "1"}, ("x-amz-meta-a", "2")),
        ({"x-amz-meta-a": "1"}, None),
        (["starts-with", "$x-amz-meta-a", ""], None),
        (["starts-with", "$Content-Type", "image/"], ("Content-Type", "text/html")),
        ({"bucket": "another-bucket"}, None),
    ],
)
def test_violated_conditions(raw, s3, bucket, credentials, condition, field, nothing_changes):
    """Class of RustFS w5fh-f8xh-5x3p: each violated alone is refused and nothing stored."""
    conditions, fields = usual(bucket)
    fields = fields + ([field] if field else [])
    made = signed_fields(credentials, [*conditions, condition], fields)
    with nothing_changes():
        refused(raw, s3, bucket, made, 403, "AccessDenied")


def test_field_without_condition(raw, s3, bucket, credentials, nothing_changes):
    conditions, fields = usual(bucket)
    made = signed_fields(credentials, conditions, [*fields, ("x-amz-meta-sneaked", "1")])
    with nothing_changes():
        refused(raw, s3, bucket, made, 403, "AccessDenied")


def test_ignored_fields_need_no_condition(raw, s3, bucket, credentials):
    conditions, fields = usual(bucket)
    made = signed_fields(credentials, conditions, [*fields, ("x-ignore-this", "1")])
    answer(send(raw, bucket, made), 204)


def test_fields_after_the_file_are_ignored(raw, s3, bucket, credentials):
    conditions, fields = usual(bucket)
    made = signed_fields(credentials, conditions, fields)
    reply = send(raw, bucket, made, after=[("key", "other"), ("x-amz-meta-late", "1")])
    assert reply.status in (204, 400), reply.brief()
    absent(s3, bucket, "other")


def test_length_range(raw, s3, bucket, credentials, nothing_changes):
    conditions, fields = usual(bucket)
    made = signed_fields(credentials, [*conditions, ["content-length-range", 5, 10]], fields)
    with nothing_changes():
        refused(raw, s3, bucket, made, 400, "EntityTooLarge", file=b"x" * 11)
        refused(raw, s3, bucket, made, 400, "EntityTooSmall", file=b"x" * 4)
        refused(raw, s3, bucket, made, 400, "EntityTooLarge", file=content(3 * MIB, "too large"))
    answer(send(raw, bucket, made, b"x" * 10), 204)


def test_expired_policy(raw, s3, bucket, credentials, nothing_changes):
    conditions, fields = usual(bucket)
    made = signed_fields(credentials, conditions, fields, seconds=-5)
    with nothing_changes():
        refused(raw, s3, bucket, made, 403, "AccessDenied")


def test_signature_is_valid_for_seven_days(raw, s3, bucket, credentials):
    """The signing key of a day is valid for seven days: a policy of ten years does not outlive it."""
    conditions, fields = usual(bucket)
    week, years = 7 * 86400, 10 * 365 * 86400
    old = signed_fields(credentials, conditions, fields, seconds=years, stamp=sigv4.shifted(-week - 60))
    refused(raw, s3, bucket, old, 403, "AccessDenied")
    young = signed_fields(credentials, conditions, fields, seconds=years, stamp=sigv4.shifted(-week + 600))
    answer(send(raw, bucket, young), 204)


def test_policy_without_a_bucket(raw, s3, bucket, credentials):
    """A policy that names no bucket would allow uploads to all buckets of its signer."""
    conditions = [["starts-with", "$key", ""]]
    made = signed_fields(credentials, conditions, [("key", "k")])
    refused(raw, s3, bucket, made, 403, "AccessDenied")
    made = signed_fields(credentials, conditions, [("key", "k"), ("bucket", bucket)])
    refused(raw, s3, bucket, made, 403, "AccessDenied")


@pytest.mark.parametrize("prefix", ["", "t"])
def test_bucket_cannot_be_matched_by_prefix(raw, s3, bucket, credentials, prefix):
    conditions = [["starts-with", "$key", ""], ["starts-with", "$bucket", prefix]]
    made = signed_fields(credentials, conditions, [("key", "k")])
    refused(raw, s3, bucket, made, 400, "InvalidPolicyDocument")


@pytest.mark.parametrize(
    "members,condition",
    [
        ("", '{"bucket": "other", "bucket": "BUCKET"}'),
        ("", '{"bucket": "BUCKET", "x-ignore-a": "1"}'),
        ("", "{}"),
        (', "conditions": []', '{"bucket": "BUCKET"}'),
        (', "expiration": "2099-01-01T00:00:00Z"', '{"bucket": "BUCKET"}'),
        (', "not-before": "2098-01-01T00:00:00Z"', '{"bucket": "BUCKET"}'),
    ],
)
def test_ambiguous_policies(raw, s3, bucket, credentials, members, condition):
    """A policy that two readers may read differently allows nothing."""
    text = f'{{"expiration": "2099-01-01T00:00:00Z", "conditions": [{condition}, REST]{members}}}'
    text = text.replace("BUCKET", bucket)
    signing = [f'["starts-with", "$x-amz-{n}", ""]' for n in ("algorithm", "credential", "date")]
    text = text.replace("REST", ", ".join(['["starts-with", "$key", ""]', *signing]))
    made = signed_fields(credentials, [], [("key", "k")], text=text)
    refused(raw, s3, bucket, made, 400, "InvalidPolicyDocument")


def test_tampered(raw, s3, bucket, credentials, nothing_changes):
    conditions, fields = usual(bucket)
    made = dict(signed_fields(credentials, conditions, fields))
    wider = policy([{"bucket": bucket}], 6000)
    with nothing_changes():
        refused(raw, s3, bucket, list((made | {"policy": wider}).items()), 403, "SignatureDoesNotMatch")
        wrong = made | {"x-amz-signature": "0" * 64}
        refused(raw, s3, bucket, list(wrong.items()), 403, "SignatureDoesNotMatch")
        unknown = made | {"x-amz-credential": "GKUNKNOWN0/" + made["x-amz-credential"].split("/", 1)[1]}
        refused(raw, s3, bucket, list(unknown.items()), 403, "InvalidAccessKeyId", "AccessDenied")


@pytest.mark.parametrize("missing", ["policy", "x-amz-signature", "x-amz-credential", "x-amz-date", "x-amz-algorithm"])
def test_missing_signing_fields(raw, s3, bucket, credentials, missing, nothing_changes):
    conditions, fields = usual(bucket)
    made = [(n, v) for n, v in signed_fields(credentials, conditions, fields) if n != missing]
    with nothing_changes():
        reply = send(raw, bucket, made)
    assert reply.status in (400, 403), reply.brief()
    assert keys(s3, bucket) == []


def test_anonymous_form(raw, s3, bucket, nothing_changes):
    with nothing_changes():
        refused(raw, s3, bucket, [("key", "k")], 403, "AccessDenied")


def test_a_form_for_the_address_of_an_object(raw, bucket, nothing_changes):
    with nothing_changes():
        kind = [("Content-Type", "multipart/form-data; boundary=b")]
        reply = raw.request("POST", f"/{bucket}/k", headers=kind, body=b"--b--", anonymous=True)
    assert (reply.status, reply.code) == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "{}",
        '{"expiration": "never", "conditions": []}',
        '{"expiration": "2099-01-01T00:00:00Z"}',
        '{"expiration": "2099-01-01T00:00:00Z", "conditions": [["matches", "$key", ".*"]]}',
        '{"expiration": "2099-01-01T00:00:00Z", "expiration": "2099-01-01T00:00:00Z", "conditions": []}',
    ],
)
def test_malformed_policies(raw, s3, bucket, credentials, text, nothing_changes):
    _, fields = usual(bucket)
    with nothing_changes():
        reply = send(raw, bucket, signed_fields(credentials, [], fields, text=text))
    assert reply.status in (400, 403), reply.brief()
    assert keys(s3, bucket) == []


def test_missing_key_or_file(raw, s3, bucket, credentials, nothing_changes):
    conditions, _ = usual(bucket)
    made = signed_fields(credentials, [{"bucket": bucket}], [])
    with nothing_changes():
        refused(raw, s3, bucket, made, 400, "InvalidArgument")
        conditions, fields = usual(bucket)
        refused(raw, s3, bucket, signed_fields(credentials, conditions, fields), 400, file=None)


def test_duplicate_fields(raw, s3, bucket, credentials):
    """Two keys: which one did the policy check? Neither is stored under the unchecked name."""
    conditions = [{"bucket": bucket}, {"key": "k"}]
    made = signed_fields(credentials, conditions, [("key", "k"), ("key", "other")])
    send(raw, bucket, made)
    absent(s3, bucket, "other")


def test_form_for_another_bucket(raw, s3, make_bucket, credentials, nothing_changes):
    """Class of CVE-2023-43040 and CVE-2023-28434: the policy names one bucket, the form is sent to another."""
    mine, other = make_bucket(), make_bucket()
    conditions, fields = usual(mine)
    with nothing_changes():
        refused(raw, s3, other, signed_fields(credentials, conditions, fields), 403, "AccessDenied")
        made = signed_fields(credentials, conditions, [*fields, ("bucket", mine)])
        refused(raw, s3, other, made, 403, "AccessDenied")


def test_traversal_in_filename(raw, s3, make_bucket, credentials):
    one, other = make_bucket(), make_bucket()
    conditions, fields = usual(one, "up/${filename}")
    send(raw, one, signed_fields(credentials, conditions, fields), filename=f"../../{other}/x")
    assert keys(s3, other) == []


def test_malformed_forms(raw, s3, bucket, credentials, nothing_changes):
    conditions, fields = usual(bucket)
    kind, body = form(signed_fields(credentials, conditions, fields), b"content")
    with nothing_changes():
        for bad_kind, bad_body in [
            ("multipart/form-data", body),
            ("multipart/form-data; boundary=", body),
            ("multipart/form-data; boundary=other", body),
            ("application/x-www-form-urlencoded", b"key=k"),
            (kind, body[: len(body) // 2]),
            (kind, body[:-8]),
            (kind, b""),
        ]:
            reply = raw.request("POST", f"/{bucket}", headers=[("Content-Type", bad_kind)], body=bad_body, anonymous=True)
            assert reply.status in (400, 403, 412, 415), reply.brief()
    assert keys(s3, bucket) == []


def test_endless_field_is_bounded(raw, s3, bucket, credentials, nothing_changes):
    """A form field of 2 MiB is refused, not collected."""
    conditions, fields = usual(bucket)
    fields.append(("x-ignore-long", "v" * (2 * MIB)))
    with nothing_changes():
        reply = send(raw, bucket, signed_fields(credentials, conditions, fields))
    assert reply.status == 400, reply.brief()
    assert keys(s3, bucket) == []


def test_what_is_no_form(raw, bucket, nothing_changes):
    with nothing_changes():
        headers = [("Content-Type", "text/plain")]
        reply = raw.request("POST", f"/{bucket}", headers=headers, body=b"x", anonymous=True)
        answer(reply, 412, "PreconditionFailed")


def test_the_type_of_a_form_in_capitals(raw, s3, bucket, credentials):
    fields = [("key", "k"), ("bucket", bucket)]
    kind, body = form(signed_fields(credentials, [{"bucket": bucket}, {"key": "k"}], fields), b"content")
    headers = [("Content-Type", kind.replace("multipart/form-data", "Multipart/Form-Data"))]
    answer(raw.request("POST", f"/{bucket}", headers=headers, body=body, anonymous=True), 204)
    holds(s3, bucket, "k", b"content")


def test_a_file_with_a_line_that_begins_as_the_boundary_is_not_cut_off(raw, bucket, credentials, nothing_changes):
    fields = [("key", "k"), ("bucket", bucket)]
    kind, body = form(signed_fields(credentials, [{"bucket": bucket}, {"key": "k"}], fields), b"HERE")
    boundary = kind.split("=")[1].encode()
    body = body.replace(b"HERE", b"x\r\n--" + boundary + b"x\r\nmore")
    with nothing_changes():
        reply = raw.request("POST", f"/{bucket}", headers=[("Content-Type", kind)], body=body, anonymous=True)
        answer(reply, 400, "MalformedPOSTRequest")
