"""A website that a generator made, on its own domain: every page in Chromium, every file with curl, at each node.

`cargo xtask website-pages` runs it: python generated_site.py, with the program in $ARCHIPEL_BIN. MkDocs makes the site from
this repository's docs. Half-way a node is killed.
"""

from __future__ import annotations

import mimetypes
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urldefrag, urlsplit

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from support.boto import boto_of  # noqa: E402
from support.server import Demo, binary, wait_until  # noqa: E402

DOMAIN = "docs.example.org"
# The longest time of Chromium for one page, in milliseconds.
PATIENCE_MS = 30_000


def generate(folder: Path) -> Path:
    """Makes the site. Returns its folder."""
    docs, site = folder / "docs", folder / "site"
    docs.mkdir()
    for page in (ROOT / "docs").glob("**/*.md"):
        to = docs / page.relative_to(ROOT / "docs")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(page.read_bytes())
    (docs / "index.md").write_text((ROOT / "README.md").read_text())
    settings = folder / "mkdocs.yml"
    settings.write_text(f"site_name: Archipel\nsite_url: http://{DOMAIN}/\ndocs_dir: {docs}\nsite_dir: {site}\n")
    mkdocs = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--config-file", str(settings)]
    subprocess.run(mkdocs, check=True, stderr=subprocess.DEVNULL)
    return site


def upload(info, site: Path) -> list[str]:
    """Stores the site's files in a bucket with the domain's name. Returns their keys."""
    s3 = boto_of(info, attempts=3)
    s3.create_bucket(Bucket=DOMAIN)
    keys = []
    for file in sorted(path for path in site.glob("**/*") if path.is_file()):
        key = file.relative_to(site).as_posix()
        kind = mimetypes.guess_type(key)[0] or "application/octet-stream"
        s3.put_object(Bucket=DOMAIN, Key=key, Body=file.read_bytes(), ContentType=kind)
        keys.append(key)
    return keys


def curl(address: str, path: str) -> bytes:
    port = address.rsplit(":")[-1]
    url = f"http://{DOMAIN}:{port}{path}"
    command = ["curl", "-sSfL", "--resolve", f"{DOMAIN}:{port}:127.0.0.1", url]
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout


def fetch_all(address: str, site: Path, keys: list[str]) -> None:
    """Fetches every file, and each folder's index by the folder's name."""
    for key in keys:
        content = (site / key).read_bytes()
        assert curl(address, f"/{key}") == content, key
        if key.endswith("index.html"):
            folder = key.removesuffix("index.html")
            assert curl(address, f"/{folder}") == content, folder
            assert curl(address, f"/{folder}".rstrip("/") or "/") == content, folder


def walk(browser: Browser, address: str, kill=None) -> int:
    """Follows the links from page to page. After ten pages, calls `kill`. Returns the number of pages."""
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    faults: list[str] = []
    of_site = lambda url: urlsplit(url).hostname == DOMAIN  # noqa: E731
    page.on("requestfailed", lambda r: faults.append(f"{r.url}: {r.failure}") if of_site(r.url) else None)
    page.on("response", lambda r: faults.append(f"{r.url}: {r.status}") if of_site(r.url) and r.status >= 400 else None)
    origin = f"http://{DOMAIN}:{address.rsplit(':')[-1]}"
    seen, todo = {"/"}, ["/"]
    while todo:
        path = todo.pop()
        answer = page.goto(origin + path, wait_until="networkidle")
        assert answer is not None and answer.status == 200, f"{path}: {answer and answer.status}"
        assert page.title(), path
        for link in page.eval_on_selector_all("a[href]", "all => all.map(a => a.href)"):
            found = urlsplit(urldefrag(link).url)
            # Links out of docs/, to the repository's other folders, are no part of the site.
            inside = found.path.endswith("/") or found.path.endswith(".html")
            if found.hostname == DOMAIN and inside and found.path not in seen:
                seen.add(found.path)
                todo.append(found.path)
        if kill and len(seen) - len(todo) == 10:
            kill()
    page.close()
    assert not faults, faults
    return len(seen)


def main() -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        site = generate(folder)
        demo = Demo(folder / "data", nodes=3)
        info = demo.start(120)
        rules = f"--host-resolver-rules=MAP {DOMAIN} 127.0.0.1"
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", rules])
        try:
            keys = upload(info, site)
            enable = [str(binary()), "website", "enable", DOMAIN, "--error", "404.html"]
            data = ["--data-dir", info.nodes[0]["dir"]]
            subprocess.run([*enable, *data], check=True, stdout=subprocess.DEVNULL)
            web = [node["web"] for node in info.nodes]
            for address in web:
                # The other nodes are told of the change; they do not wait for it.
                assert wait_until(lambda: is_there(address), 20), address
                fetch_all(address, site, keys)
                print(f"{address}: {len(keys)} files with curl")
            kill = lambda: os.kill(info.nodes[2]["pid"], signal.SIGKILL)  # noqa: E731
            for address, then in ((web[2], None), (web[0], kill), (web[1], None)):
                print(f"{address}: {walk(browser, address, then)} pages in Chromium")
            for address in web[:2]:
                fetch_all(address, site, keys)
            print("a node was killed meanwhile; all files are there at the others")
        finally:
            browser.close()
            demo.stop()


def is_there(address: str) -> bool:
    try:
        return bool(curl(address, "/"))
    except subprocess.CalledProcessError:
        return False


if __name__ == "__main__":
    main()
