"""Lifecycle configurations: what is kept, told and refused. `test_lifecycle_days.py` sees what they do."""

import datetime

import pytest
from botocore.exceptions import ClientError
from support.expect import answer, refused
from support.unchanged import unchanged

DAYS = {"Days": 3}
DATE = datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc)


def rule(name, expiration=None, **more):
    made = {"ID": name, "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": expiration or DAYS}
    made |= more
    return {key: value for key, value in made.items() if value is not None}


def put(s3, bucket, *rules):
    return s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": list(rules)})


RULES = [
    rule("plain", Filter={}),
    rule("prefix", Filter={"Prefix": "a/ä&<>"}, Status="Disabled"),
    rule("tag", Filter={"Tag": {"Key": "a b", "Value": ""}}),
    rule("sizes", Filter={"And": {"ObjectSizeGreaterThan": 0, "ObjectSizeLessThan": 5 << 40}}),
    rule(
        "and",
        Filter={
            "And": {
                "Prefix": "p",
                "Tags": [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}],
                "ObjectSizeGreaterThan": 5,
            }
        },
    ),
    rule("date", {"Date": DATE}),
    rule("marker", {"ExpiredObjectDeleteMarker": True}),
    rule(
        "noncurrent",
        Expiration=None,
        NoncurrentVersionExpiration={"NoncurrentDays": 4, "NewerNoncurrentVersions": 5},
    ),
    rule("uploads", AbortIncompleteMultipartUpload={"DaysAfterInitiation": 7}),
]
for _rule in RULES:
    if _rule.get("Expiration", 0) is None:
        del _rule["Expiration"]
OLD = {"ID": "old", "Prefix": "old", "Status": "Enabled", "Expiration": DAYS}


def test_round_trip(s3, bucket):
    with refused(404, "NoSuchLifecycleConfiguration"):
        s3.get_bucket_lifecycle_configuration(Bucket=bucket)
    put(s3, bucket, *RULES)
    found = s3.get_bucket_lifecycle_configuration(Bucket=bucket)
    assert found["Rules"] == RULES
    assert found["TransitionDefaultMinimumObjectSize"] == "all_storage_classes_128K"
    for rules in ([rule("only")], [OLD, {**OLD, "ID": "older", "Prefix": "elsewhere"}]):
        put(s3, bucket, *rules)
        assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == rules
    s3.delete_bucket_lifecycle(Bucket=bucket)
    with refused(404, "NoSuchLifecycleConfiguration"):
        s3.get_bucket_lifecycle_configuration(Bucket=bucket)


def test_rules_of_the_old_form_overlap_only_with_their_like(s3, bucket):
    aborts = {"ID": "aborts", "Prefix": "old/", "Status": "Enabled", "AbortIncompleteMultipartUpload": ABORT}
    put(s3, bucket, OLD, aborts, {**OLD, "ID": "off", "Prefix": "old/", "Status": "Disabled"})
    assert len(s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]) == 3
    why = "Found overlapping prefixes 'old/' and 'old' for same action type 'Expiration'"
    with unchanged(), pytest.raises(ClientError, match=why):
        put(s3, bucket, OLD, {**OLD, "ID": "on", "Prefix": "old/"})


def test_rules_get_names(s3, bucket):
    put(s3, bucket, *[{k: v for k, v in rule("x").items() if k != "ID"} for _ in range(3)])
    ids = {r["ID"] for r in s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]}
    assert len(ids) == 3 and all(ids)


def test_a_thousand_rules(s3, bucket):
    put(s3, bucket, *[rule(f"r{n}", Filter={"Prefix": f"p{n}/"}) for n in range(1000)])
    assert len(s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]) == 1000
    with refused(400, "MalformedXML"):
        put(s3, bucket, *[rule(f"r{n}") for n in range(1001)])
    assert len(s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]) == 1000


