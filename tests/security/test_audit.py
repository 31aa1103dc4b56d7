"""The audit log: who did what, in a file that may be rotated, on standard output, and at a webhook."""

from __future__ import annotations

import http.server
import json
import threading
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from support.boto import boto
from support.server import Server, lone_server, wait_until

pytestmark = pytest.mark.process


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes lines; the first attempt fails."""

    lines: list[str] = []
    failures = 1

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        failed = Collector.failures > 0
        Collector.failures -= 1
        if not failed:
            Collector.lines += body.splitlines()
        self.send_response(503 if failed else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def node(tmp_path: Path):
    collector = http.server.HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    settings = f'[audit]\nfile = "{tmp_path}/audit.log"\nwebhook = "http://127.0.0.1:{collector.server_port}/lines"\n'
    with lone_server(tmp_path, settings) as (server, port):
        yield server, tmp_path, f"http://127.0.0.1:{port}"
    collector.shutdown()


def test_log_says_who_did_what(node):
    server, folder, endpoint = node
    key = server.cli_json("key", "create", "tester", "--create-bucket")

    def client(secret: str):
        return boto("s3", endpoint, key["id"], secret)

    s3 = client(key["secret"])
    s3.create_bucket(Bucket="audited")
    s3.put_object(Bucket="audited", Key="a key\n", Body=b"12345")
    s3.get_object(Bucket="audited", Key="a key\n", Range="bytes=0-2")["Body"].read()
    with pytest.raises(ClientError):
        client("wrong" * 8).get_object(Bucket="audited", Key="a key\n")
    log, rotated = folder / "audit.log", folder / "audit.log.1"

    def lines(path: Path) -> list[dict]:
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    assert wait_until(lambda: len([line for line in lines(log) if line["endpoint"] == "s3"]) == 4, 20)
    admin = [line for line in lines(log) if line["endpoint"] == "admin" and line["method"] == "POST"]
    assert [(line["who"], line["path"], line["status"]) for line in admin] == [("socket", "/v1/keys", 201)]
    made, put, got, denied = [line for line in lines(log) if line["endpoint"] == "s3"]
    assert (made["action"], made["bucket"], made["decision"]) == ("CreateBucket", "audited", "allowed")
    assert (put["action"], put["who"], put["key"], put["received"]) == ("PutObject", key["id"], "a key\n", 5)
    assert (got["action"], got["status"], got["sent"], got["from"]) == ("GetObject", 206, 3, "127.0.0.1")
    assert (denied["decision"], denied["code"], denied["who"]) == ("denied", "SignatureDoesNotMatch", None)
    text = log.read_text()
    assert key["secret"] not in text and "Signature=" not in text and "12345" not in text
    assert log.stat().st_mode & 0o777 == 0o600

    log.rename(rotated)
    s3.head_object(Bucket="audited", Key="a key\n")
    assert wait_until(lambda: [line["action"] for line in lines(log)] == ["HeadObject"], 20)
    server.stop()
    posted = [json.loads(line) for line in Collector.lines]
    assert posted == lines(rotated) + lines(log)


def test_config_check_names_what_is_wrong(tmp_path):
    text = f'data_dir = "{tmp_path}"\n[audit]\nwebhook = "ftp://example.org/"\n'
    shown = Server.check(tmp_path, text)
    assert "audit.webhook" in shown and "fix: " in shown
