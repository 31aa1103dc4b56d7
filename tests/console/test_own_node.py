"""The console of a server with settings of its own: TLS, a restart, none at all."""

from __future__ import annotations

import http.client
import os
import signal
import ssl
import subprocess
from urllib.parse import urlencode, urlsplit

import pytest
from support.browser import Browser
from support.server import Demo, Server, binary, free_port, wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def start(tmp_path):
    """Starts a server with these settings."""
    servers = []

    def start(settings: str) -> Server:
        text = f'data_dir = "{tmp_path}/data"\n[s3]\nlisten = "127.0.0.1:0"\n{settings}'
        (tmp_path / "archipel.toml").write_text(text)
        server = Server(tmp_path)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.stop()


def log_in(link: str, context: ssl.SSLContext) -> http.client.HTTPResponse:
    connection = http.client.HTTPSConnection(urlsplit(link).netloc, timeout=30, context=context)
    form = {"content-type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/login/link", urlencode({"token": urlsplit(link).fragment}), form)
    return connection.getresponse()


def test_over_tls_the_cookie_is_for_tls_only_and_a_restart_ends_sessions(start, tmp_path):
    port = free_port()
    settings = f'[console]\nlisten = "127.0.0.1:{port}"\n[tls]\nself_signed = true\nlisteners = ["console"]\n'
    server = start(settings)
    link = server.cli("console").strip()
    assert link.startswith(f"https://127.0.0.1:{port}/login#archipel_")
    # The certificate of first starts is for names, and this test connects to an address.
    context = ssl.create_default_context(cafile=str(tmp_path / "data/self-signed.pem"))
    context.check_hostname = False
    answer = log_in(link, context)
    cookie = answer.headers["set-cookie"]
    assert answer.status == 303 and "; Secure" in cookie and "; HttpOnly" in cookie

    def status() -> int:
        connection = http.client.HTTPSConnection(f"127.0.0.1:{port}", timeout=30, context=context)
        connection.request("GET", "/cluster", headers={"cookie": cookie.split(";")[0]})
        return connection.getresponse().status

    assert status() == 200
    server.stop()
    server.start()
    assert status() == 303


def test_node_without_a_console_says_how_to_open_it(start):
    server = start("")
    command = [str(binary()), "console", "--data-dir", str(server.data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "set console.listen" in done.stderr


def test_settings_of_the_console_are_checked(tmp_path):
    text = f'data_dir = "{tmp_path}"\n[console]\nlisten = "here"\ns3_url = "s3.example.org/path"\n'
    problems = Server.check(tmp_path, text)
    assert 'console.listen = "here"' in problems
    assert 'console.s3_url = "s3.example.org/path"' in problems
    alone = Server.check(tmp_path, f'data_dir = "{tmp_path}"\n[console]\ns3_url = "https://s3.example.org"\n')
    assert "console.s3_url needs console.listen" in alone


def test_page_of_the_cluster_does_not_wait_for_a_node_that_is_dead(tmp_path):
    demo = Demo(tmp_path / "demo", nodes=3)
    demo.start()
    try:
        browser = Browser(demo.printed["console"])
        assert browser.follow(demo.printed["console_login"]).status == 303
        assert browser.get("/cluster/live").text.count("In use of the disks of") == 3
        os.kill(int(demo.info.nodes[2]["pid"]), signal.SIGKILL)
        assert wait_until(lambda: "data-soon" in browser.get("/cluster").text, 60)
        # Pages that are fetched after that, and the page without scripts, have what the others tell.
        for path in ("/cluster/live", "/cluster?wait=yes"):
            page = browser.get(path).text
            assert "data-soon" not in page and page.count("In use of the disks of") == 2, path
    finally:
        demo.stop()
