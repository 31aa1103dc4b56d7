"""A user creates only so many buckets."""

from __future__ import annotations

import pytest
from support.client import Client
from support.expect import answer
from support.server import lone_server
from support.sigv4 import Credentials
from support.unchanged import unchanged

pytestmark = pytest.mark.process


def test_a_user_creates_only_so_many_buckets(tmp_path):
    with lone_server(tmp_path, "[limits]\nbuckets_per_user = 2\n") as (server, port):
        key = server.cli_json("key", "create", "tester", "--create-bucket")
        client = Client(f"http://127.0.0.1:{port}", Credentials(key["id"], key["secret"], "us-east-1"))
        for name in ("first", "second"):
            assert client.request("PUT", f"/{name}").status == 200
        with unchanged():
            answer(client.request("PUT", "/third"), 400, "TooManyBuckets")
            answer(client.request("GET", "/third"), 404, "NoSuchBucket")
        # In us-east-1, one's own bucket is created again.
        assert client.request("PUT", "/first").status == 200
        assert client.request("DELETE", "/first").status == 204
        assert client.request("PUT", "/third").status == 200
