"""Upload ids are no secret: with read access to a bucket one lists them, and each presigned URL of a part shows one.

The attacker knows id and key of another user's upload, and may write to a bucket of its own. Everything that it does
with that id there is refused, and the upload and the object that it becomes stay as they are.
"""

from __future__ import annotations

import pytest
from support import sigv4, wire
from support.client import Client
from support.data import MIB, content
from support.expect import answer, holds
from support.sigv4 import object_path
from support.unchanged import unchanged

pytestmark = pytest.mark.process

PART = content(2 * MIB, "of the victim")
EVIL = content(2 * MIB + 1, "of the attacker")


class Attack:
    """A victim's upload with its first part, and what the attacker may do."""

    def __init__(self, raw, s3, victim: str, own: str, attacker: Client):
        self.raw, self.s3, self.victim, self.own, self.attacker = raw, s3, victim, own, attacker
        self.upload = s3.create_multipart_upload(Bucket=victim, Key="k")["UploadId"]
        self.part = self.send_part()

    def send_part(self) -> dict:
        reply = self.s3.upload_part(Bucket=self.victim, Key="k", UploadId=self.upload, PartNumber=1, Body=PART)
        return {"PartNumber": 1, "ETag": reply["ETag"]}

    def complete(self) -> None:
        parts = {"Parts": [self.part]}
        self.s3.complete_multipart_upload(Bucket=self.victim, Key="k", UploadId=self.upload, MultipartUpload=parts)

    def query(self, *more: tuple[str, str]) -> list[tuple[str, str]]:
        return [*more, ("uploadId", self.upload)]

    def request(self, method: str, key: str = "k", more=(), headers=(), body: bytes = b""):
        """A request with the victim's upload id to the attacker's bucket."""
        return self.attacker.request(method, object_path(self.own, key), self.query(*more), headers, body)

    def slow_part(self, client: Client, bucket: str):
        """Begins a part, and leaves the last byte away."""
        path, query = object_path(bucket, "k"), self.query(("partNumber", "1"))
        headers = [("Host", client.host)]
        headers = sigv4.sign_headers(client.credentials, "PUT", path, query, headers, sigv4.UNSIGNED)
        headers.append(("Content-Length", str(len(EVIL))))
        sock = wire.connect(client.address)
        target = f"{path}?{sigv4.query_string(query)}"
        try:
            sock.sendall(wire.head("PUT", target, headers) + EVIL[:-1])
        except OSError:
            pass  # refused before it was through
        return sock


@pytest.fixture
def attack(raw, s3, server, make_bucket, make_key, cli) -> Attack:
    victim, own = make_bucket(), make_bucket()
    key = make_key("attacker")
    cli("key", "allow", key.access_key, "--bucket", own, "--read", "--write")
    cli("key", "allow", key.access_key, "--bucket", victim, "--read")
    return Attack(raw, s3, victim, own, Client(server.endpoint, key))


PART_1 = [("partNumber", "1")]


def test_a_part_does_not_reach_the_upload(attack, nothing_changes):
    """Neither the part in progress is replaced, nor do the parts vanish when garbage is collected."""
    with nothing_changes():
        answer(attack.request("PUT", more=PART_1, body=EVIL), 404, "NoSuchUpload")
    attack.complete()
    holds(attack.s3, attack.victim, "k", PART)


def test_a_copied_part_does_not_reach_the_upload(attack, nothing_changes):
    answer(attack.attacker.put(attack.own, "source", EVIL), 200)
    source = [("x-amz-copy-source", object_path(attack.own, "source"))]
    with nothing_changes():
        answer(attack.request("PUT", more=PART_1, headers=source), 404, "NoSuchUpload")
    attack.complete()
    holds(attack.s3, attack.victim, "k", PART)


def test_a_slow_part_does_not_destroy_the_completed_object(attack, observer):
    """The part begins before the completion and ends after it: its garbage is not the object's."""
    with attack.slow_part(attack.attacker, attack.own) as sock:
        attack.complete()
        observer.collect_garbage()
        try:
            sock.sendall(EVIL[-1:])
        except OSError:
            pass  # refused long ago
        with unchanged():
            answer(wire.read_response(sock, "PUT"), 404, "NoSuchUpload")
    observer.collect_garbage()
    holds(attack.s3, attack.victim, "k", PART)


def test_parts_do_not_reach_a_completed_object(attack, nothing_changes):
    attack.complete()
    answer(attack.attacker.put(attack.own, "source", EVIL), 200)
    source = [("x-amz-copy-source", object_path(attack.own, "source"))]
    with nothing_changes():
        answer(attack.request("PUT", more=PART_1, body=EVIL), 404, "NoSuchUpload")
        answer(attack.request("PUT", more=PART_1, headers=source), 404, "NoSuchUpload")
    holds(attack.s3, attack.victim, "k", PART)


def test_an_upload_is_neither_shown_nor_ended_through_another_bucket(attack, nothing_changes):
    named = f"<Part><PartNumber>1</PartNumber><ETag>{attack.part['ETag']}</ETag></Part>"
    document = f"<CompleteMultipartUpload>{named}</CompleteMultipartUpload>".encode()
    with nothing_changes():
        for key in ("k", "other"):
            answer(attack.request("GET", key), 404, "NoSuchUpload")
            answer(attack.request("POST", key, body=document), 404, "NoSuchUpload")
            answer(attack.request("DELETE", key), 404, "NoSuchUpload")
    attack.complete()
    holds(attack.s3, attack.victim, "k", PART)
    with nothing_changes():
        answer(attack.request("POST", body=document), 404, "NoSuchUpload")


def test_an_upload_is_not_reached_through_another_key_of_its_bucket(attack, raw, nothing_changes):
    query = attack.query(*PART_1)
    with nothing_changes():
        reply = raw.request("PUT", object_path(attack.victim, "other"), query, body=EVIL)
        answer(reply, 404, "NoSuchUpload")
    attack.complete()
    holds(attack.s3, attack.victim, "k", PART)


def test_the_victims_bucket_stays_closed(attack, nothing_changes):
    """Reading a bucket is enough to see its uploads, and not to write a part."""
    with nothing_changes():
        reply = attack.attacker.request("PUT", object_path(attack.victim, "k"), attack.query(*PART_1), body=EVIL)
        answer(reply, 403, "AccessDenied")
        with attack.slow_part(attack.attacker, attack.victim) as sock:
            answer(wire.read_response(sock, "PUT"), 403, "AccessDenied")


def test_a_part_of_an_upload_that_ends_meanwhile_leaves_no_content(attack, raw, observer):
    with attack.slow_part(raw, attack.victim) as sock:
        answer(raw.request("DELETE", object_path(attack.victim, "k"), attack.query()), 204)
        sock.sendall(EVIL[-1:])
        with unchanged():
            answer(wire.read_response(sock, "PUT"), 404, "NoSuchUpload")
    observer.collect_garbage()
    assert observer.problems() == 0
    before = observer.blocks()
    answer(raw.put(attack.own, "k", EVIL), 200)
    assert observer.blocks() > before, "the content of the refused part is there"
