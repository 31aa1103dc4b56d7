"""The web console of a node, over HTTP, as a browser uses it."""

from __future__ import annotations

import html
import json
import re
import urllib.request
from urllib.parse import quote

import pytest
from botocore.exceptions import ClientError
from support.boto import boto
from support.browser import Browser
from support.server import wait_until

HOSTILE = "<img src=x onerror=alert(1)>\"'&/<script>alert(2)</script> é+%.html"
PAGES = (
    "/cluster",
    "/buckets",
    "/buckets/demo",
    "/buckets/demo/settings",
    "/keys",
    "/users",
    "/groups",
    "/roles",
    "/policies",
    "/tokens",
    "/layout",
    "/activity",
    "/audit",
)


def test_demo_prints_the_console_and_a_link(ready):
    assert ready["console"].startswith("http://127.0.0.1:")
    assert ready["console_login"].startswith(ready["console"] + "/login#archipel_")
    browser = Browser(ready["console"])
    assert browser.follow(ready["console_login"]).status == 303
    assert "zone" in browser.get("/cluster").text.lower()


def test_link_counts_once(ready, link):
    assert Browser(ready["console"]).follow(link).status == 303
    again = Browser(ready["console"])
    assert again.follow(link).status == 401
    assert again.cookies == {}


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_for_those_who_are_logged_in(ready, browser, path):
    page = browser.ask("GET", path)
    assert page.status == 200
    policy = page.headers["content-security-policy"]
    assert "script-src 'self'" in policy and "unsafe" not in policy
    stranger = Browser(ready["console"]).ask("GET", path)
    assert (stranger.status, stranger.headers["location"]) == (303, "/login")


def test_logout_ends_the_session(browser):
    cookies = dict(browser.cookies)
    assert browser.send("/logout").status == 303
    browser.cookies = cookies
    assert browser.ask("GET", "/cluster").status == 303


def test_forged_changes_are_refused(browser):
    for csrf in ("", "0" * 64):
        assert browser.send("/buckets", csrf=csrf, name="forged").status == 403
    assert browser.ask("PUT", "/buckets/demo/upload?o=forged", b"x").status == 403
    good = {"x-console-csrf": browser.csrf()}
    foreign = {**good, "sec-fetch-site": "cross-site"}
    assert browser.ask("PUT", "/buckets/demo/upload?o=forged", b"x", foreign).status == 403
    assert "forged" not in browser.get("/buckets").text + browser.get("/buckets/demo").text


def test_forms_are_taken_over_plain_http_from_another_machine(ready):
    """Browsers send the origin of the page with a form, unless the page's policy keeps it back."""
    browser = Browser(ready["console"])
    policy = browser.get("/login").headers["referrer-policy"]
    own = "null" if policy == "no-referrer" else "http://console.example:3905"
    for origin, status in ((own, 401), ("null", 403), ("http://other.example:3905", 403)):
        # Nothing else says which page sent it: `Sec-Fetch-Site` comes only over TLS and on the machine itself.
        headers = {"host": "console.example:3905", "origin": origin, "content-type": "application/x-www-form-urlencoded"}
        assert browser.ask("POST", "/login", b"token=unknown", headers).status == status, origin


def test_objects_whose_names_differ_in_line_ends_are_not_mistaken_for_each_other(browser):
    names = [quote(f"line{end}end", safe="") for end in ("\r", "\n", "\r\n")]
    headers = {"x-console-csrf": browser.csrf()}
    for name in names:
        assert browser.ask("PUT", f"/buckets/demo/upload?o={name}", b"x", headers).status == 204
    for at, name in enumerate(names):
        page = browser.get(f"/buckets/demo/object?o={name}").text
        field = html.unescape(re.search(r'name="o" value="([^"]*)"', page).group(1))
        # Browsers write every line end of a field so.
        sent = re.sub("\r\n|\r|\n", "\r\n", field)
        assert browser.send("/buckets/demo/delete", o=sent).status == 303
        left = [browser.get(f"/buckets/demo/object?o={other}").status for other in names]
        assert left == [404] * (at + 1) + [200] * (len(names) - at - 1)


def test_objects_are_uploaded_shown_downloaded_shared_and_deleted(browser, ready):
    content = bytes(range(256)) * 8192  # two blocks
    name = quote(HOSTILE, safe="")
    headers = {"x-console-csrf": browser.csrf(), "content-type": "text/html"}
    stored = browser.ask("PUT", f"/buckets/demo/upload?o={name}", content, headers)
    assert stored.status == 204, stored.text
    folder = quote(HOSTILE.partition("/")[0] + "/", safe="")
    for path in ("/buckets/demo", f"/buckets/demo?prefix={folder}", f"/buckets/demo/object?o={name}"):
        page = browser.get(path)
        assert page.status == 200
        assert "<img" not in page.text and "<script>" not in page.text
    loaded = browser.ask("GET", f"/buckets/demo/download?o={name}")
    assert loaded.body == content
    assert loaded.headers["content-disposition"].startswith("attachment;")
    assert "sandbox" in loaded.headers["content-security-policy"]
    shared = browser.send("/buckets/demo/share", o=name, seconds="3600")
    link = html.unescape(re.search(r"<textarea[^>]*>([^<]+)</textarea>", shared.text).group(1))
    assert link.startswith(ready["endpoint"] + "/demo/")
    with urllib.request.urlopen(link, timeout=60) as answer:
        assert answer.read() == content
    assert browser.send("/buckets/demo/delete", o=name).status == 303
    assert browser.get(f"/buckets/demo/object?o={name}").status == 404


