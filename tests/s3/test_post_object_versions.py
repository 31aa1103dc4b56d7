"""Forms into buckets with versions and locks, and the form of an anonymous browser."""

from __future__ import annotations

import base64
import datetime
import hashlib
import html
import json

import pytest
from s3.test_object_lock import held, locked, now  # noqa: F401
from s3.test_post_object import send, signed_fields, usual
from support.browser import Browser
from support.expect import answer, holds, keys, refused

HOUR = datetime.timedelta(hours=1)
BODY = b"x"
MD5 = ("content-md5", base64.b64encode(hashlib.md5(BODY).digest()).decode())
MODE, UNTIL, HOLD = "x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date", "x-amz-object-lock-legal-hold"


def with_fields(bucket, more):
    """The conditions and fields of a form with these fields beside the usual ones."""
    conditions, fields = usual(bucket)
    return conditions + [{name: value} for name, value in more], fields + list(more)


def test_a_form_makes_a_version(raw, s3, bucket, credentials):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    made = []
    for body in (b"one", b"two"):
        reply = answer(send(raw, bucket, signed_fields(credentials, *usual(bucket)), body), 204)
        made.append(reply.headers["x-amz-version-id"])
    listed = s3.list_object_versions(Bucket=bucket)["Versions"]
    assert [v["VersionId"] for v in listed] == made[::-1]
    assert s3.get_object(Bucket=bucket, Key="k", VersionId=made[0])["Body"].read() == b"one"
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    reply = answer(send(raw, bucket, signed_fields(credentials, *usual(bucket)), b"null"), 204)
    assert reply.headers["x-amz-version-id"] == "null"
    holds(s3, bucket, "k", b"null")


def test_the_fields_of_a_form_protect_its_object(raw, s3, locked, credentials):  # noqa: F811
    until = now() + HOUR
    fields = [(MODE, "GOVERNANCE"), (UNTIL, until.strftime("%Y-%m-%dT%H:%M:%SZ")), (HOLD, "ON"), MD5]
    reply = answer(send(raw, locked, signed_fields(credentials, *with_fields(locked, fields)), BODY), 204)
    named = {"Bucket": locked, "Key": "k", "VersionId": reply.headers["x-amz-version-id"]}
    head = s3.head_object(**named)
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == ("GOVERNANCE", until)
    assert head["ObjectLockLegalHoldStatus"] == "ON"
    held(s3, named)
    s3.put_object_legal_hold(**named, LegalHold={"Status": "OFF"})
    held(s3, named)
    s3.delete_object(**named, BypassGovernanceRetention=True)


@pytest.mark.parametrize(
    "fields, code",
    [
        ([(MODE, "GOVERNANCE"), MD5], "InvalidArgument"),
        ([(HOLD, "PERHAPS"), MD5], "InvalidArgument"),
        ([(HOLD, "ON")], "InvalidRequest"),
        ([(MODE, "GOVERNANCE"), (UNTIL, "2020-01-01T00:00:00Z"), MD5], "InvalidArgument"),
    ],
    ids=["no end", "no hold", "no checksum", "over"],
)
def test_wrong_protections_are_refused(raw, s3, locked, credentials, fields, code):  # noqa: F811
    answer(send(raw, locked, signed_fields(credentials, *with_fields(locked, fields)), BODY), 400, code)
    assert keys(s3, locked) == []


def test_a_protection_needs_a_bucket_with_locks(raw, s3, bucket, credentials, nothing_changes):
    with nothing_changes():
        reply = send(raw, bucket, signed_fields(credentials, *with_fields(bucket, [(HOLD, "ON"), MD5])), BODY)
        answer(reply, 400, "InvalidRequest")


def test_a_form_takes_the_default_retention(raw, s3, locked, credentials):  # noqa: F811
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    s3.put_object_lock_configuration(
        Bucket=locked, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    # As for PutObject, a checksum has to come with it.
    answer(send(raw, locked, signed_fields(credentials, *usual(locked)), BODY), 400, "InvalidRequest")
    reply = answer(send(raw, locked, signed_fields(credentials, *with_fields(locked, [MD5])), BODY), 204)
    named = {"Bucket": locked, "Key": "k", "VersionId": reply.headers["x-amz-version-id"]}
    assert s3.head_object(**named)["ObjectLockMode"] == "GOVERNANCE"
    held(s3, named)
    s3.delete_object(**named, BypassGovernanceRetention=True)


PAGE = """<!doctype html><title>Send a picture</title>
<form method="post" enctype="multipart/form-data" action="{action}">
<input type="hidden" name="key" value="inbox/${{filename}}">
<input type="hidden" name="success_action_redirect" value="{thanks}">
<input type="file" name="file"><input type="submit" value="Send">
</form>
"""


def test_an_anonymous_browser_uploads_by_the_form_of_a_page(s3, server, bucket):
    """A public page whose form everybody may send, into one folder only."""
    s3.delete_public_access_block(Bucket=bucket)
    statements = [
        {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/pages/*"},
        {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/inbox/*"},
    ]
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": statements}))
    thanks = f"{server.endpoint}/{bucket}/pages/thanks.html"
    page = PAGE.format(action=f"{server.endpoint}/{bucket}", thanks=html.escape(thanks))
    for name, text in (("form.html", page), ("thanks.html", "thank you")):
        s3.put_object(Bucket=bucket, Key=f"pages/{name}", Body=text.encode(), ContentType="text/html")

    browser = Browser(server.endpoint)
    shown = browser.get(f"/{bucket}/pages/form.html")
    assert shown.status == 200 and shown.headers["content-type"] == "text/html"
    sent = browser.upload(shown, "my picture.png", b"a picture", "image/png")
    assert sent.status == 303 and sent.headers["location"].startswith(thanks), (sent.status, sent.text)
    assert browser.get(sent.headers["location"].removeprefix(server.endpoint)).text == "thank you"
    holds(s3, bucket, "inbox/my picture.png", b"a picture")
    # It reads nothing of what was sent, and cannot send elsewhere.
    assert browser.get(f"/{bucket}/inbox/my%20picture.png").status == 403
    shown.text = shown.text.replace("inbox/", "pages/")
    assert browser.upload(shown, "form.html", b"overwritten", "text/html").status == 403
    assert browser.get(f"/{bucket}/pages/form.html").text == page
    with refused(404):
        s3.head_object(Bucket=bucket, Key="pages/my picture.png")
