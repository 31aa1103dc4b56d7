"""Websites: one bucket as a web server, through each node of a cluster, also when one is dead."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess

import pytest
from botocore.exceptions import ClientError
from support.boto import boto_of
from support.server import Demo, binary, wait_until
from support.unchanged import unchanged

pytestmark = pytest.mark.process

PAGES = {
    "index.html": b"<a href='folder'>folder</a>",
    "folder/index.html": b"<a href='/style.css'>style</a>",
    "style.css": b"body {}",
    "404.html": b"lost",
}
# The paths of pages, and the keys of their objects.
SHOWN = (("/", "index.html"), ("/folder/", "folder/index.html"), ("/style.css", "style.css"))
TYPES = {"html": "text/html; charset=utf-8", "css": "text/css"}


class Reply:
    def __init__(self, reply: http.client.HTTPResponse):
        self.status, self.body = reply.status, reply.read()
        self.headers = {name.lower(): value for name, value in reply.getheaders()}


def visit(address: str, host: str, path: str, method: str = "GET", **headers: str) -> Reply:
    """One request of a visitor, who addresses a node and names a host."""
    connection = http.client.HTTPConnection(address, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, headers={"Host": host, **named})
        return Reply(connection.getresponse())
    finally:
        connection.close()


class Cluster:
    def __init__(self, folder):
        self.demo = Demo(folder, nodes=3)
        self.info = self.demo.start(120)
        self.nodes = self.info.nodes
        self.web = [node["web"] for node in self.nodes]

    def s3(self, node: int = 0):
        return boto_of(self.info, f"http://{self.nodes[node]['s3']}", attempts=3)

    def cli(self, *arguments: str, node: int = 0) -> str:
        command = [str(binary()), *arguments, "--data-dir", self.nodes[node]["dir"]]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("web") / "data")
    yield cluster
    cluster.demo.stop()


def fill(s3, bucket: str) -> None:
    s3.create_bucket(Bucket=bucket)
    for key, body in PAGES.items():
        kind = TYPES[key.rsplit(".")[-1]]
        s3.put_object(Bucket=bucket, Key=key, Body=body, ContentType=kind, CacheControl="max-age=60")


@pytest.fixture
def own_cluster(tmp_path):
    """A cluster that no other test uses."""
    cluster = Cluster(tmp_path / "data")
    yield cluster
    cluster.demo.stop()


@pytest.fixture(scope="module")
def site(cluster):
    return site_of(cluster)


def site_of(cluster):
    """The host of a website."""
    s3 = cluster.s3()
    fill(s3, "pages")
    s3.put_bucket_website(
        Bucket="pages",
        WebsiteConfiguration={
            "IndexDocument": {"Suffix": "index.html"},
            "ErrorDocument": {"Key": "404.html"},
            "RoutingRules": [
                {"Condition": {"KeyPrefixEquals": "old/"}, "Redirect": {"ReplaceKeyPrefixWith": "folder/"}},
            ],
        },
    )
    site = "pages.localhost"
    for address in cluster.web:
        # The other nodes are told of the change; they do not wait for it.
        assert wait_until(lambda: visit(address, site, "/old/a").headers.get("location") == "/folder/a"), address
    return site


def test_each_node_serves_all_pages(cluster, site):
    for address in cluster.web:
        for path, key in SHOWN:
            reply = visit(address, site, path)
            assert (reply.status, reply.body) == (200, PAGES[key]), (address, path)
            assert reply.headers["content-type"] == TYPES[key.rsplit(".")[-1]]
            assert reply.headers["cache-control"] == "max-age=60"
            again = visit(address, site, path, If_None_Match=reply.headers["etag"])
            assert (again.status, again.body) == (304, b"")
        assert visit(address, site, "/folder").headers["location"] == "/folder/"
        assert visit(address, site, "/old/a").headers["location"] == "/folder/a"
        reply = visit(address, site, "/none")
        assert (reply.status, reply.body) == (404, PAGES["404.html"])
        assert visit(address, site, "/style.css", Range="bytes=0-3").body == b"body"
        assert visit(address, site, "/style.css", "PUT").status == 405


def test_website_is_public_at_the_web_address_only(cluster, site):
    for node in cluster.nodes:
        assert visit(node["s3"], "127.0.0.1", "/pages/index.html").status == 403
        assert visit(node["s3"], site, "/index.html").status == 403
        assert visit(node["web"], "127.0.0.1", "/pages/index.html").status == 404
        # The demo's own bucket is no website.
        assert visit(node["web"], f"{cluster.info.bucket}.localhost", "/").status == 404


def test_redirect_of_an_object(cluster, site):
    s3 = cluster.s3()
    s3.put_object(Bucket="pages", Key="moved", Body=b"x", WebsiteRedirectLocation="https://example.org/")
    assert s3.head_object(Bucket="pages", Key="moved")["WebsiteRedirectLocation"] == "https://example.org/"
    for address in cluster.web:
        reply = visit(address, site, "/moved")
        assert (reply.status, reply.headers["location"]) == (301, "https://example.org/")
    with pytest.raises(ClientError) as refused, unchanged():
        s3.put_object(Bucket="pages", Key="moved", Body=b"x", WebsiteRedirectLocation="elsewhere")
    assert refused.value.response["Error"]["Code"] == "InvalidRedirectLocation"


def test_bucket_named_like_a_domain_and_the_request_of_proxies(cluster):
    s3 = cluster.s3(1)
    fill(s3, "www.example.org")
    shown = cluster.cli("website", "enable", "www.example.org", "--error", "404.html", node=1)
    assert "404.html" in shown
    for address in cluster.web:
        # The other nodes are told of the change; they do not wait for it.
        assert wait_until(lambda: visit(address, "www.example.org", "/").body == PAGES["index.html"], 20)
        assert visit(address, address, "/check?domain=www.example.org").status == 200
        assert visit(address, address, "/check?domain=demo.localhost").status == 404
        assert visit(address, address, "/check?domain=none.example").status == 404
    cluster.cli("website", "disable", "www.example.org", node=2)
    for address in cluster.web:
        assert wait_until(lambda: visit(address, "www.example.org", "/").status == 404, 20)
    assert s3.get_object(Bucket="www.example.org", Key="style.css")["Body"].read() == PAGES["style.css"]


def test_aliases_for_everybody_and_for_one_key(cluster, site):
    cluster.cli("bucket", "alias", "add", "pages", "www.example.net")
    cluster.cli("bucket", "alias", "add", "www.example.net", "mine", "--key", cluster.info.access_key, node=1)
    listed = cluster.cli("bucket", "alias", "list", "pages", node=2)
    assert "www.example.net" in listed and "mine" in listed
    for node in range(3):
        assert visit(cluster.web[node], "www.example.net", "/").body == PAGES["index.html"]
        assert visit(cluster.web[node], "mine.localhost", "/").status == 404
        for name in ("www.example.net", "mine"):
            body = cluster.s3(node).get_object(Bucket=name, Key="style.css")["Body"].read()
            assert body == PAGES["style.css"]
    taken = subprocess.run(
        [str(binary()), "bucket", "create", "www.example.net", "--data-dir", cluster.nodes[2]["dir"]],
        capture_output=True,
        text=True,
    )
    assert taken.returncode != 0 and "exists" in taken.stderr
    own = subprocess.run(
        [str(binary()), "bucket", "alias", "remove", "pages", "pages", "--data-dir", cluster.nodes[0]["dir"]],
        capture_output=True,
        text=True,
    )
    assert own.returncode != 0 and "only aliases can be removed" in own.stderr
    cluster.cli("bucket", "alias", "remove", "pages", "www.example.net", node=2)
    cluster.cli("bucket", "alias", "remove", "pages", "mine", "--key", cluster.info.access_key, node=2)
    for node in range(3):
        assert wait_until(lambda: visit(cluster.web[node], "www.example.net", "/").status == 404, 20)


def test_cross_origin_requests(cluster, site):
    rule = {"AllowedOrigins": ["https://app.example"], "AllowedMethods": ["GET"]}
    cluster.s3().put_bucket_cors(Bucket="pages", CORSConfiguration={"CORSRules": [rule]})
    for address in cluster.web:
        # The other nodes are told of the change; they do not wait for it.
        shared = lambda: visit(address, site, "/", Origin="https://app.example").headers  # noqa: E731
        assert wait_until(lambda: "access-control-allow-origin" in shared()), address
        asked = {"Origin": "https://app.example", "Access_Control_Request_Method": "GET"}
        for reply in (
            visit(address, site, "/", Origin="https://app.example"),
            visit(address, site, "/", "OPTIONS", **asked),
        ):
            assert reply.status == 200
            assert reply.headers["access-control-allow-origin"] == "https://app.example"


def test_curl_follows_from_page_to_page(cluster, site):
    port = cluster.web[0].rsplit(":")[-1]
    command = ["curl", "-sSL", "--resolve", f"{site}:{port}:127.0.0.1", f"http://{site}:{port}/folder"]
    shown = subprocess.run(command, check=True, capture_output=True, timeout=30).stdout
    assert shown == PAGES["folder/index.html"]


def test_site_stays_up_when_a_node_is_killed(own_cluster):
    cluster, site = own_cluster, site_of(own_cluster)
    for address in cluster.web:
        assert wait_until(lambda: all(visit(address, site, path).status == 200 for path, _ in SHOWN)), address
    victim = cluster.nodes[2]
    os.kill(victim["pid"], signal.SIGKILL)
    for address in cluster.web[:2]:
        for path, key in SHOWN:
            reply = visit(address, site, path)
            assert (reply.status, reply.body) == (200, PAGES[key]), (address, path)
        assert visit(address, site, "/none").status == 404
