"""Tools read every configuration of a bucket: one that it never had gets AWS's answer, not 501."""

import pytest
from support.expect import answer, refused
from support.unchanged import unchanged


def test_settings_that_are_off(s3, bucket):
    assert "Status" not in s3.get_bucket_accelerate_configuration(Bucket=bucket)
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket=bucket)
    assert s3.get_bucket_request_payment(Bucket=bucket)["Payer"] == "BucketOwner"


def test_abac_is_disabled(raw, bucket):
    root = answer(raw.request("GET", f"/{bucket}", [("abac", "")]), 200).xml()
    assert root.tag == "AbacStatus" and root.findtext("Status") == "Disabled"


def test_there_are_no_metadata_tables(s3, bucket):
    with refused(404, "MetadataConfigurationNotFound"):
        s3.get_bucket_metadata_configuration(Bucket=bucket)
    with refused(404, "MetadataConfigurationNotFound"):
        s3.delete_bucket_metadata_configuration(Bucket=bucket)
    with refused(404, "MetadataConfigurationNotFound"):
        s3.get_bucket_metadata_table_configuration(Bucket=bucket)
    with refused(404, "MetadataConfigurationNotFound"):
        s3.delete_bucket_metadata_table_configuration(Bucket=bucket)


def test_there_is_no_replication(s3, bucket):
    with refused(404, "ReplicationConfigurationNotFoundError"):
        s3.get_bucket_replication(Bucket=bucket)


NAMES = ["analytics", "intelligent_tiering", "inventory", "metrics"]


@pytest.mark.parametrize("name", NAMES)
def test_lists_of_configurations_are_empty(s3, bucket, name):
    listed = getattr(s3, f"list_bucket_{name}_configurations")(Bucket=bucket)
    assert listed["IsTruncated"] is False
    assert not [key for key in listed if key.endswith("List")]


@pytest.mark.parametrize("name", NAMES)
def test_no_configuration_has_an_id(s3, bucket, name):
    with refused(404, "NoSuchConfiguration"):
        getattr(s3, f"get_bucket_{name}_configuration")(Bucket=bucket, Id="daily")


def test_what_is_off_is_turned_off(s3, bucket):
    """Tools that clean up a bucket do this, whatever it has."""
    with unchanged():
        s3.delete_bucket_replication(Bucket=bucket)
        s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={})
        s3.put_bucket_abac(Bucket=bucket, AbacStatus={"Status": "Disabled"})


def test_suspended_acceleration_is_shown(s3, make_bucket):
    """The state stays, so no other test may take the bucket."""
    bucket = make_bucket("acceleration")
    s3.put_bucket_accelerate_configuration(Bucket=bucket, AccelerateConfiguration={"Status": "Suspended"})
    assert s3.get_bucket_accelerate_configuration(Bucket=bucket)["Status"] == "Suspended"


@pytest.mark.parametrize("name", NAMES)
def test_no_configuration_is_deleted(s3, bucket, name):
    with refused(404, "NoSuchConfiguration"):
        getattr(s3, f"delete_bucket_{name}_configuration")(Bucket=bucket, Id="daily")


PARTS = [
    "abac", "accelerate", "analytics", "intelligent-tiering", "inventory", "logging", "metadataConfiguration",
    "metadataTable", "metrics", "replication",
]  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_missing_bucket_and_anonymous_client(raw, bucket, part):
    with unchanged():
        answer(raw.request("GET", "/no-such-bucket-here", [(part, "")]), 404, "NoSuchBucket")
        answer(raw.request("GET", f"/{bucket}", [(part, "")], anonymous=True), 403, "AccessDenied")
