"""Buckets: creating, naming, listing, deleting."""

import pytest
from support.expect import answer, refused
from support.sigv4 import object_path
from support.unchanged import unchanged


def test_create_head_list_delete(s3, make_bucket, server):
    name = make_bucket()
    head = s3.head_bucket(Bucket=name)
    assert head["ResponseMetadata"]["HTTPHeaders"]["x-amz-bucket-region"] == server.region
    listed = {b["Name"]: b for b in s3.list_buckets()["Buckets"]}
    assert name in listed and listed[name]["CreationDate"].year >= 2024
    reply = s3.delete_bucket(Bucket=name)
    assert reply["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert name not in [b["Name"] for b in s3.list_buckets()["Buckets"]]
    with refused(404):
        s3.head_bucket(Bucket=name)


def test_create_answers_location(raw, make_bucket, s3):
    name = make_bucket() + "-x"
    reply = answer(raw.request("PUT", f"/{name}"), 200)
    assert reply.headers["location"] == f"/{name}"
    assert reply.headers["x-amz-bucket-arn"] == f"arn:aws:s3:::{name}"
    s3.delete_bucket(Bucket=name)


def test_own_bucket_again_keeps_its_content(s3, bucket):
    """us-east-1 answers 200 to its owner; elsewhere 409. Nothing may be emptied."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    try:
        s3.create_bucket(Bucket=bucket)
    except s3.exceptions.BucketAlreadyOwnedByYou:
        pass
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"kept"


@pytest.mark.parametrize(
    "name",
    ["ab", "a" * 64, "Upper", "under_score", "-start", "end-", "two..dots", "192.168.5.4", "a.-b", "xn--abc"],
)
def test_invalid_names(raw, name, nothing_changes):
    with nothing_changes():
        answer(raw.request("PUT", f"/{name}"), 400, "InvalidBucketName")


@pytest.mark.parametrize("name", ["abc", "a" * 63, "with.dots.inside", "0digits9"])
def test_valid_names(s3, name):
    s3.create_bucket(Bucket=name)
    s3.head_bucket(Bucket=name)
    s3.delete_bucket(Bucket=name)


def test_delete_of_a_full_bucket_is_refused(s3, bucket, nothing_changes):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    with nothing_changes():
        with refused(409, "BucketNotEmpty"):
            s3.delete_bucket(Bucket=bucket)
    s3.delete_object(Bucket=bucket, Key="k")
    s3.delete_bucket(Bucket=bucket)


def test_missing_bucket_everywhere(s3, raw, nothing_changes):
    name = "never-made-bucket"
    with nothing_changes():
        with refused(404, "NoSuchBucket"):
            s3.list_objects_v2(Bucket=name)
        with refused(404, "NoSuchBucket"):
            s3.put_object(Bucket=name, Key="k", Body=b"x")
        with refused(404, "NoSuchBucket"):
            s3.get_object(Bucket=name, Key="k")
        with refused(404, "NoSuchBucket"):
            s3.delete_bucket(Bucket=name)
        with refused(404, "NoSuchBucket"):
            s3.create_multipart_upload(Bucket=name, Key="k")
        with refused(404, "NoSuchBucket"):
            s3.delete_objects(Bucket=name, Delete={"Objects": [{"Key": "k"}]})
        with refused(404, "NoSuchBucket"):
            s3.delete_object(Bucket=name, Key="k")
    reply = raw.request("HEAD", f"/{name}")
    assert reply.status == 404 and reply.body == b""


def test_a_name_that_no_bucket_can_have(raw):
    for name in ("Ab_", "x..y", "a" * 64):
        answer(raw.request("GET", f"/{name}"), 400, "InvalidBucketName")


def test_the_region_of_a_bucket_that_one_may_not_see(raw, bucket, server):
    reply = raw.request("HEAD", f"/{bucket}", anonymous=True)
    assert reply.status == 403 and reply.headers["x-amz-bucket-region"] == server.region


def test_listings_tell_the_region(s3, bucket, server):
    for call in (s3.list_objects, s3.list_objects_v2):
        headers = call(Bucket=bucket)["ResponseMetadata"]["HTTPHeaders"]
        assert headers["x-amz-bucket-region"] == server.region


def test_a_block_of_public_access_without_a_switch_is_refused(raw, bucket, nothing_changes):
    """It would lift the whole block."""
    with nothing_changes():
        for body in (b"<PublicAccessBlockConfiguration/>", b"<PublicAccessBlockConfiguration> </PublicAccessBlockConfiguration>"):
            reply = raw.request("PUT", f"/{bucket}", [("publicAccessBlock", "")], body=body)
            answer(reply, 400, "InvalidRequest")


def test_location(s3, bucket, server):
    location = s3.get_bucket_location(Bucket=bucket)["LocationConstraint"]
    assert location == (None if server.region == "us-east-1" else server.region)


def test_create_in_another_region_is_refused(s3, nothing_changes):
    constraints = {
        "eu-central-1": "IllegalLocationConstraintException",
        "nowhere": "InvalidLocationConstraint",
    }
    with nothing_changes():
        for constraint, code in constraints.items():
            with refused(400, code):
                s3.create_bucket(
                    Bucket="elsewhere-1", CreateBucketConfiguration={"LocationConstraint": constraint}
                )
    with refused(404):
        s3.head_bucket(Bucket="elsewhere-1")


def test_malformed_create_body_is_refused(raw, nothing_changes):
    body = b"<CreateBucketConfiguration><Location"
    with nothing_changes():
        answer(raw.request("PUT", "/malformed-create", body=body), 400, "MalformedXML")


def test_list_buckets_by_prefix_and_page(s3, make_bucket):
    names = sorted(make_bucket("paged") for _ in range(3))
    found, token = [], {}
    for _ in range(10):
        page = s3.list_buckets(Prefix="paged-", MaxBuckets=1, **token)
        assert len(page["Buckets"]) <= 1
        found += [b["Name"] for b in page["Buckets"]]
        if "ContinuationToken" not in page:
            break
        token = {"ContinuationToken": page["ContinuationToken"]}
    assert found == names


def test_deleted_and_made_again_is_empty(s3, make_bucket):
    name = make_bucket()
    s3.put_object(Bucket=name, Key="old", Body=b"x")
    upload = s3.create_multipart_upload(Bucket=name, Key="big")["UploadId"]
    s3.abort_multipart_upload(Bucket=name, Key="big", UploadId=upload)
    s3.delete_object(Bucket=name, Key="old")
    s3.delete_bucket(Bucket=name)
    s3.create_bucket(Bucket=name)
    assert "Contents" not in s3.list_objects_v2(Bucket=name)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=name)
    with refused(404, "NoSuchKey"):
        s3.get_object(Bucket=name, Key="old")


def test_every_error_names_resource_and_request(raw, bucket):
    with unchanged():
        reply = answer(raw.get(bucket, "missing"), 404, "NoSuchKey")
    root = reply.xml()
    assert root.findtext("Resource") == object_path(bucket, "missing") or root.findtext("Key") == "missing"
    assert root.findtext("Message") and root.findtext("HostId") is not None
    assert root.findtext("RequestId") == reply.headers["x-amz-request-id"]
    assert reply.headers["content-type"] == "application/xml"


def test_virtual_host_style(raw, s3, bucket):
    """`Host: bucket.<domain>`: the same object as in path style, signed over that host."""
    port = raw.address[1]
    host = f"{bucket}.localhost:{port}"
    answer(raw.request("PUT", "/folder/a%20b", body=b"by host", host=host), 200)
    assert s3.get_object(Bucket=bucket, Key="folder/a b")["Body"].read() == b"by host"
    assert raw.request("GET", "/folder/a%20b", host=host).body == b"by host"
    listing = answer(raw.request("GET", "/", query=[("list-type", "2")], host=host), 200).xml()
    assert [c.findtext("Key") for c in listing.iter("Contents")] == ["folder/a b"]
    answer(raw.request("HEAD", "/", host=host), 200)
    answer(raw.request("DELETE", "/folder/a%20b", host=host), 204)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="folder/large")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="folder/large", UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
    document = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{part}</ETag></Part></CompleteMultipartUpload>"
    done = raw.request("POST", "/folder/large", query=[("uploadId", upload)], body=document.encode(), host=host)
    assert answer(done, 200).xml().findtext("Location") == f"http://{host}/folder/large"


def test_an_own_bucket_with_another_ownership(raw, s3, bucket, nothing_changes):
    with nothing_changes():
        other = [("x-amz-object-ownership", "ObjectWriter")]
        answer(raw.request("PUT", f"/{bucket}", headers=other), 409, "BucketAlreadyOwnedByYou")
