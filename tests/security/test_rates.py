"""One client cannot take the time of all others: requests a second by address and by user."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from support import wire
from support.client import Client
from support.server import lone_server, wait_until
from support.sigv4 import Credentials
from support.unchanged import Look
from support.unchanged import unchanged

pytestmark = pytest.mark.process

OF_ADDRESS, OF_USER = 20, 5
# After so many refused writes the test sees that no row changed.
LOOKS = 20
# More than a slow machine could be granted while it sends them.
REQUESTS = 300


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The port of a server whose clients have few requests a second, and a client with a bucket."""
    folder: Path = tmp_path_factory.mktemp("rates")
    settings = (
        f"[limits]\nrequests_per_second_per_address = {OF_ADDRESS}\n"
        f"requests_per_second_per_user = {OF_USER}\n"
    )
    with lone_server(folder, settings) as (server, port):
        key = server.cli_json("key", "create", "tester", "--create-bucket")
        client = Client(f"http://127.0.0.1:{port}", Credentials(key["id"], key["secret"], "us-east-1"))
        assert client.request("PUT", "/bucket").status == 200
        yield port, client


def anonymous(port: int, source: str) -> wire.Response:
    with socket.create_connection(("127.0.0.1", port), 10, source_address=(source, 0)) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return wire.read_response(sock)


def test_address_has_its_requests_a_second(own):
    port, _ = own
    answers = [anonymous(port, "127.0.0.5") for _ in range(REQUESTS)]
    statuses = [one.status for one in answers]
    assert statuses[:OF_ADDRESS] == [403] * OF_ADDRESS
    refused = [one for one in answers if one.status == 503]
    assert refused and set(statuses) == {403, 503}
    assert refused[0].code == "SlowDown"
    assert refused[0].headers["retry-after"] == "1"
    with unchanged():
        assert anonymous(port, "127.0.0.6").status == 403
    assert wait_until(lambda: anonymous(port, "127.0.0.5").status == 403, 20)


@pytest.mark.long
def test_user_has_its_requests_a_second_and_a_refused_write_changes_nothing(own):
    _, client = own
    assert wait_until(lambda: client.put("bucket", "first", b"x").status == 200)
    done, refused = [], []
    for number in range(REQUESTS):
        look = Look() if 0 < len(refused) <= LOOKS else None
        reply = client.put("bucket", f"k{number}", b"x")
        assert reply.status == 200 or reply.code == "SlowDown"
        if look and reply.status != 200:
            look.same()
        (done if reply.status == 200 else refused).append(number)
    assert done and refused
    for number in [*done[-3:], *refused[-3:]]:
        wanted = 200 if number in done else 404
        # Another status than 503 comes, and it is this one.
        statuses = []
        assert wait_until(lambda: statuses.append(client.get("bucket", f"k{number}").status) or statuses[-1] != 503)
        assert statuses[-1] == wanted
