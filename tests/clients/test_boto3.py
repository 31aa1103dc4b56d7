"""boto3's transfer manager, and its addressing styles and checksum settings."""

import pytest
from boto3.s3.transfer import TransferConfig
from support.boto import boto_of
from support.data import MIB, content
from support.expect import holds


@pytest.mark.parametrize("size", [100, 20 * MIB + 1])
def test_transfer_manager(s3, bucket, tmp_path, size):
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(content(size, "transfer"))
    config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=4)
    s3.upload_file(str(source), bucket, "k", Config=config, ExtraArgs={"Metadata": {"a": "1"}})
    s3.download_file(bucket, "k", str(back), Config=config)
    assert back.read_bytes() == source.read_bytes()
    s3.copy({"Bucket": bucket, "Key": "k"}, bucket, "copy", Config=config)
    holds(s3, bucket, "copy", source.read_bytes())


@pytest.mark.parametrize("calculation", ["when_supported", "when_required"])
def test_checksum_settings(server, bucket, calculation):
    """The SDK's default sends a CRC32 trailer with everything; the other setting sends none."""
    client = boto_of(
        server, request_checksum_calculation=calculation, response_checksum_validation=calculation
    )
    data = content(3 * MIB, calculation)
    client.put_object(Bucket=bucket, Key="k", Body=data)
    holds(client, bucket, "k", data)
    client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k"}]})


def test_signed_payload(server, bucket):
    """Over plain HTTP, with every body hashed into the signature."""
    client = boto_of(server, request_checksum_calculation="when_required")
    client.meta.config.s3["payload_signing_enabled"] = True
    client.put_object(Bucket=bucket, Key="k", Body=b"signed")
    holds(client, bucket, "k", b"signed")


def test_resource_interface(server, bucket):
    import boto3

    resource = boto3.resource(
        "s3", endpoint_url=server.endpoint, region_name=server.region,
        aws_access_key_id=server.access_key, aws_secret_access_key=server.secret_key,
    )  # fmt: skip
    box = resource.Bucket(bucket)
    for n in range(3):
        box.put_object(Key=f"k{n}", Body=b"x")
    assert [o.key for o in box.objects.all()] == ["k0", "k1", "k2"]
    box.objects.delete()
    assert list(box.objects.all()) == []


def test_waiters(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3.get_waiter("bucket_exists").wait(Bucket=bucket, WaiterConfig={"Delay": 1, "MaxAttempts": 2})
    s3.get_waiter("object_exists").wait(Bucket=bucket, Key="k", WaiterConfig={"Delay": 1, "MaxAttempts": 2})
