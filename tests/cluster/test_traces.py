"""Traces: one request over three nodes is one trace at a collector, and a collector changes nothing for clients."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import pytest
from cluster.loopback import running
from faults.cluster import BUCKET, Cluster
from support.client import Client
from support.collector import Collector, Span
from support.server import wait_until
from support.sigv4 import presign

pytestmark = pytest.mark.process
SERVER, CLIENT = 2, 3
MALFORMED = [
    "",
    "garbage",
    "00-00000000000000000000000000000000-b7ad6b7169203331-01",
    "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
    "00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
    "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "00-" + "a" * 5000,
]


@contextmanager
def traced(folder, nodes: int, collector: str, settings: str):
    """A cluster whose nodes send spans to this collector."""

    def prepare(cluster: Cluster) -> None:
        for node in cluster.nodes:
            with open(node.folder / "archipel.toml", "a", encoding="utf-8") as file:
                file.write(f'[traces]\nendpoint = "{collector}"\n{settings}')

    with running(folder, nodes, prepare) as cluster:
        yield cluster


def parent(flags: str = "01") -> tuple[str, str, tuple[str, str]]:
    """A trace, a span in it, and the header that tells them."""
    trace, span = secrets.token_hex(16), secrets.token_hex(8)
    return trace, span, ("traceparent", f"00-{trace}-{span}-{flags}")


def client_of(cluster: Cluster, number: int = 0) -> Client:
    return Client(cluster.nodes[number].endpoint, cluster.credentials)


def whole(collector: Collector, trace: str, above: str, nodes: int) -> list[Span]:
    """The spans of a trace below the client's span, once those of so many nodes are there, each with its parent."""

    def is_whole() -> bool:
        spans = collector.spans(trace)
        ids = {span.id for span in spans}
        # The request's own span is sent last: a call alone looks whole unless its parent is known.
        missing = [span.parent for span in spans if span.parent not in ids]
        return len({span.node for span in spans}) >= nodes and missing == [above]

    assert wait_until(is_whole), collector.spans(trace)
    return collector.spans(trace)


@pytest.mark.parametrize("size", [100, 3_000_000])
def test_one_put_over_three_nodes_is_one_trace(tmp_path, size):
    with Collector() as collector, traced(tmp_path, 3, collector.endpoint, "sample = 0\ntrust_clients = true\n") as cluster:
        trace, above, header = parent()
        state = ("tracestate", "vendor=secret")
        put = client_of(cluster).put(BUCKET, "folder/one", os.urandom(size), headers=[header, state])
        assert put.status == 200
        spans = whole(collector, trace, above, 3)
        by_id = {span.id: span for span in spans}
        [request] = [span for span in spans if span.parent == above]
        first = cluster.nodes[0]
        assert (request.node, request.name, request.kind) == (first.id, "PutObject", SERVER)
        expected = {
            "http.request.method": "PUT",
            "url.path": f"/{BUCKET}/folder/one",
            "http.response.status_code": 200,
            "server.address": first.address,
            "archipel.bucket": BUCKET,
            "archipel.operation": "PutObject",
            "archipel.endpoint": "s3",
            "archipel.request_id": put.headers["x-amz-request-id"],
        }
        assert expected.items() <= request.attributes.items(), request
        assert str(request.attributes["client.address"]).startswith("127.")
        served = [span for span in spans if span.kind == SERVER and span is not request]
        assert {span.node for span in served} == {node.id for node in cluster.nodes[1:]}
        for span in served:
            call = by_id[span.parent]
            assert (call.kind, call.node, call.name) == (CLIENT, first.id, span.name)
            assert call.attributes["archipel.peer"] == span.node
            assert span.attributes["archipel.peer"] == first.id
        writes = [span for span in served if span.name in ("row", "upload")]
        assert writes and all("archipel.partition" in span.attributes for span in writes)
        assert b"vendor=secret" not in b"".join(collector.bodies)
        # A node counts spans once the collector has answered.
        assert wait_until(lambda: sum(node.metric("archipel_traces_exported_total") for node in cluster.nodes) >= len(spans))
        assert not any(node.metric("archipel_traces_failed_total") for node in cluster.nodes)


def test_other_endpoints_and_reads_have_spans(tmp_path):
    with Collector() as collector, traced(tmp_path, 3, collector.endpoint, "sample = 0\ntrust_clients = true\n") as cluster:
        client, body = client_of(cluster, 1), os.urandom(2_000_000)
        assert client.put(BUCKET, "read", body).status == 200
        assert not collector.bodies, "no client asked for it"
        trace, above, header = parent()
        assert client.get(BUCKET, "read", headers=[header]).body == body
        k2v = Client(cluster.nodes[2].k2v, cluster.credentials)
        of_k2v, above_k2v, second = parent()
        written = k2v.request("PUT", f"/{BUCKET}/shelf", [("sort_key", "hidden")], [second], b"value", service="k2v")
        assert written.status == 204, written.body
        [read] = [span for span in whole(collector, trace, above, 1) if span.name == "GetObject"]
        assert read.attributes["http.response.status_code"] == 200
        [insert] = [span for span in whole(collector, of_k2v, above_k2v, 3) if span.name == "InsertItem"]
        assert insert.attributes["url.path"] == f"/{BUCKET}/shelf"
        assert b"hidden" not in b"".join(collector.bodies)


