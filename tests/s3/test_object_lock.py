"""Object lock, as AWS documents it."""

from __future__ import annotations

import base64
import datetime
import hashlib

import pytest
from support.expect import answer, holds, refused
from support.sigv4 import object_path
from support.unchanged import unchanged

HOUR = datetime.timedelta(hours=1)


def now():
    return datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)


@pytest.fixture
def locked(s3, server):
    """A bucket with object lock. Protected versions stay, so it is left to the end of the server."""
    import uuid

    name = f"lock-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    return name


def put(s3, bucket, key="k", body=b"x", **more) -> dict:
    version = s3.put_object(Bucket=bucket, Key=key, Body=body, **more)["VersionId"]
    return {"Bucket": bucket, "Key": key, "VersionId": version}


def held(s3, named, **more):
    with refused(403, "AccessDenied"):
        s3.delete_object(**named, **more)
    deleted = s3.delete_objects(
        Bucket=named["Bucket"], Delete={"Objects": [{"Key": named["Key"], "VersionId": named["VersionId"]}]}, **more
    )
    assert [e["Code"] for e in deleted["Errors"]] == ["AccessDenied"]
    assert s3.get_object(**named)["Body"].read() == b"x"


def retain(mode, until):
    return {"Mode": mode, "RetainUntilDate": until}


def test_configuration(s3, make_bucket, locked):
    found = s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"]
    assert found == {"ObjectLockEnabled": "Enabled"}
    assert s3.get_bucket_versioning(Bucket=locked)["Status"] == "Enabled"
    with refused(409, "InvalidBucketState"):
        s3.put_bucket_versioning(Bucket=locked, VersioningConfiguration={"Status": "Suspended"})
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 3}}
    whole = {"ObjectLockEnabled": "Enabled", "Rule": rule}
    s3.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration=whole)
    assert s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"] == whole
    named = put(s3, locked)
    head = s3.head_object(**named)
    assert head["ObjectLockMode"] == "GOVERNANCE"
    left = head["ObjectLockRetainUntilDate"] - now()
    assert datetime.timedelta(days=2.9) < left < datetime.timedelta(days=3.1)
    held(s3, named)
    # It can be changed, and only for later versions.
    s3.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"})
    assert "ObjectLockMode" not in s3.head_object(**put(s3, locked))
    held(s3, named)

    plain = make_bucket("v")
    with refused(404, "ObjectLockConfigurationNotFoundError"):
        s3.get_object_lock_configuration(Bucket=plain)
    with refused(409, "InvalidBucketState"):
        s3.put_object_lock_configuration(Bucket=plain, ObjectLockConfiguration=whole)
    s3.put_bucket_versioning(Bucket=plain, VersioningConfiguration={"Status": "Enabled"})
    s3.put_object_lock_configuration(Bucket=plain, ObjectLockConfiguration=whole)
    assert s3.get_object_lock_configuration(Bucket=plain)["ObjectLockConfiguration"] == whole


@pytest.mark.parametrize("mode", ["GOVERNANCE", "COMPLIANCE"])
def test_retention(s3, locked, mode):
    until = now() + HOUR
    named = put(s3, locked, ObjectLockMode=mode, ObjectLockRetainUntilDate=until)
    assert s3.get_object_retention(**named)["Retention"] == retain(mode, until)
    held(s3, named)
    # A delete marker is no deletion.
    marker = s3.delete_object(Bucket=locked, Key="k")
    assert marker["DeleteMarker"]
    s3.delete_object(Bucket=locked, Key="k", VersionId=marker["VersionId"])
    # Everybody may prolong it.
    s3.put_object_retention(**named, Retention=retain(mode, until + HOUR))
    assert s3.head_object(**named)["ObjectLockRetainUntilDate"] == until + HOUR
    # Nobody may shorten it, remove it or convert it without a bypass of governance.
    other = "COMPLIANCE" if mode == "GOVERNANCE" else "GOVERNANCE"
    for change in (retain(mode, until), retain(other, until + 2 * HOUR), {}):
        with refused(403, "AccessDenied"):
            s3.put_object_retention(**named, Retention=change)
        if mode == "COMPLIANCE":
            with refused(403, "AccessDenied"):
                s3.put_object_retention(**named, Retention=change, BypassGovernanceRetention=True)
    if mode == "COMPLIANCE":
        held(s3, named, BypassGovernanceRetention=True)
        return
    s3.put_object_retention(**named, Retention=retain(mode, until), BypassGovernanceRetention=True)
    held(s3, named)
    s3.delete_object(**named, BypassGovernanceRetention=True)
    with refused(404, "NoSuchVersion"):
        s3.get_object(**named)


def test_legal_hold(s3, locked):
    named = put(s3, locked)
    with refused(404, "NoSuchObjectLockConfiguration"):
        s3.get_object_legal_hold(**named)
    with refused(404, "NoSuchObjectLockConfiguration"):
        s3.get_object_retention(**named)
    s3.put_object_legal_hold(**named, LegalHold={"Status": "ON"})
    assert s3.get_object_legal_hold(**named)["LegalHold"] == {"Status": "ON"}
    assert s3.head_object(**named)["ObjectLockLegalHoldStatus"] == "ON"
    held(s3, named)
    held(s3, named, BypassGovernanceRetention=True)
    s3.put_object_legal_hold(**named, LegalHold={"Status": "OFF"})
    assert s3.get_object_legal_hold(**named)["LegalHold"] == {"Status": "OFF"}
    s3.delete_object(**named)


