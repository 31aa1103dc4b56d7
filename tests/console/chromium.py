"""Chromium in all looks: pictures, the accessibility checker, and what the browser complains of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

LOOKS = (("light", 1280, 900), ("dark", 1280, 900), ("light", 390, 844), ("dark", 390, 844))
# The longest time of Chromium for one step, in milliseconds.
PATIENCE_MS = 60_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"]  # it opens nothing but servers of the tests, and root needs this
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
        try:
            yield browser
        finally:
            browser.close()


class Looker:
    """Takes pictures of pages, and collects what is wrong."""

    def __init__(self, folder: Path, axe: str):
        self.folder, self.axe = folder, axe
        self.wrong: list[str] = []
        self.pictures = 0
        folder.mkdir(parents=True, exist_ok=True)

    def watch(self, page: Page, confirm: bool = False, offline: bool = False, refused: bool = False) -> None:
        """Notes dialogs, errors and messages.

        With `confirm` questions are answered with yes; with `offline` broken connections are meant, with `refused` bad requests.
        """
        meant = ("net::ERR_",) * offline + ("status of 400",) * refused
        page.set_default_timeout(PATIENCE_MS)

        def dialog(shown) -> None:
            if confirm and shown.type in ("confirm", "beforeunload"):
                return shown.accept()
            self.wrong.append(f"a dialog: {shown.message}")
            shown.dismiss()

        def message(told) -> None:
            if told.type == "error" and not any(text in told.text for text in meant):
                self.wrong.append(f"{page.url}: a message: {told.text}")

        page.on("dialog", dialog)
        page.on("pageerror", lambda error: self.wrong.append(f"{page.url}: an error: {error}"))
        page.on("console", message)

    def look(self, page: Page, name: str) -> None:
        """Takes a picture in each look, and asks the accessibility checker."""
        for scheme, width, height in LOOKS:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": height})
            self.picture(page, name, scheme, width)
        scheme, width, height = LOOKS[0]
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": height})

    def picture(self, page: Page, name: str, scheme: str, width: int) -> None:
        """Takes one picture of the page as it is, and asks the accessibility checker."""
        here = f"{name} ({scheme}, {width})"
        page.screenshot(path=self.folder / f"{name}-{scheme}-{width}.png", full_page=True)
        self.pictures += 1
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            self.wrong.append(f"{here}: wider than the window")
        page.evaluate(self.axe)
        found = page.evaluate("axe.run()")["violations"]
        self.wrong += [f"{here}: {v['id']} ({v['impact']}): {v['nodes'][0]['html']}" for v in found]

    def tell(self) -> int:
        """Prints what is wrong, and returns how the program ends."""
        for line in self.wrong:
            print(line)
        print(f"{self.pictures} pictures in {self.folder}")
        return 1 if self.wrong else 0