TAG = {"Tag": {"Key": "a", "Value": "1"}}
SIZE = {"ObjectSizeGreaterThan": 1}
ABORT = {"DaysAfterInitiation": 1}
TRANSITION = {"StorageClass": "GLACIER"}
REFUSED = [
    (400, "InvalidArgument", [rule("a"), rule("a")]),
    (400, "InvalidArgument", [rule("i" * 256)]),
    (400, "InvalidArgument", [rule("a", {"Days": 0})]),
    (400, "InvalidArgument", [rule("a", {"Date": DATE + datetime.timedelta(hours=1)})]),
    (400, "InvalidArgument", [rule("a", AbortIncompleteMultipartUpload={"DaysAfterInitiation": 0})]),
    (400, "InvalidArgument", [rule("a", NoncurrentVersionExpiration={"NoncurrentDays": 0})]),
    (400, "MalformedXML", [rule("a", {"Days": 1, "Date": DATE})]),
    (400, "MalformedXML", [rule("a", Status="On")]),
    (400, "MalformedXML", [rule("a", Prefix="b")]),
    (400, "InvalidRequest", [OLD, rule("a")]),
    (400, "InvalidRequest", [rule("a"), OLD]),
    (400, "InvalidRequest", [OLD, {**OLD, "ID": "b", "Prefix": "a"}, {**OLD, "ID": "c", "Prefix": "old/er"}]),
    (400, "InvalidRequest", [OLD, {**OLD, "ID": "everything", "Prefix": ""}]),
    (400, "MalformedXML", [{"ID": "a", "Status": "Enabled", "Expiration": DAYS}]),
    (400, "InvalidRequest", [{"ID": "a", "Status": "Enabled", "Prefix": ""}]),
    (400, "InvalidRequest", [rule("a", Filter=TAG, AbortIncompleteMultipartUpload=ABORT)]),
    (400, "InvalidRequest", [rule("a", Filter=SIZE, AbortIncompleteMultipartUpload=ABORT)]),
    (400, "InvalidRequest", [rule("a", {"ExpiredObjectDeleteMarker": True}, Filter=TAG)]),
    (400, "InvalidRequest", [rule("a", Filter={"Prefix": "p" * 1025})]),
    (400, "InvalidRequest", [rule("a", Filter={"And": {"ObjectSizeGreaterThan": 5, "ObjectSizeLessThan": 5}})]),
    (501, "NotImplemented", [rule("a", Transitions=[{"Days": 1} | TRANSITION])]),
    (501, "NotImplemented", [rule("a", NoncurrentVersionTransitions=[{"NoncurrentDays": 1} | TRANSITION])]),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refusals_change_nothing(s3, bucket, case):
    put(s3, bucket, rule("kept"))
    status, code, rules = REFUSED[case]
    with refused(status, code):
        put(s3, bucket, *rules)
    assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == [rule("kept")]


def test_documents_that_are_none(raw, bucket):
    for body in (b"<x/>", b"<LifecycleConfiguration/>", b"<LifecycleConfiguration><Rule/></LifecycleConfiguration>"):
        with unchanged():
            answer(raw.request("PUT", f"/{bucket}", [("lifecycle", "")], body=body), 400, "MalformedXML")


def test_expiration_is_told(s3, bucket):
    put(
        s3,
        bucket,
        rule("by date", {"Date": DATE}, Filter={"Prefix": "d"}),
        rule("tagged", Filter={"Tag": {"Key": "a", "Value": "1"}}),
        rule("up", Expiration={"Date": DATE}, Filter={"Prefix": "u"}, AbortIncompleteMultipartUpload=ABORT),
    )
    told = 'expiry-date="Fri, 01 Jan 2100 00:00:00 GMT", rule-id="by%20date"'
    assert s3.put_object(Bucket=bucket, Key="d", Body=b"x")["Expiration"] == told
    assert s3.get_object(Bucket=bucket, Key="d")["Expiration"] == told
    assert s3.head_object(Bucket=bucket, Key="d")["Expiration"] == told
    copied = s3.copy_object(Bucket=bucket, Key="d2", CopySource={"Bucket": bucket, "Key": "d"})
    assert copied["Expiration"] == told
    assert "Expiration" not in s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert 'rule-id="tagged"' in s3.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="a=1")["Expiration"]
    s3.delete_object_tagging(Bucket=bucket, Key="k")
    assert "Expiration" not in s3.head_object(Bucket=bucket, Key="k")

    upload = s3.create_multipart_upload(Bucket=bucket, Key="u")
    assert upload["AbortRuleId"] == "up"
    days = (upload["AbortDate"] - datetime.datetime.now(datetime.timezone.utc)) / datetime.timedelta(days=1)
    assert 1 <= days <= 2
    named = {"Bucket": bucket, "Key": "u", "UploadId": upload["UploadId"]}
    assert s3.list_parts(**named)["AbortDate"] == upload["AbortDate"]
    part = s3.upload_part(**named, PartNumber=1, Body=b"x")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    done = s3.complete_multipart_upload(**named, MultipartUpload=parts)
    assert 'rule-id="up"' in done["Expiration"]


def test_rules_without_a_name_get_one(s3, bucket):
    """As on AWS, and the header about the expiration needs it."""
    rule = {"Status": "Enabled", "Expiration": {"Days": 1}}
    rules = [{**rule, "Filter": {"Prefix": prefix}} for prefix in ("a", "b")] + [{**rule, "ID": "c", "Filter": {"Prefix": "c"}}]
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    found = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    names = [rule["ID"] for rule in found]
    assert all(names) and len(set(names)) == 3 and names[2] == "c"
    told = s3.put_object(Bucket=bucket, Key="a", Body=b"x")["Expiration"]
    assert f'rule-id="{names[0]}"' in told