def test_no_span_holds_a_signature(tmp_path):
    with Collector() as collector, traced(tmp_path, 1, collector.endpoint, "sample = 1\n") as cluster:
        client = client_of(cluster)
        target = presign(cluster.credentials, "PUT", client.host, f"/{BUCKET}/presigned")
        assert client.presigned("PUT", target, body=b"x").status == 200
        refused = client.presigned("PUT", target.replace("presigned", "other"), body=b"x")
        assert refused.status == 403
        paths = {f"/{BUCKET}/presigned", f"/{BUCKET}/other"}
        assert wait_until(lambda: paths <= {span.attributes.get("url.path") for span in collector.spans()})
        [wrong] = [span for span in collector.spans() if span.attributes.get("url.path") == f"/{BUCKET}/other"]
        assert wrong.attributes["archipel.error_code"] == "SignatureDoesNotMatch" and not wrong.failed
        query = parse_qs(urlsplit(target).query)
        sent = b"".join(collector.bodies)
        for secret in [query["X-Amz-Signature"][0], query["X-Amz-Credential"][0], cluster.credentials.secret_key, "X-Amz"]:
            assert secret.encode() not in sent
        admin = [span for span in collector.spans() if span.attributes.get("archipel.endpoint") == "admin"]
        assert admin and all("?" not in span.attributes["url.path"] for span in collector.spans())


def test_malformed_headers_begin_a_trace_of_their_own(tmp_path):
    with Collector() as collector, traced(tmp_path, 1, collector.endpoint, "sample = 1\ntrust_clients = true\n") as cluster:
        client = client_of(cluster)
        for number, value in enumerate(MALFORMED):
            assert client.put(BUCKET, f"malformed-{number}", b"x", headers=[("traceparent", value)]).status == 200
        _, _, one = parent()
        _, _, other = parent()
        two = client.request("PUT", f"/{BUCKET}/malformed-two", body=b"x", add_after=[one, other])
        assert two.status == 200
        _, _, unsampled = parent("00")
        assert client.put(BUCKET, "unsampled", b"x", headers=[unsampled]).status == 200
        assert client.put(BUCKET, "last", b"x").status == 200

        def puts() -> list[Span]:
            return [s for s in collector.spans() if "/malformed-" in str(s.attributes.get("url.path")) and s.kind == SERVER]

        assert wait_until(lambda: len(puts()) == len(MALFORMED) + 1), puts()
        assert all(span.parent == "" for span in puts())
        assert len({span.trace for span in puts()}) == len(MALFORMED) + 1
        assert wait_until(lambda: any(str(s.attributes.get("url.path")).endswith("/last") for s in collector.spans()))
        assert not any(str(s.attributes.get("url.path")).endswith("/unsampled") for s in collector.spans())


def test_strangers_cannot_ask_for_traces(tmp_path):
    with Collector() as collector, traced(tmp_path, 3, collector.endpoint, "sample = 0\n") as cluster:
        for number in range(3):
            client = client_of(cluster, number)
            _, _, header = parent()
            assert client.put(BUCKET, "stranger", os.urandom(100_000), headers=[header]).status == 200
            assert client.get(BUCKET, "stranger", headers=[header]).status == 200
        # A stopping node sends what is left.
        for node in cluster.nodes:
            for kind in ("exported", "dropped", "failed"):
                assert node.metric(f"archipel_traces_{kind}_total") == 0
            cluster.stop(node)
        assert not collector.bodies


def test_a_client_that_is_not_trusted_is_continued_where_the_node_samples(tmp_path):
    with Collector() as collector, traced(tmp_path, 1, collector.endpoint, "sample = 1\n") as cluster:
        trace, above, header = parent("00")
        assert client_of(cluster).put(BUCKET, "continued", b"x", headers=[header]).status == 200
        cluster.stop(cluster.nodes[0])
        [span] = [span for span in collector.spans(trace) if span.name == "PutObject"]
        assert span.parent == above


def test_headers_of_the_settings_are_sent(tmp_path):
    file = tmp_path / "collector-headers"
    file.write_text("Authorization: Bearer for-the-collector\nX-Team: storage\n")
    file.chmod(0o600)
    settings = f'sample = 1\nheaders_file = "{file}"\n'
    with Collector() as collector, traced(tmp_path, 1, collector.endpoint, settings) as cluster:
        assert client_of(cluster).put(BUCKET, "one", b"x").status == 200
        cluster.stop(cluster.nodes[0])
        assert collector.headers
        for sent in collector.headers:
            assert (sent["authorization"], sent["x-team"]) == ("Bearer for-the-collector", "storage")
        assert "for-the-collector" not in cluster.nodes[0].log.read_text()


def work(cluster: Cluster, requests: int) -> Counter:
    """Statuses of so many requests on one connection."""
    client = Client(cluster.nodes[0].endpoint, cluster.credentials, keep_alive=True)
    statuses = Counter([client.put(BUCKET, "work", b"x" * 100).status])
    statuses.update(client.get(BUCKET, "work").status for _ in range(requests - 1))
    client.close()
    return statuses


def test_a_collector_that_is_down_changes_nothing(tmp_path):
    with Collector() as gone:
        endpoint = gone.endpoint
    with traced(tmp_path, 1, endpoint, "sample = 1\n") as cluster:
        node = cluster.nodes[0]
        assert work(cluster, 200) == {200: 200}
        assert wait_until(lambda: node.metric("archipel_traces_failed_total") > 0)
        assert work(cluster, 200) == {200: 200}
        cluster.stop(node)
        assert node.log.read_text().count("the collector of traces fails") == 1


def test_a_silent_collector_changes_nothing(tmp_path):
    with Collector() as collector, traced(tmp_path, 1, collector.silence(), "sample = 1\n") as cluster:
        node = cluster.nodes[0]
        # More than the queue and a message hold.
        assert work(cluster, 3000) == {200: 3000}
        dropped = node.metric("archipel_traces_dropped_total")
        assert dropped + node.metric("archipel_traces_failed_total") > 0
        cluster.stop(node)
        assert "the last spans could not be sent" in node.log.read_text()
        assert not collector.bodies
