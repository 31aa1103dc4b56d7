"""The tests' own signer, against the AWS documentation's worked examples and against botocore."""

import hashlib

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials
from support import chunked, sigv4
from support.sigv4 import Credentials

EXAMPLE = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
STAMP = "20130524T000000Z"


def test_documented_get():
    """GET Object of the signature documentation."""
    headers = [("Host", "examplebucket.s3.amazonaws.com"), ("Range", "bytes=0-9")]
    made = sigv4.sign_headers(EXAMPLE, "GET", "/test.txt", [], headers, sigv4.EMPTY_SHA256, STAMP)
    assert dict(made)["Authorization"].endswith(
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )


def test_documented_presigned_url():
    url = sigv4.presign(EXAMPLE, "GET", "examplebucket.s3.amazonaws.com", "/test.txt", expires=86400, stamp=STAMP)
    assert url.endswith("aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404")


def test_documented_chunks():
    """The signatures of the documentation's two chunks, 64 KiB and 1 KiB of `a`, and of the final one."""
    value = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
    wanted = [
        "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
        "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
        "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
    ]
    for chunk, signature in zip([b"a" * 65536, b"a" * 1024, b""], wanted):
        value = chunked.chunk_signature(EXAMPLE, STAMP, value, chunk)
        assert value == signature


def test_same_as_botocore():
    """A request with an odd key and query, in the header and in the URL."""
    moment = sigv4.timestamp()
    path = sigv4.object_path("bucket", "a b+ü/./x")
    query = [("prefix", "a b/ü+&="), ("list-type", "2"), ("empty", "")]
    host, body = "127.0.0.1:3900", b"body"
    digest = hashlib.sha256(body).hexdigest()
    url = f"http://{host}{path}?{sigv4.query_string(query)}"
    mine = sigv4.sign_headers(
        EXAMPLE, "PUT", path, query, [("Host", host), ("X-Amz-Meta-A", "  x   y ")], digest, moment
    )
    request = AWSRequest("PUT", url, headers={"Host": host, "X-Amz-Meta-A": "  x   y "}, data=body)
    request.context = {"timestamp": moment, "client_config": None, "payload_signing_enabled": True}
    theirs = Fixed(BotoCredentials(EXAMPLE.access_key, EXAMPLE.secret_key), "s3", EXAMPLE.region)
    theirs.add_auth(request)
    if request.headers["X-Amz-Date"] == moment:  # else the second changed in between
        assert signature_of(dict(mine)["Authorization"]) == signature_of(request.headers["Authorization"])
    presigned = AWSRequest("GET", f"http://{host}{path}", headers={"Host": host})
    S3SigV4QueryAuth(BotoCredentials(EXAMPLE.access_key, EXAMPLE.secret_key), "s3", EXAMPLE.region, expires=600).add_auth(presigned)
    ours = sigv4.presign(EXAMPLE, "GET", host, path, stamp=presigned.context["timestamp"])
    assert ours.rsplit("X-Amz-Signature=")[1] == presigned.url.rsplit("X-Amz-Signature=")[1]


class Fixed(S3SigV4Auth):
    """Signs the payload even over plain HTTP, as our request does."""

    def _should_sha256_sign_payload(self, request):
        return True


def signature_of(line: str) -> str:
    return line.rsplit("Signature=", 1)[1]
