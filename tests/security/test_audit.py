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

def test_log_says_for_whom_a_session_acts(node):
    """The id of its access key is in no other place, so that nobody could tell whose it was."""
    server, folder, endpoint = node
    server.cli("user", "create", "ann", "--policy", "AdministratorAccess")
    key = server.cli_json("user", "key", "ann")
    iam = boto("iam", endpoint, key["id"], key["secret"])
    ann = iam.get_user()["User"]["Arn"]
    trust = {"Effect": "Allow", "Principal": {"AWS": ann}, "Action": "sts:AssumeRole"}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = iam.create_role(RoleName="backup", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    sts = boto("sts", endpoint, key["id"], key["secret"])
    made = sts.assume_role(RoleArn=role, RoleSessionName="nightly")
    secrets = made["Credentials"]
    session = boto("s3", endpoint, secrets["AccessKeyId"], secrets["SecretAccessKey"], token=secrets["SessionToken"])
    with pytest.raises(ClientError):
        session.list_objects_v2(Bucket="none")
    log = folder / "audit.log"

    def line(action: str) -> dict:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return next((line for line in lines if line["action"] == action), {})

    assert wait_until(lambda: line("ListObjectsV2"), 20)
    arn = made["AssumedRoleUser"]["Arn"]
    listed, assumed, created = line("ListObjectsV2"), line("AssumeRole"), line("CreateRole")
    assert (listed["who"], listed["principal"]) == (secrets["AccessKeyId"], arn)
    assert (assumed["who"], assumed["principal"], assumed["resource"]) == (key["id"], ann, arn)
    assert (created["principal"], created["resource"]) == (ann, role)
    assert secrets["SecretAccessKey"] not in log.read_text() and secrets["SessionToken"] not in log.read_text()



def test_config_check_names_what_is_wrong(tmp_path):
    text = f'data_dir = "{tmp_path}"\n[audit]\nwebhook = "ftp://example.org/"\n'
    shown = Server.check(tmp_path, text)
    assert "audit.webhook" in shown and "fix: " in shown