def test_buckets_are_created_and_deleted(browser, ready):
    made = browser.send("/buckets", name="from-the-console", owner=ready["access_key"])
    assert made.headers["location"] == "/buckets/from-the-console"
    assert "from-the-console" in browser.get("/buckets").text
    refused = browser.send("/buckets", name="from-the-console")
    assert refused.status == 409
    assert browser.send("/buckets/from-the-console/delete-bucket").status == 303
    assert "from-the-console" not in browser.get("/buckets").text


def test_longest_name_is_shown(browser):
    name = quote("é" * 512, safe="")
    headers = {"x-console-csrf": browser.csrf()}
    assert browser.ask("PUT", f"/buckets/demo/upload?o={name}", b"x", headers).status == 204
    assert browser.get(f"/buckets/demo/object?o={name}").status == 200
    assert browser.send("/buckets/demo/delete", o=name).status == 303


def test_key_made_in_the_console_works_until_it_is_disabled(browser, ready):
    made = browser.send("/keys", name="from the console").text
    key, secret = (re.search(rf'id="made-{part}"[^>]* value="([^"]+)"', made).group(1) for part in ("id", "secret"))
    grant = browser.send("/buckets/demo/settings", change="grant", key=key, read="on", write="on")
    assert grant.status == 303
    client = boto("s3", ready["endpoint"], key, secret)
    client.put_object(Bucket="demo", Key="by-the-new-key", Body=b"x")
    assert secret not in browser.get(f"/keys/{key}").text
    assert browser.send(f"/keys/{key}", change="disable").status == 303
    with pytest.raises(ClientError):
        client.put_object(Bucket="demo", Key="by-the-new-key", Body=b"y")
    assert browser.send("/buckets/demo/delete", o="by-the-new-key").status == 303
    assert browser.send(f"/keys/{key}", change="delete").status == 303


def test_layout_change_is_staged_previewed_applied_and_followed(browser):
    node = re.search(r'name="node" value="([0-9a-f]{64})"', browser.get("/layout").text).group(1)
    assert browser.send("/layout", change="assign", node=node, zone="attic", capacity="50GB").status == 303
    page = browser.get("/layout").text
    assert "zone attic, 46.6 GiB" in page
    version, revision = (re.search(rf'name="{part}" value="([0-9]+)"', page).group(1) for part in ("version", "revision"))
    stale = browser.send("/layout", change="apply", version=version, revision=str(int(revision) + 1))
    assert stale.status == 409
    assert browser.send("/layout", change="apply", version=version, revision=revision).status == 303
    assert wait_until(lambda: "No data moves now" in browser.get("/layout/live").text, 60)
    assert f"In force: version {version}" in browser.get("/layout").text


def test_cluster_tells_the_disks_of_each_node(browser):
    page = browser.get("/cluster?wait=yes").text
    assert re.search(r"<dt>Disks</dt>.*In use of the disks of [0-9a-f]{8}.*free", page)


def test_denied_request_leads_from_the_audit_log_to_the_reason(browser, ready):
    made = browser.send("/keys", name="without rights").text
    key, secret = (re.search(rf'id="made-{part}"[^>]* value="([^"]+)"', made).group(1) for part in ("id", "secret"))
    client = boto("s3", ready["endpoint"], key, secret)
    with pytest.raises(ClientError):
        client.get_object(Bucket="demo", Key=HOSTILE)
    assert wait_until(lambda: f">{key}<" in browser.get("/audit?decision=denied").text)
    page = browser.get(f"/audit?who={key}&key=onerror").text
    assert "<img" not in page and "<script>" not in page
    why = html.unescape(re.search(r'href="(/access\?[^"]+)"', page).group(1))
    answer = browser.get(why).text
    assert "Denied" in answer and "s3:GetObject" in answer
    assert browser.send(f"/keys/{key}", change="delete").status == 303


def test_user_gets_a_quota_in_the_console(browser):
    assert browser.send("/users", name="anna").status == 303
    assert browser.send("/users/anna", change="quota", bytes="20GB", objects="").status == 303
    assert "0 % of the bytes" in browser.get("/users/anna").text
    assert browser.send("/users/anna", change="quota", bytes="", objects="").status == 303
    assert browser.send("/users/anna", change="delete").status == 303


def test_charts_get_counters_that_grow(browser, ready):
    before = json.loads(browser.get("/activity/data").text)
    browser.get("/buckets/demo")
    after = json.loads(browser.get("/activity/data").text)
    assert after["requests"] > before["requests"]


def test_verification_is_started_and_its_end_shown(browser):
    assert browser.send("/activity", change="verify").status == 303
    assert wait_until(lambda: "found 0 problems" in browser.get("/activity").text, 60)
