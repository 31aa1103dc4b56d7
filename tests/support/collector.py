"""A collector of traces: takes spans by OTLP over HTTP, as OpenTelemetry's own definition of it says."""

from __future__ import annotations

import http.server
import threading
from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status


@dataclass(frozen=True)
class Span:
    node: str  # the id of the node that sent it
    name: str
    trace: str
    id: str
    parent: str
    kind: int  # 1 internal, 2 server, 3 client
    start_ns: int
    end_ns: int
    failed: bool
    attributes: dict[str, str | int]


class Collector(http.server.ThreadingHTTPServer):
    """Takes what comes. While it is silent, it answers nothing."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.silent = False
        self.ends = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def silence(self) -> str:
        """From now on it answers nothing. Returns its address."""
        self.silent = True
        return self.endpoint

    def handle_error(self, request, client_address):
        """A node that stops is no error of the collector."""

    def spans(self, trace: str | None = None) -> list[Span]:
        """All spans so far, or those of one trace."""
        found = [span for body in list(self.bodies) for span in decoded(body)]
        return [span for span in found if trace in (None, span.trace)]

    def __exit__(self, *_):
        self.ends.set()
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.server.silent:
            self.server.ends.wait()
            return
        fine = self.path == "/v1/traces" and self.headers["content-type"] == "application/x-protobuf"
        if fine:
            self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
            self.server.bodies.append(body)
        self.send_response(200 if fine else 404)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def decoded(body: bytes) -> list[Span]:
    spans = []
    for of_node in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = values(of_node.resource.attributes)
        assert resource["service.name"] == "archipel" and resource["service.version"]
        for span in (span for scope in of_node.scope_spans for span in scope.spans):
            assert len(span.trace_id) == 16 and len(span.span_id) == 8 and len(span.parent_span_id) in (0, 8)
            assert span.start_time_unix_nano <= span.end_time_unix_nano
            spans.append(
                Span(
                    str(resource["service.instance.id"]),
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.kind,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    span.status.code == Status.STATUS_CODE_ERROR,
                    values(span.attributes),
                )
            )
    return spans


def values(attributes) -> dict[str, str | int]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
