"""The web console of a node, over HTTP, as a browser uses it."""

from __future__ import annotations

import html
import re
import urllib.request
from urllib.parse import quote

import pytest
from support.browser import Browser

HOSTILE = "<img src=x onerror=alert(1)>\"'&/<script>alert(2)</script> é+%.html"
PAGES = ("/cluster", "/buckets", "/buckets/demo", "/buckets/demo/settings")


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
    shared = browser.send("/buckets/demo/share", o=HOSTILE, seconds="3600")
    link = html.unescape(re.search(r"<textarea[^>]*>([^<]+)</textarea>", shared.text).group(1))
    assert link.startswith(ready["endpoint"] + "/demo/")
    with urllib.request.urlopen(link, timeout=60) as answer:
        assert answer.read() == content
    assert browser.send("/buckets/demo/delete", o=HOSTILE).status == 303
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
    assert browser.send("/buckets/demo/delete", o="é" * 512).status == 303
