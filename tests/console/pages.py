"""Every page of the console in Chromium: pictures to look at, accessibility, and no message on the browser's console.

`cargo xtask console-pages` runs it: python pages.py FOLDER AXE, with the program in $ARCHIPEL_BIN. FOLDER gets the pictures.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, BrowserContext, Page

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]
from chromium import LOOKS, PATIENCE_MS, Looker, chromium  # noqa: E402
from support.client import Client  # noqa: E402
from support.server import Demo  # noqa: E402
from support.sigv4 import Credentials  # noqa: E402

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>.html"
HOSTILE_KEY = "AKHOSTILE"
# A picture that runs scripts, if it may.
SVG = b"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40" onload="alert(4)"><script>alert(5)</script>
<circle cx="20" cy="20" r="15" fill="teal"/></svg>"""
PAGES = {
    "login": "/login",
    "cluster": "/cluster",
    "buckets": "/buckets",
    "objects": "/buckets/demo",
    "object": f"/buckets/demo/object?o={quote(HOSTILE, safe='')}",
    "svg": "/buckets/demo/object?o=picture.svg",
    "versions": "/buckets/demo/versions",
    "history": f"/buckets/demo/history?o={quote(HOSTILE, safe='')}",
    "rules": "/buckets/demo/rules",
    "settings": "/buckets/demo/settings",
    "keys": "/keys",
    "key": f"/keys/{HOSTILE_KEY}",
    "users": "/users",
    "user": "/users/anna",
    "groups": "/groups",
    "group": "/groups/family",
    "roles": "/roles",
    "role": "/roles/backup",
    "policies": "/policies",
    "policy": f"/policies/{quote('arn:aws:iam::000000000000:policy/photos', safe='')}",
    "built-in": "/policies/AdministratorAccess",
    "inline": "/inline/users/anna/home",
    "tokens": "/tokens",
    "layout": "/layout",
    "activity": "/activity",
    "audit": "/audit?endpoint=all",
    "why": "/access?key=anonymous&action=s3:GetObject&resource=demo/picture.svg",
}
POLICY = """{
  "Version": "2012-10-17",
  "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::demo/*"}]
}"""
TRUST = '{"Statement": {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "000000000000"}}}'


def send(page: Page, action: str, **fields: str) -> None:
    """Fills the form with this action, and sends it."""
    form = page.locator(f'form[action="{action}"]').last
    for name, value in fields.items():
        form.locator(f'[name="{name}"]').fill(value)
    form.locator("button").click()


def identities(page: Page, origin: str) -> None:
    """Makes a user in a group, a role and policies. A policy is refused first."""
    page.goto(f"{origin}/users")
    send(page, "/users", name="anna")
    page.get_by_text("Add a policy that is only here").click()
    send(page, "/inline/users/anna", policy="home", document=POLICY)
    page.get_by_role("link", name="home").wait_for(timeout=PATIENCE_MS)
    page.goto(f"{origin}/groups")
    send(page, "/groups", name="family")
    page.fill("#users", "anna")
    page.locator("form:has(#users) button").click()
    page.get_by_role("link", name="anna").wait_for(timeout=PATIENCE_MS)
    page.fill("#policy", "AmazonS3ReadOnlyAccess")
    page.locator("form:has(#policy) button").click()
    page.get_by_role("button", name="Detach").wait_for(timeout=PATIENCE_MS)
    page.goto(f"{origin}/roles")
    send(page, "/roles", name="backup", description="Nightly copies", trust=TRUST)
    page.get_by_role("heading", name="backup").wait_for(timeout=PATIENCE_MS)
    page.goto(f"{origin}/policies")
    send(page, "/policies", name="photos", description="Reads photos", document=POLICY.replace("s3:Get", "s3-Get"))
    page.get_by_role("alert").wait_for(timeout=PATIENCE_MS)
    page.fill("#text", POLICY)
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="photos").wait_for(timeout=PATIENCE_MS)


