"""TLS on the listeners of one node: certificates by name, reloaded, and what clients see."""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
from pathlib import Path

import pytest
from support.boto import boto
from support.server import Server, binary, free_port, wait_until

pytestmark = pytest.mark.process


def certificate(folder: Path, name: str, *hosts: str) -> tuple[Path, Path]:
    """A certificate for these hosts, made by openssl, and its key."""
    chain, key = folder / f"{name}.pem", folder / f"{name}.key"
    names = ",".join(f"IP:{h}" if h[0].isdigit() else f"DNS:{h}" for h in hosts)
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-days", "20", "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}"]
    command += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([*command, "-keyout", key, "-out", chain], check=True, capture_output=True)
    key.chmod(0o600)
    return chain, key


class Node:
    """A server with TLS on all of its listeners."""

    def __init__(self, folder: Path, tls: str):
        self.folder, self.ports = folder, {name: free_port() for name in ("s3", "web", "admin", "k2v")}
        token = folder / "token"
        token.write_text("a-token-of-the-operator\n")
        token.chmod(0o600)
        (folder / "archipel.toml").write_text(
            f'data_dir = "{folder}/data"\n'
            f'[s3]\nlisten = "127.0.0.1:{self.ports["s3"]}"\n'
            f'[web]\nlisten = "127.0.0.1:{self.ports["web"]}"\nroot_domain = "web.test"\n'
            f'[k2v]\nlisten = "127.0.0.1:{self.ports["k2v"]}"\n'
            f'[admin]\nlisten = "127.0.0.1:{self.ports["admin"]}"\ntoken_file = "{token}"\n'
            f"[tls]\n{tls}\n"
        )
        (folder / "data").mkdir()
        self.server = Server(folder)
        self.server.start()

    def context(self, ca: Path) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(ca))

    def get(self, listener: str, ca: Path, host: str, path: str, **headers: str) -> tuple[int, bytes]:
        """A request to `host`, which the certificate must name."""
        plain = socket.create_connection(("127.0.0.1", self.ports[listener]), 10)
        connection = http.client.HTTPSConnection(host, timeout=10)
        connection.sock = self.context(ca).wrap_socket(plain, server_hostname=host)
        try:
            connection.request("GET", path, headers=headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def s3(self, ca: Path, key: dict):
        return boto("s3", f"https://127.0.0.1:{self.ports['s3']}", key["id"], key["secret"], ca=ca)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    first, first_key = certificate(folder, "first", "127.0.0.1", "s3.test")
    second, second_key = certificate(folder, "second", "*.web.test")
    pairs = f'{{ chain = "{first}", key = "{first_key}" }}, {{ chain = "{second}", key = "{second_key}" }}'
    node = Node(folder, f"certificates = [{pairs}]")
    yield node
    node.server.stop()


@pytest.fixture(scope="module")
def key(node) -> dict:
    return node.server.cli_json("key", "create", "tester", "--create-bucket")


def test_s3_websites_and_admin_over_tls(node, key):
    first, second = node.folder / "first.pem", node.folder / "second.pem"
    s3 = node.s3(first, key)
    s3.create_bucket(Bucket="site")
    body = bytes(range(256)) * 40_000
    s3.put_object(Bucket="site", Key="index.html", Body=body)
    assert s3.get_object(Bucket="site", Key="index.html")["Body"].read() == body
    begun = s3.create_multipart_upload(Bucket="site", Key="m")["UploadId"]
    part = s3.upload_part(Bucket="site", Key="m", UploadId=begun, PartNumber=1, Body=b"x")["ETag"]
    parts = {"Parts": [{"ETag": part, "PartNumber": 1}]}
    done = s3.complete_multipart_upload(Bucket="site", Key="m", UploadId=begun, MultipartUpload=parts)
    assert done["Location"].startswith("https://")
    node.server.cli("website", "enable", "site")
    assert node.get("web", second, "site.web.test", "/") == (200, body)
    with pytest.raises(ssl.SSLCertVerificationError):
        node.get("web", first, "site.web.test", "/")
    status, _ = node.get("admin", first, "s3.test", "/v1/status", Authorization="Bearer a-token-of-the-operator")
    assert status == 200
    assert node.get("admin", first, "s3.test", "/v1/status")[0] == 401
    shown = node.server.cli_json("status")
    assert shown["s3_endpoint"].startswith("https://") and not shown.get("warnings")


def test_k2v_by_the_command_line(node, key):
    address = f"https://127.0.0.1:{node.ports['k2v']}"
    node.s3(node.folder / "first.pem", key).create_bucket(Bucket="items")

    def k2v(ca: str, command: str, *words: str) -> subprocess.CompletedProcess:
        line = [str(binary()), "k2v", command, "items", "p", "s", *words, "--endpoint", address]
        line += ["--access-key", key["id"], "--ca-file", str(node.folder / ca)]
        env = {"AWS_SECRET_ACCESS_KEY": key["secret"]}
        return subprocess.run(line, capture_output=True, text=True, timeout=60, env=env)

    inserted = k2v("first.pem", "insert", "one")
    assert inserted.stdout == "inserted\n", inserted
    assert k2v("first.pem", "read").stdout.startswith("one\n")
    refused = k2v("second.pem", "insert", "two")
    assert refused.returncode == 1 and "certificate" in refused.stderr
    assert "holds no certificate" in k2v("first.key", "insert", "two").stderr
    assert k2v("first.pem", "read").stdout.splitlines()[:-1] == ["one"]


def test_http_2_by_alpn_and_no_plain_text(node):
    port = node.ports["s3"]
    address = f"https://s3.test:{port}/"
    resolve = ["--resolve", f"s3.test:{port}:127.0.0.1", "--cacert", str(node.folder / "first.pem")]
    for version in ("--http2", "--http1.1"):
        command = ["curl", "-sS", version, *resolve, "-o", "/dev/null", "-w", "%{http_version} %{http_code}", address]
        shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout
        assert shown == ("2 403" if version == "--http2" else "1.1 403")
    plain = subprocess.run(["curl", "-sS", f"http://127.0.0.1:{port}/"], capture_output=True, timeout=30)
    assert plain.returncode != 0
    connect = f"127.0.0.1:{port}"
    old = ["openssl", "s_client", "-connect", connect, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]
    assert subprocess.run(old, stdin=subprocess.DEVNULL, capture_output=True, timeout=30).returncode != 0


def test_client_that_never_greets_does_not_keep_others_out(node):
    silent = [socket.create_connection(("127.0.0.1", node.ports["s3"])) for _ in range(100)]
    try:
        assert node.get("s3", node.folder / "first.pem", "s3.test", "/")[0] == 403
    finally:
        for each in silent:
            each.close()


def test_changed_files_are_used_and_broken_ones_are_not(node):
    old = node.folder / "old.pem"
    old.write_bytes((node.folder / "first.pem").read_bytes())
    (node.folder / "first.pem").write_text("no certificate\n")
    assert wait_until(lambda: "cannot be used" in node.server.log_text(), 30)
    assert node.get("s3", old, "s3.test", "/")[0] == 403
    new, _ = certificate(node.folder, "first", "127.0.0.1", "s3.test")

    def is_new() -> bool:
        try:
            return node.get("s3", new, "s3.test", "/")[0] == 403
        except ssl.SSLError:
            return False

    assert wait_until(is_new, 30)
    with pytest.raises(ssl.SSLCertVerificationError):
        node.get("s3", old, "s3.test", "/")


def test_self_signed_certificate_stays_and_is_told_of(tmp_path):
    node = Node(tmp_path, "self_signed = true")
    try:
        ca = tmp_path / "data/self-signed.pem"
        assert node.get("s3", ca, "localhost", "/")[0] == 403
        assert node.get("web", ca, "any.web.test", "/")[0] == 404
        assert "made itself" in node.server.log_text()
        before = ca.read_bytes()
        node.server.stop()
        node.server.start()
        assert node.get("s3", ca, "localhost", "/")[0] == 403
        assert ca.read_bytes() == before
    finally:
        node.server.stop()


def test_config_check_names_what_is_wrong(tmp_path):
    chain, key = certificate(tmp_path, "one", "one.test")
    _, other = certificate(tmp_path, "other", "other.test")
    for pair, why in (
        ((chain, other), "do not fit"),
        ((chain, tmp_path / "none.key"), "cannot read the file"),
        ((key, key), "no certificate"),
    ):
        text = f'data_dir = "{tmp_path}"\n[tls]\ncertificates = [{{ chain = "{pair[0]}", key = "{pair[1]}" }}]\n'
        shown = Server.check(tmp_path, text)
        assert "tls.certificates[0]." in shown and why in shown and "fix: " in shown
    key.chmod(0o644)
    text = f'data_dir = "{tmp_path}"\n[tls]\ncertificates = [{{ chain = "{chain}", key = "{key}" }}]\n'
    assert "chmod 600" in Server.check(tmp_path, text)
