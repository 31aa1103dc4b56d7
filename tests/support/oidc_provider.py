"""An OpenID provider from the npm registry, as a process: signs people in and issues tokens, and can change its keys."""

from __future__ import annotations

import base64
import http.cookiejar
import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

from .server import free_port

FOLDER = Path(__file__).with_name("oidc")
BACK = "http://127.0.0.1:9/back"
INSTALL_S, START_S = 300, 60


def why_not() -> str | None:
    """Returns what is missing on this machine, or None."""
    missing = [name for name in ("node", "npm") if not shutil.which(name)]
    return f"missing: {', '.join(missing)} (apt-get install nodejs npm)" if missing else None


class Provider:
    """`tests/support/oidc/provider.mjs`, installed into a folder of its own."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir()
        for name in ("package.json", "provider.mjs"):
            shutil.copy(FOLDER / name, folder / name)
        command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S)
        assert done.returncode == 0, done.stdout + done.stderr
        self.port = free_port()
        self.keys = folder / "keys.json"
        self.process: subprocess.Popen | None = None

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                ["node", "provider.mjs", str(self.port), str(self.keys)],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "NODE_ENV": "test"},
                text=True,
            )
        line = self.process.stdout.readline().strip()
        assert line == self.issuer, (line, (self.folder / "log").read_text()[-2000:])

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process = None

    def rotate(self) -> None:
        """Comes back with new keys. Nobody else knows the old ones."""
        self.stop()
        self.keys.unlink()
        self.start()

    def token(self, subject: str, algorithm: str) -> str:
        """An ID token of a user who signs in and consents, as a browser would, for the client of this algorithm."""
        browser = Browser()
        query = {
            "client_id": f"archipel-{algorithm}",
            "response_type": "code",
            "scope": "openid",
            "redirect_uri": BACK,
            "state": "s",
        }
        page = browser.follow(f"{self.issuer}/auth?{urlencode(query)}")
        for fields in ({"prompt": "login", "login": subject, "password": "any"}, {"prompt": "consent"}):
            assert isinstance(page, Page), page
            page = browser.follow(page.action, fields)
        code = parse_qs(urlsplit(str(page)).query)["code"][0]
        secret = base64.b64encode(f"archipel-{algorithm}:not%20a%20secret".encode()).decode()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": BACK}
        request = urllib.request.Request(
            f"{self.issuer}/token", urlencode(form).encode(), {"Authorization": f"Basic {secret}"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["id_token"]


class Page:
    """A page with a form."""

    def __init__(self, url: str, text: str):
        found = re.search(r'<form[^>]* action="([^"]+)"', text)
        assert found, text
        self.action = urljoin(url, found.group(1))


class Browser:
    """Keeps cookies, and follows redirects until they leave for the client."""

    def __init__(self):
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self.opener = urllib.request.build_opener(jar, Stay)

    def follow(self, url: str, fields: dict[str, str] | None = None) -> Page | str:
        """The page at the end, or the address outside of the provider."""
        data = urlencode(fields).encode() if fields else None
        for _ in range(10):
            try:
                with self.opener.open(url, data, timeout=30) as answer:
                    return Page(url, answer.read().decode())
            except urllib.error.HTTPError as error:
                with error:
                    assert error.code in (302, 303), (error.code, error.read())
                    url, data = urljoin(url, error.headers["location"]), None
            if url.startswith(BACK):
                return url
        raise AssertionError(f"too many redirects: {url}")


class Stay(urllib.request.HTTPRedirectHandler):
    """Leaves redirects to the caller."""

    def redirect_request(self, *_):
        return None
