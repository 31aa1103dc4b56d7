"""Every page of the console in Chromium: pictures to look at, accessibility, and no message on the browser's console.

`cargo xtask console-pages` runs it: python pages.py FOLDER AXE, with the program in $ARCHIPEL_BIN. FOLDER gets the pictures.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.server import Demo  # noqa: E402

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>.html"
PAGES = {
    "login": "/login",
    "cluster": "/cluster",
    "buckets": "/buckets",
    "objects": "/buckets/demo",
    "object": f"/buckets/demo/object?o={quote(HOSTILE, safe='')}",
    "settings": "/buckets/demo/settings",
    "keys": "/keys",
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
}
LOOKS = (("light", 1280, 900), ("dark", 1280, 900), ("light", 390, 844), ("dark", 390, 844))
# What Chromium may take for one page, in milliseconds.
PATIENCE_MS = 30_000


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


def fill(page: Page, origin: str) -> None:
    """Uploads a file with a hostile name, as a person does, makes identities, and stages a change of the layout."""
    identities(page, origin)
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


def look(browser: Browser, origin: str, state: dict, folder: Path, axe: str) -> list[str]:
    """Takes the pictures, and returns what is wrong."""
    wrong = []
    for scheme, width, height in LOOKS:
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": height}, storage_state=state
        )
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("dialog", lambda dialog: (wrong.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda error: wrong.append(f"an error: {error}"))
        page.on("console", lambda message: wrong.append(f"a message: {message.text}") if message.type == "error" else None)
        for name, path in PAGES.items():
            answer = page.goto(origin + path)
            here = f"{name} ({scheme}, {width})"
            if answer.status != 200:
                wrong.append(f"{here}: {answer.status}")
            page.screenshot(path=folder / f"{name}-{scheme}-{width}.png", full_page=True)
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wrong.append(f"{here}: wider than the window")
            page.evaluate(axe)
            found = page.evaluate("axe.run()")["violations"]
            wrong += [f"{here}: {v['id']} ({v['impact']}): {v['nodes'][0]['html']}" for v in found]
        context.close()
    return wrong


def main() -> None:
    folder, axe = Path(sys.argv[1]), Path(sys.argv[2]).read_text()
    with tempfile.TemporaryDirectory() as data:
        demo = Demo(Path(data) / "demo")
        demo.start()
        try:
            with sync_playwright() as playwright:
                arguments = ["--no-sandbox"]  # it opens nothing but the demo, and root needs this
                browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
                context = browser.new_context()
                page = context.new_page()
                page.goto(demo.printed["console_login"])
                page.wait_for_url("**/cluster", timeout=PATIENCE_MS)
                fill(page, demo.printed["console"])
                wrong = look(browser, demo.printed["console"], context.storage_state(), folder, axe)
                browser.close()
        finally:
            demo.stop()
    for line in wrong:
        print(line)
    print(f"{len(PAGES) * len(LOOKS)} pictures in {folder}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
