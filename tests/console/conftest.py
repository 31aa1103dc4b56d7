"""A node with a console, and a browser that is logged in."""

from __future__ import annotations

import subprocess

import pytest
from support.browser import Browser
from support.server import Demo, binary
from support.unchanged import watched


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """A node with a console. The output for scripts names it and a link."""
    demo = Demo(tmp_path_factory.mktemp("console") / "data")
    watched.share(demo.start().sockets(), "demo")
    yield demo
    demo.stop()


@pytest.fixture(scope="session")
def ready(demo) -> dict:
    """The output of `archipel demo --json`."""
    return demo.printed


@pytest.fixture
def link(demo, ready) -> str:
    """A fresh login link."""
    command = [str(binary()), "console", "--data-dir", ready["nodes"][0]["dir"]]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


@pytest.fixture
def browser(ready, link) -> Browser:
    """A browser that is logged in."""
    browser = Browser(ready["console"])
    assert browser.follow(link).status == 303
    return browser
