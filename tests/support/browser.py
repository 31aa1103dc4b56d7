"""A browser without scripts: it keeps cookies, follows redirects and fills in forms."""

from __future__ import annotations

import http.client
import re
import uuid
from html import unescape
from urllib.parse import urlencode, urlsplit


class Page:
    """An answer."""

    def __init__(self, status: int, headers, body: bytes):
        self.status, self.headers, self.body = status, headers, body
        self.text = body.decode(errors="replace")


class Browser:
    """A browser at the console of a node."""

    def __init__(self, origin: str):
        self.host = urlsplit(origin).netloc
        self.cookies: dict[str, str] = {}

    def ask(self, method: str, path: str, body: bytes = b"", headers: dict | None = None) -> Page:
        """One request, without following a redirect."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        try:
            cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
            all_headers = {"cookie": cookies} if cookies else {}
            connection.request(method, path, body or None, {**all_headers, **(headers or {})})
            answer = connection.getresponse()
            for line in answer.headers.get_all("set-cookie") or []:
                name, _, rest = line.partition("=")
                self.cookies[name] = rest.split(";")[0]
            return Page(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Page:
        """A page, after redirects."""
        page = self.ask("GET", path)
        for _ in range(3):
            if page.status != 303:
                break
            page = self.ask("GET", page.headers["location"])
        return page

    def send(self, path: str, csrf: str | None = None, **fields: str) -> Page:
        """Sends a form; with the session's secret unless another is given."""
        secret = self.csrf() if csrf is None else csrf
        body = urlencode({"csrf": secret, **fields}).encode()
        return self.ask("POST", path, body, {"content-type": "application/x-www-form-urlencoded"})

    def upload(self, page: Page, file: str, content: bytes, kind: str = "text/plain") -> Page:
        """Fills a file into the one form of a page and sends it, with its hidden fields in their order."""
        form = re.search(r"<form ([^>]*)>", page.text).group(1)
        given = dict(re.findall(r'([\w-]+)="([^"]*)"', form))
        assert given["method"].lower() == "post" and given["enctype"] == "multipart/form-data", given
        boundary = f"----form{uuid.uuid4().hex}"
        body = b""
        for field in re.findall(r"<input ([^>]*)>", page.text):
            attributes = {name: unescape(value) for name, value in re.findall(r'([\w-]+)="([^"]*)"', field)}
            if "name" not in attributes:
                continue  # the button
            head, value = f'form-data; name="{attributes["name"]}"', attributes.get("value", "").encode()
            if attributes["type"] == "file":
                head, value = f'{head}; filename="{file}"\r\nContent-Type: {kind}', content
            body += f"--{boundary}\r\nContent-Disposition: {head}\r\n\r\n".encode() + value + b"\r\n"
        body += f"--{boundary}--\r\n".encode()
        headers = {"content-type": f"multipart/form-data; boundary={boundary}", "origin": f"http://{self.host}"}
        return self.ask("POST", urlsplit(given["action"]).path, body, headers)

    def csrf(self) -> str:
        """The secret of the session."""
        found = re.search(r'data-csrf="([0-9a-f]+)"', self.get("/buckets").text)
        return found.group(1) if found else ""

    def follow(self, link: str) -> Page:
        """Follows a login link, as the script of the page does."""
        return self.send("/login/link", csrf="", token=link.partition("#")[2])