def hostile(page: Page, demo: Demo) -> None:
    """Stores metadata and a picture that are scripts, and makes a key whose name is one."""
    client = Client(demo.info.endpoint, Credentials(demo.info.access_key, demo.info.secret_key))
    told = [("x-amz-meta-script", "<script>alert(6)</script>"), ("content-type", "image/svg+xml")]
    assert client.put("demo", "picture.svg", SVG, told).status == 200
    page.goto(f"{demo.printed['console']}/keys")
    form = page.locator('form[action="/keys"]').last
    for summary in form.locator("summary").all():
        summary.click()
    send(page, "/keys", name=HOSTILE, id=HOSTILE_KEY, secret="0123456789" * 4)
    page.locator("#made-id").wait_for(timeout=PATIENCE_MS)


def fill(page: Page, demo: Demo) -> None:
    """Uploads a file with a hostile name, as a person does, makes identities, and stages a change of the layout."""
    origin = demo.printed["console"]
    identities(page, origin)
    hostile(page, demo)
    page.goto(f"{origin}/buckets/demo")
    file = {"name": HOSTILE.replace("/", "_"), "mimeType": "text/html", "buffer": b"<script>alert(3)</script>"}
    page.set_input_files("#files", file)
    page.locator("td a", has_text="<img src=x").first.wait_for(timeout=PATIENCE_MS)
    # Browsers replace slashes in names of files; the name with one comes by a request.
    page.evaluate(
        """async ([name, csrf]) => {
            const headers = {"x-console-csrf": csrf};
            await fetch(`/buckets/demo/upload?o=${encodeURIComponent(name)}`, {method: "PUT", headers, body: "x"});
        }""",
        [HOSTILE, page.get_attribute("body", "data-csrf")],
    )
    page.goto(f"{origin}/layout")
    page.fill("#zone", "attic")
    page.fill("#capacity", "200GB")
    page.locator("form:has(#zone) button").click()
    page.get_by_role("button", name="Apply").wait_for(timeout=PATIENCE_MS)


# The attack on a page whose texts are not escaped: an element with a script, and one with a handler.
INJECTED = """() => new Promise((done) => {
    const blocked = [];
    window.ran = 0;
    document.addEventListener("securitypolicyviolation", (event) => {
        blocked.push(event.effectiveDirective);
        if (blocked.length === 2) done({ ran: window.ran, blocked: blocked.sort() });
    });
    const script = document.createElement("script");
    script.textContent = "window.ran += 1";
    const box = document.createElement("div");
    box.innerHTML = '<img src="/nothing" onerror="window.ran += 1">';
    document.body.append(script, box);
})"""


def inject(context: BrowserContext, origin: str, looker: Looker) -> None:
    """Injects scripts into each page behind the console's back: the policy keeps them from running."""
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    for name, path in PAGES.items():
        page.goto(origin + path)
        told = page.evaluate(INJECTED)
        if told != {"ran": 0, "blocked": ["script-src-attr", "script-src-elem"]}:
            looker.wrong.append(f"{name}: an injected script: {told}")
    page.close()


def look(browser: Browser, origin: str, state: dict, looker: Looker) -> None:
    """Opens each page in each look."""
    for scheme, width, height in LOOKS:
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": height}, storage_state=state
        )
        page = context.new_page()
        looker.watch(page)
        for name, path in PAGES.items():
            answer = page.goto(origin + path)
            if answer.status != 200:
                looker.wrong.append(f"{name} ({scheme}, {width}): {answer.status}")
            looker.picture(page, name, scheme, width)
        context.close()


def main() -> None:
    looker = Looker(Path(sys.argv[1]), Path(sys.argv[2]).read_text())
    with tempfile.TemporaryDirectory() as data:
        demo = Demo(Path(data) / "demo")
        demo.start()
        try:
            with chromium() as browser:
                context = browser.new_context()
                page = context.new_page()
                looker.watch(page, refused=True)
                page.goto(demo.printed["console_login"])
                page.wait_for_url("**/cluster", timeout=PATIENCE_MS)
                fill(page, demo)
                inject(context, demo.printed["console"], looker)
                look(browser, demo.printed["console"], context.storage_state(), looker)
        finally:
            demo.stop()
    sys.exit(looker.tell())


if __name__ == "__main__":
    main()