def test_a_version_below_the_current_one_stays_protected(s3, locked):
    old = put(s3, locked, ObjectLockLegalHoldStatus="ON")
    new = put(s3, locked, body=b"new")
    held(s3, old)
    s3.delete_object(**new)
    assert s3.head_object(Bucket=locked, Key="k")["VersionId"] == old["VersionId"]
    held(s3, old)
    s3.put_object_legal_hold(**old, LegalHold={"Status": "OFF"})
    s3.delete_object(**old)


def test_other_ways_to_write(s3, locked):
    until = now() + HOUR
    asked = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until, "ObjectLockLegalHoldStatus": "ON"}

    def is_held(key, version):
        head = s3.head_object(Bucket=locked, Key=key, VersionId=version)
        assert {name: head[name] for name in asked} == asked

    source = put(s3, locked, "source")
    copied = s3.copy_object(Bucket=locked, Key="copy", CopySource=source, **asked)
    is_held("copy", copied["VersionId"])
    # A copy does not take the protection of its source.
    bare = s3.copy_object(Bucket=locked, Key="bare", CopySource={"Bucket": locked, "Key": "copy"})
    assert "ObjectLockMode" not in s3.head_object(Bucket=locked, Key="bare", VersionId=bare["VersionId"])
    upload = s3.create_multipart_upload(Bucket=locked, Key="parts", **asked)["UploadId"]
    named = {"Bucket": locked, "Key": "parts", "UploadId": upload}
    tag = s3.upload_part(**named, PartNumber=1, Body=b"x")["ETag"]
    done = s3.complete_multipart_upload(**named, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]})
    is_held("parts", done["VersionId"])


def test_refusals(s3, raw, bucket, locked):
    until = now() + HOUR
    put(s3, locked)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for call, more in (
        (s3.put_object, {"Body": b"y", "ObjectLockLegalHoldStatus": "ON"}),
        (s3.put_object, {"Body": b"y", "ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until}),
        (s3.create_multipart_upload, {"ObjectLockLegalHoldStatus": "ON"}),
        (s3.get_object_retention, {}),
        (s3.get_object_legal_hold, {}),
        (s3.put_object_retention, {"Retention": retain("GOVERNANCE", until)}),
        (s3.put_object_legal_hold, {"LegalHold": {"Status": "ON"}}),
    ):
        with refused(400, "InvalidRequest"):
            call(Bucket=bucket, Key="k", **more)
    holds(s3, bucket, "k", b"x")
    past = now() - HOUR
    with refused(400, "InvalidArgument"):
        put(s3, locked, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=past)
    with refused(400, "InvalidArgument"):
        put(s3, locked, ObjectLockMode="GOVERNANCE")
    with refused(400, "InvalidArgument"):
        s3.put_object_retention(Bucket=locked, Key="k", Retention=retain("GOVERNANCE", past))
    # Without a checksum of the content nothing is locked.
    headers = [("x-amz-object-lock-legal-hold", "ON")]
    with unchanged():
        reply = raw.request("PUT", object_path(locked, "raw"), headers=headers, body=b"x")
        answer(reply, 400, "InvalidRequest")
        reply = raw.request("PUT", object_path(locked, "k"), [("legal-hold", "")], body=b"<LegalHold/>")
        answer(reply, 400, "InvalidRequest")
        # A header that would be ignored.
        reply = raw.request("GET", object_path(locked, "k"), headers=headers)
        answer(reply, 501, "NotImplemented")


def test_who_may_bypass_governance(s3, server, locked, tmp_path):
    """Owners may. A policy can forbid it to them, too."""
    import json

    named = put(s3, locked, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=now() + HOUR)
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:BypassGovernanceRetention",
        "Resource": f"arn:aws:s3:::{locked}/*",
    }
    s3.put_bucket_policy(Bucket=locked, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    held(s3, named, BypassGovernanceRetention=True)
    s3.delete_bucket_policy(Bucket=locked)
    s3.delete_object(**named, BypassGovernanceRetention=True)


def test_a_policy_bounds_retentions(s3, locked):
    import json

    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:PutObjectRetention",
        "Resource": f"arn:aws:s3:::{locked}/*",
        "Condition": {"NumericGreaterThan": {"s3:object-lock-remaining-retention-days": "10"}},
    }
    s3.put_bucket_policy(Bucket=locked, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    named = put(s3, locked)
    for days, fine in ((5, True), (20, False)):
        asked = retain("GOVERNANCE", now() + datetime.timedelta(days=days))
        if fine:
            s3.put_object_retention(**named, Retention=asked)
            continue
        with refused(403, "AccessDenied"):
            s3.put_object_retention(**named, Retention=asked)
        with refused(403, "AccessDenied"):
            put(s3, locked, ObjectLockMode=asked["Mode"], ObjectLockRetainUntilDate=asked["RetainUntilDate"])


def test_event_holds_are_refused(raw, locked):
    """They would protect the version; nothing here does."""
    for headers in ([("x-amz-object-lock-event-hold", "ON")], [("x-amz-object-lock-event-hold-duration-days", "30")]):
        with unchanged():
            reply = raw.request("PUT", object_path(locked, "k"), headers=headers, body=b"x")
            answer(reply, 501, "NotImplemented")
    raw.put(locked, "k", b"x")
    body = b"<Retention><EventHold>ON</EventHold></Retention>"
    digest = [("Content-MD5", base64.b64encode(hashlib.md5(body).digest()).decode())]
    with unchanged():
        answer(raw.request("PUT", object_path(locked, "k"), [("retention", "")], digest, body), 501, "NotImplemented")
