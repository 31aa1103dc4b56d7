"""PostObject: headers of the request beside the fields of the form."""

import json

from s3.test_post_object import form, signed_fields, usual
from support.data import etag
from support.expect import answer


def test_headers_about_encryption_are_refused(raw, s3, bucket, credentials, nothing_changes):
    """The fields of a form say how its file is encrypted. A header would be ignored."""
    conditions, fields = usual(bucket)
    kind, body = form(signed_fields(credentials, conditions, fields), b"content")
    for name, value in (
        ("x-amz-server-side-encryption", "AES256"),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
    ):
        headers = [("Content-Type", kind), (name, value)]
        with nothing_changes():
            reply = raw.request("POST", f"/{bucket}", headers=headers, body=body, anonymous=True)
            answer(reply, 400, "InvalidArgument")


def test_condition_in_a_header_needs_the_right_to_read(raw, s3, bucket, credentials, nothing_changes):
    """It would tell a client that may only write what the object is."""
    raw.put(bucket, "drop/k", b"secret")
    resource = f"arn:aws:s3:::{bucket}/drop/*"
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": resource}
    s3.delete_public_access_block(Bucket=bucket)
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    kind, body = form([("key", "drop/k")], b"content")
    for tag in (etag(b"secret"), '"other"'):
        headers = [("Content-Type", kind), ("If-Match", tag)]
        with nothing_changes():
            reply = raw.request("POST", f"/{bucket}", headers=headers, body=body, anonymous=True)
            answer(reply, 403, "AccessDenied")
    reply = raw.request("POST", f"/{bucket}", headers=[("Content-Type", kind)], body=body, anonymous=True)
    answer(reply, 204)
