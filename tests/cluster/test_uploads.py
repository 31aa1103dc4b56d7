"""Completions, aborts and puts of one key through three nodes: at once, and under clocks that stand apart."""

from __future__ import annotations

import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from cluster.loopback import running
from faults.cluster import BUCKET, Cluster
from faults.injector import clocks_can_jump, give_clock, set_clock
from support.client import Client
from support.sigv4 import object_path
from support.unchanged import unchanged
from support.wire import Response

pytestmark = pytest.mark.process
ROUNDS = 40
NONE = [("If-None-Match", "*")]


class Upload:
    """An upload of one part."""

    def __init__(self, client: Client, key: str, data: bytes):
        self.path = object_path(BUCKET, key)
        begun = client.request("POST", self.path, [("uploads", "")])
        assert begun.status == 200, begun.brief()
        self.id = re.search(rb"<UploadId>(.*?)</UploadId>", begun.body)[1].decode()
        self.query = [("uploadId", self.id)]
        part = client.request("PUT", self.path, [("partNumber", "1"), *self.query], body=data)
        assert part.status == 200, part.brief()
        self.etag = part.headers["etag"]

    def complete(self, client: Client, headers=()) -> Response:
        part = f"<Part><PartNumber>1</PartNumber><ETag>{self.etag}</ETag></Part>"
        body = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
        return client.request("POST", self.path, self.query, headers, body)

    def abort(self, client: Client) -> Response:
        return client.request("DELETE", self.path, self.query)

    def parts(self, client: Client) -> Response:
        return client.request("GET", self.path, self.query)


def clients(cluster: Cluster) -> list[Client]:
    return [Client(node.endpoint, cluster.credentials) for node in cluster.nodes]


def at_once(*requests) -> list[int]:
    barrier = Barrier(len(requests))

    def one(request) -> int:
        barrier.wait()
        reply = request()
        # An upload that was completed answers 200 with its result or, late, with an error inside.
        return 500 if b"<Error>" in reply.body and reply.status == 200 else reply.status

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(one, requests))


@pytest.mark.long
def test_a_failed_completion_leaves_its_upload_whole_and_one_of_several_ends_it(tmp_path):
    with running(tmp_path, 3) as cluster:
        nodes = clients(cluster)
        failed = 0
        for number in range(ROUNDS):
            key = f"create-{number}"
            upload = Upload(nodes[0], key, b"multi")
            put, done = at_once(
                lambda: nodes[1].put(BUCKET, key, b"put", NONE),
                lambda: upload.complete(nodes[2], NONE),
            )
            assert sorted([put, done]) == [200, 412], (number, put, done)
            if done == 200:
                continue
            failed += 1
            # Alone: nothing is written beside it that would hide what a refusal changes.
            if failed == 1:
                with unchanged():
                    again = upload.complete(nodes[2], NONE)
                    assert again.status == 412, again.brief()
            for node in nodes:
                listed = upload.parts(node)
                assert listed.status == 200 and b"<PartNumber>1<" in listed.body, listed.brief()
            again = upload.complete(nodes[number % 3])
            assert again.status == 200, again.brief()
            assert nodes[0].get(BUCKET, key).body == b"multi"
        assert failed > 0

        for number in range(ROUNDS):
            key = f"end-{number}"
            upload = Upload(nodes[0], key, b"multi")
            first, second, aborted = at_once(
                lambda: upload.complete(nodes[0]),
                lambda: upload.complete(nodes[1]),
                lambda: upload.abort(nodes[2]),
            )
            body = nodes[1].get(BUCKET, key)
            # 503 says that the outcome is not known: others met the request before its answer.
            ended = {first, second}
            assert ended <= {200, 404, 503} and aborted in (204, 404, 503), (number, first, second, aborted)
            if aborted == 204:
                # Nothing else happened, then or later.
                assert 200 not in ended and body.status == 404, (number, first, second)
            if 200 in ended:
                assert body.body == b"multi", (number, first, second, aborted)
            if 503 in ended | {aborted}:
                upload.abort(nodes[0])
            for node in nodes:
                assert upload.parts(node).status == 404
                assert upload.abort(node).status == 404
        with unchanged():
            for node in nodes:
                assert upload.abort(node).status == 404
                assert upload.complete(node).status in (200, 404)


@pytest.mark.skipif(not clocks_can_jump(), reason="libfaketime is missing: apt-get install faketime")
def test_an_upload_is_completed_once_though_the_nodes_clocks_stand_apart(tmp_path):
    """The stamp of the upload's row may be ahead of the clock of the node that completes it."""

    def apart(cluster: Cluster) -> None:
        for node, offset in zip(cluster.nodes, (4.0, 2.0, 0.0)):
            give_clock(node)
            set_clock(node, offset)

    with running(tmp_path, 3, apart) as cluster:
        nodes = clients(cluster)
        for begins, completes in itertools.product(range(3), range(3)):
            key = f"apart-{begins}-{completes}"
            upload = Upload(nodes[begins], key, b"multi")
            done = upload.complete(nodes[completes])
            assert done.status == 200, done.brief()
            for node in nodes:
                assert upload.parts(node).status == 404, (begins, completes)
            put = nodes[completes].put(BUCKET, key, b"later")
            assert put.status == 200, put.brief()
            # A retry does nothing, whatever it is told.
            for node in nodes:
                again = upload.complete(node)
                assert again.status in (200, 404), again.brief()
                assert node.get(BUCKET, key).body == b"later", (begins, completes)
                assert upload.abort(node).status == 404
