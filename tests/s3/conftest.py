"""Fixtures of the tests of S3's operations."""

import pytest
from botocore.exceptions import ClientError


@pytest.fixture(scope="session")
def keeps_versions(s3):
    """Skips tests of versions on a server whose buckets cannot enable them yet (501)."""
    name = "probe-of-versions"
    s3.create_bucket(Bucket=name)
    try:
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    except ClientError as error:
        if error.response["Error"]["Code"] != "NotImplemented":
            raise
        pytest.skip("buckets cannot enable versions yet")
    finally:
        s3.delete_bucket(Bucket=name)
