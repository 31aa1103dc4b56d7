"""Certificates from an authority: ordered by one node, proven by any, used by all, renewed copies kept for starts alone."""

from __future__ import annotations

import http.client
import shutil
import socket
import ssl

import pytest
from cluster.loopback import running
from support.server import free_port, lone_server, wait_until
from web.authority import Authority

pytestmark = pytest.mark.process

SITE, ELSEWHERE = "site.example.test", "elsewhere.example.test"
TLS_PORT, HTTP_PORT = 8443, 8081


@pytest.fixture(scope="module", autouse=True)
def tools():
    if not shutil.which("dnsmasq", path="/usr/sbin:/usr/bin:/sbin"):
        pytest.skip("missing: dnsmasq (apt-get install dnsmasq-base)")


def is_served(authority: Authority, address: str, port: int, name: str) -> bool:
    """Returns true if a client that trusts the authority gets a certificate for `name` there."""
    context = ssl.create_default_context(cafile=str(authority.roots))
    try:
        with socket.create_connection((address, port), 10) as plain:
            with context.wrap_socket(plain, server_hostname=name):
                return True
    except OSError:
        return False


def test_one_node_orders_and_all_use_the_certificate(tmp_path):
    authorities = []

    def prepare(cluster):
        # The authority reaches one node only, whichever orders.
        names = {SITE: cluster.network.address(2), ELSEWHERE: "127.0.0.1"}
        authority = Authority(tmp_path / "authority", names, TLS_PORT, HTTP_PORT)
        authorities.append(authority)
        for node in cluster.nodes:
            file = node.folder / "archipel.toml"
            web = f'\n[web]\nlisten = "{node.address}:{TLS_PORT}"\n[tls]\nlisteners = ["web"]\n'
            file.write_text(file.read_text() + web + authority.settings([SITE, ELSEWHERE]))

    try:
        with running(tmp_path / "cluster", 3, prepare) as cluster:
            authority, nodes = authorities[0], cluster.nodes

            def served(node) -> bool:
                return is_served(authority, node.address, TLS_PORT, SITE)

            assert wait_until(lambda: all(served(node) for node in nodes), 240, 1), authority.log()[-3000:]

            def certified() -> list[str]:
                lines = [line for node in nodes for line in node.log.read_text().splitlines()]
                return [line for line in lines if "there is a certificate" in line and SITE in line]

            # The certificate is served before the node that ordered it says so.
            assert wait_until(certified)
            assert len(certified()) == 1, certified()

            def told(node) -> bool:
                return any(line.startswith(f"{ELSEWHERE} has no certificate: ") for line in node.admin("GET", "/v1/status").get("warnings", []))

            assert wait_until(lambda: all(told(node) for node in nodes), 60, 1)
            assert nodes[0].metric("archipel_certificate_failed_orders") >= 1
            # The copy of a node that finds nobody else.
            cluster.stop_all()
            cluster.start(nodes[0])
            assert wait_until(lambda: served(nodes[0]), 60, 1), nodes[0].log.read_text()[-2000:]
    finally:
        for authority in authorities:
            authority.stop()


def test_proof_over_plain_http_and_the_way_to_https(tmp_path):
    plain, address = free_port(), "127.0.0.1"
    authority = Authority(tmp_path / "authority", {SITE: address}, TLS_PORT, plain)
    acme = authority.settings([SITE], challenge="http-01", listen=f"{address}:{plain}")
    (tmp_path / "node").mkdir()
    try:
        with lone_server(tmp_path / "node", acme) as (server, port):
            served = wait_until(lambda: is_served(authority, address, port, SITE), 60, 1)
            assert served, f"{authority.log()[-3000:]}\n{server.log_text()[-2000:]}"
            files = tmp_path / "node/data/certificates"
            # The certificate is served as soon as it is there. Its files get their names a moment later.
            assert wait_until(lambda: not list(files.glob("*.new")), 20)
            modes = {path.suffix: path.stat().st_mode & 0o777 for path in files.iterdir()}
            assert modes == {".pem": 0o600, ".key": 0o600}
            assert all(path.name.startswith(f"{SITE}-") for path in files.iterdir())
            for method, path, status, location in [
                ("GET", "/a%20b?c=d", 301, f"https://{SITE}/a%20b?c=d"),
                ("HEAD", "/", 301, f"https://{SITE}/"),
                ("PUT", "/bucket/key", 403, None),
                ("GET", "/.well-known/acme-challenge/unknown", 404, None),
            ]:
                connection = http.client.HTTPConnection(address, plain, timeout=10)
                connection.request(method, path, headers={"Host": f"{SITE}:{plain}"})
                reply = connection.getresponse()
                assert (reply.status, reply.headers.get("Location")) == (status, location), path
                connection.close()
    finally:
        authority.stop()
