"""The client's address behind proxies: what a trusted one says counts for limits, policies and the audit log, and nothing else does."""

from __future__ import annotations

import json
import socket

import pytest
from support import sigv4, wire
from support.client import Client
from support.server import lone_server, wait_until
from support.sigv4 import Credentials

pytestmark = pytest.mark.process

PROXY, STRANGER = "127.0.0.7", "127.0.0.8"
HOME, AWAY = "198.51.100.1", "203.0.113.9"
OF_ADDRESS = 20


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A client with a bucket that everybody at home may read, the port, and the audit log."""
    folder = tmp_path_factory.mktemp("proxies")
    audit = folder / "audit.log"
    settings = (
        f'[limits]\ntrusted_proxies = ["{PROXY}", "10.0.0.0/8"]\nrequests_per_second_per_address = {OF_ADDRESS}\n'
        f'[audit]\nfile = "{audit}"\n'
    )
    with lone_server(folder, settings) as (server, port):
        key = server.cli_json("key", "create", "tester", "--create-bucket")
        client = Client(f"http://127.0.0.1:{port}", Credentials(key["id"], key["secret"], "us-east-1"))
        assert client.request("PUT", "/bucket").status == 200
        assert client.put("bucket", "k", b"content").status == 200
        policy = {"Version": "2012-10-17", "Statement": [{
            "Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/*",
            "Condition": {"NotIpAddress": {"aws:SourceIp": f"{HOME}/32"}},
        }]}  # fmt: skip
        answer = client.request("PUT", "/bucket", [("policy", "")], body=json.dumps(policy).encode())
        assert answer.status in (200, 204), answer.body
        yield client, port, audit


def ask(client: Client, port: int, source: str, said: list[tuple[str, str]], path: str = "/bucket/k") -> wire.Response:
    headers = sigv4.sign_headers(client.credentials, "GET", path, [], [("Host", client.host)], sigv4.EMPTY_SHA256)
    with socket.create_connection(("127.0.0.1", port), 10, source_address=(source, 0)) as sock:
        sock.sendall(wire.head("GET", path, [*headers, *said, ("Connection", "close")]))
        return wire.read_response(sock)


def settled(client: Client, port: int, source: str, said: list[tuple[str, str]]) -> int:
    """The status once the rate lets the request through."""
    statuses = []

    def through() -> bool:
        statuses.append(ask(client, port, source, said).status)
        return statuses[-1] != 503

    assert wait_until(through, 20)
    return statuses[-1]


def test_policies_see_the_client(own):
    client, port, _ = own
    said = "X-Forwarded-For"
    assert settled(client, port, PROXY, [(said, HOME)]) == 200
    assert settled(client, port, PROXY, [(said, AWAY)]) == 403
    assert settled(client, port, PROXY, [(said, f"{HOME}, {AWAY}")]) == 403
    assert settled(client, port, PROXY, [(said, f"{AWAY}, {HOME}, 10.1.2.3")]) == 200
    assert settled(client, port, PROXY, [(said, HOME), (said, "10.1.2.3")]) == 200
    assert settled(client, port, PROXY, [(said, f"{HOME}, unknown")]) == 403
    # Not from others, and not in the other header.
    assert settled(client, port, STRANGER, [(said, HOME)]) == 403
    assert settled(client, port, PROXY, [("Forwarded", f"for={HOME}")]) == 403


def test_limits_count_clients_not_the_proxy(own):
    client, port, _ = own
    several = [f"203.0.113.{number}" for number in range(100, 200)]
    answers = [ask(client, port, PROXY, [("X-Forwarded-For", address)]).status for address in several]
    assert answers == [403] * len(several), "each of them has its requests a second"
    answers = [ask(client, port, PROXY, [("X-Forwarded-For", "203.0.113.99")]).status for _ in range(300)]
    assert answers[:OF_ADDRESS] == [403] * OF_ADDRESS and 503 in answers
    answers = [ask(client, port, STRANGER, [("X-Forwarded-For", address)]).status for address in several * 3]
    assert 503 in answers, "who is no proxy cannot be many"


def test_audit_log_names_the_client(own):
    client, port, audit = own
    settled(client, port, PROXY, [("X-Forwarded-For", "198.51.100.77")])
    assert wait_until(lambda: "198.51.100.77" in audit.read_text(), 20)


def test_wrong_settings_are_named(tmp_path):
    from support.server import Server

    said = Server.check(tmp_path, f'data_dir = "{tmp_path}"\n[limits]\ntrusted_proxies = ["10.0.0.0/33"]\nproxy_header = "x-real-ip"\n')
    assert 'limits.trusted_proxies = "10.0.0.0/33"' in said and 'limits.proxy_header = "x-real-ip"' in said
