"""People's work with the console, in Chromium, on three servers: buckets, uploads over a bad network, links, versions,
nodes, reasons.

`cargo xtask console-walk` runs it: python walk.py FOLDER AXE [--megabytes 100] [--files 500] [--pictures docs/pictures].
FOLDER gets a picture of each step in each look; --pictures those of the documentation.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import struct
import subprocess
import sys
import tempfile
import urllib.request
import zlib
from pathlib import Path

from playwright.sync_api import Browser, Page

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]
from chromium import LOOKS, PATIENCE_MS, Looker, chromium  # noqa: E402
from cluster.loopback import Loopback  # noqa: E402
from dropper import Dropper  # noqa: E402
from faults.cluster import BUCKET as BUCKET_OF_FAULTS  # noqa: E402
from faults.cluster import Cluster  # noqa: E402
from support.client import Client  # noqa: E402
from support.server import binary, wait_until  # noqa: E402
from support.sigv4 import Credentials  # noqa: E402

CONSOLE_PORT = 3905
PART_BYTES = 16 << 20
# The longest time of the steps that move data, in milliseconds.
LONG_MS = 600_000
BUCKET = "holiday"


def photo(side: int = 240) -> bytes:
    """A picture of a sunset, as PNG."""
    rows = b""
    for y in range(side):
        sky = (255 - y // 2, 170 - y // 2, 90 + y // 4)
        row = [(255, 240, 180) if (x - 120) ** 2 + (y - 130) ** 2 < 1600 else sky for x in range(side)]
        rows += b"\0" + bytes(value for pixel in row for value in pixel)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Walk:
    """A person at the console of the first node."""

    def __init__(self, cluster: Cluster, browser: Browser, looker: Looker, options, folder: Path):
        self.cluster, self.looker, self.options, self.folder = cluster, looker, options, folder
        self.browser = browser
        self.node = cluster.nodes[0]
        self.network = Dropper((self.node.address, CONSOLE_PORT))
        self.origin = f"http://127.0.0.1:{self.network.port}"
        self.context = browser.new_context()
        self.page = self.open()
        self.key = ""

    def open(self) -> Page:
        page = self.context.new_page()
        self.looker.watch(page, confirm=True, offline=True)
        return page

    def go(self, place: str) -> None:
        """Follows a link of the menu."""
        self.page.get_by_role("navigation", name="Main").get_by_role("link", name=place, exact=True).click()
        self.page.wait_for_load_state()

    def look(self, name: str, shown: str = "", below: str = "", height: int = 600) -> None:
        """Takes the pictures of a step, and one for the documentation if it has a name there, down to an element."""
        self.looker.look(self.page, name)
        if shown and self.options.pictures:
            self.page.set_viewport_size({"width": 1040, "height": height})
            if below:
                self.page.locator(below).last.scroll_into_view_if_needed()
            self.page.screenshot(path=self.options.pictures / f"{shown}.png")
            self.page.set_viewport_size({"width": LOOKS[0][1], "height": LOOKS[0][2]})

    def wait(self, text: str, timeout: float = PATIENCE_MS) -> None:
        self.page.get_by_text(text).first.wait_for(timeout=timeout)

    def objects(self) -> int:
        return self.node.admin("GET", f"/v1/buckets/{BUCKET}")["objects"]

    def log_in(self) -> None:
        command = [str(binary()), "console", "--data-dir", str(self.node.data)]
        link = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()
        self.page.goto(f"{self.origin}/login#{link.partition('#')[2]}")
        self.page.wait_for_url("**/cluster")

    def make_bucket(self) -> None:
        self.go("Keys")
        self.page.fill("#name", "laptop")
        self.page.locator('form[action="/keys"] button').last.click()
        self.key = self.page.input_value("#made-id")
        self.look("key-made")
        self.go("Buckets")
        self.page.fill("#name", BUCKET)
        self.page.fill("#owner", self.key)
        self.look("bucket-new")
        self.page.get_by_role("button", name="Create").click()
        self.page.get_by_role("heading", name=BUCKET).wait_for()
        self.look("bucket-empty")

    def upload_a_folder(self) -> None:
        """Drops a folder with many files in folders below it."""
        photos = self.folder / "photos"
        for number in range(self.options.files):
            file = photos / f"day-{number % 5 + 1}" / f"{number:04}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"photo {number}\n" * 50)
        box = self.page.locator(".drop").bounding_box()
        session = self.context.new_cdp_session(self.page)
        data = {"items": [], "files": [str(photos)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            place = {"x": box["x"] + 40, "y": box["y"] + 20}
            session.send("Input.dispatchDragEvent", {"type": kind, **place, "data": data})
        self.wait("files stored")
        self.looker.picture(self.page, "folder-goes-up", "light", 1280)
        self.page.get_by_role("link", name="photos/").wait_for(timeout=LONG_MS)
        self.wait(f"{self.options.files} of {self.options.files} files stored")
        assert self.objects() == self.options.files, self.objects()
        self.page.get_by_role("link", name="photos/").click()
        self.page.get_by_role("link", name="day-2/").click()
        self.wait("0001.txt")
        self.look("folder")

    def large_file(self, name: str) -> Path:
        file = self.folder / name
        with file.open("wb") as content:
            for _ in range(self.options.megabytes):
                content.write(os.urandom(1_000_000))
        return file

    def upload_over_a_bad_network(self) -> None:
        """The connection breaks in the middle of a large file; the upload goes on by itself."""
        file = self.large_file("film.mp4")
        size = file.stat().st_size
        self.page.goto(f"{self.origin}/buckets/{BUCKET}")
        before = self.network.passed
        self.network.drop_after(size // 2)
        self.page.set_input_files("#files", file)
        self.wait("tries again", LONG_MS)
        self.look("film-tries-again")
        assert self.network.drops == 1
        self.network.back()
        self.page.get_by_role("link", name="film.mp4").wait_for(timeout=LONG_MS)
        sent = self.network.passed - before
        assert sent < size + 4 * PART_BYTES, f"{sent} bytes for {size}"
        print(f"a file of {size} bytes took {sent} bytes over a connection that broke once")
        self.compare(file)

    def upload_after_a_reload(self) -> None:
        """The page is closed in the middle of a large file; the same file is chosen again."""
        file = self.large_file("concert.mp4")
        size = file.stat().st_size
        first = 5 * PART_BYTES
        assert size > first + PART_BYTES, "more megabytes are needed"
        self.network.drop_after(first)
        self.page.set_input_files("#files", file)
        self.wait("tries again", LONG_MS)
        self.page.close()
        self.network.back()
        self.page = self.open()
        self.page.goto(f"{self.origin}/buckets/{BUCKET}")
        self.wait("concert.mp4 is not complete")
        self.look("film-incomplete")
        before = self.network.passed
        self.page.set_input_files("#files", file)
        self.page.get_by_role("link", name="concert.mp4").wait_for(timeout=LONG_MS)
        sent = self.network.passed - before
        assert sent < size - PART_BYTES, f"{sent} bytes for {size}"
        print(f"the rest of a file of {size} bytes took {sent} bytes after a reload")
        self.compare(file)

    def link(self) -> str:
        """Makes a link for others on the page of an object."""
        self.page.get_by_role("button", name="Make a link").click()
        return self.page.get_by_label("Link", exact=True).input_value()

    def compare(self, file: Path) -> None:
        """Checks that a link gives what was uploaded."""
        self.page.get_by_role("link", name=file.name).click()
        digest = hashlib.sha256()
        with urllib.request.urlopen(self.link(), timeout=600) as answer:
            while piece := answer.read(1 << 20):
                digest.update(piece)
        assert digest.digest() == hashlib.sha256(file.read_bytes()).digest(), file.name
        self.page.goto(f"{self.origin}/buckets/{BUCKET}")

    def share(self) -> None:
        file = self.folder / "sunset.png"
        file.write_bytes(photo())
        self.page.set_input_files("#files", file)
        self.page.get_by_role("link", name="sunset.png").click()
        link = self.link()
        self.look("shared", shown="shared", below="#seconds")
        stranger = self.browser.new_context()
        page = stranger.new_page()
        answer = page.goto(link)
        assert answer.status == 200 and answer.body() == photo()
        page.screenshot(path=self.looker.folder / "shared-stranger.png")
        wrong = page.goto(link.replace("sunset", "film"))
        assert wrong.status == 403
        stranger.close()

    def restore(self) -> None:
        """An older version becomes the current one again."""
        self.page.goto(f"{self.origin}/buckets/{BUCKET}/rules")
        self.page.get_by_role("button", name="Keep versions").click()
        self.page.get_by_role("button", name="Keep no new versions").wait_for()
        self.look("rules")
        for text in ("the first text\n", "spoilt\n"):
            self.page.goto(f"{self.origin}/buckets/{BUCKET}")
            before = self.objects()
            diary = {"name": "diary.txt", "mimeType": "text/plain", "buffer": text.encode()}
            self.page.set_input_files("#files", diary)
            assert wait_until(lambda: self.objects() > before, 60)
            self.wait("1 of 1 files stored")
        self.page.get_by_role("link", name="diary.txt").click()
        self.page.get_by_text("spoilt").wait_for()
        self.page.get_by_role("link", name="Versions and protection").click()
        self.look("versions")
        self.page.locator("tr", has_text="older").get_by_role("button", name="Restore").click()
        self.page.get_by_role("link", name="The current version").click()
        self.page.get_by_text("the first text").wait_for()
        self.look("restored")

    def lay_out(self, name: str, shown: str = "") -> None:
        """Looks at what is staged, applies it, and follows it to its end."""
        self.page.get_by_role("button", name="Apply").wait_for()
        self.look(f"{name}-staged", shown=shown, height=530)
        self.page.get_by_role("button", name="Apply").click()
        self.page.get_by_text("In force: version").wait_for()
        self.looker.picture(self.page, f"{name}-moves", "light", 1280)
        self.page.get_by_text("No data moves now").wait_for(timeout=LONG_MS)
        # The layout in force may have been shown before the end.
        assert wait_until(lambda: self.node.admin("GET", "/v1/layout")["progress"] is None, 60)
        self.page.reload()

    def add_a_node(self) -> None:
        third = self.cluster.nodes[2].id[:8]
        self.go("Cluster")
        self.page.get_by_role("button", name=f"Dismiss {third}").click()
        self.page.get_by_role("button", name=f"Admit {third}").click()
        self.page.get_by_role("button", name=f"Dismiss {third}").wait_for()
        self.page.get_by_role("link", name="Give it a part in the layout").click()
        self.page.select_option("#node", self.cluster.nodes[2].id)
        self.page.fill("#zone", "zone2")
        self.page.fill("#capacity", "100GB")
        self.page.get_by_role("button", name="Stage", exact=True).first.click()
        self.lay_out("layout", shown="layout")
        assert len(self.node.admin("GET", "/v1/layout")["nodes"]) == 3
        self.go("Cluster")
        self.look("cluster", shown="cluster")

    def drain_a_node(self) -> None:
        third = self.cluster.nodes[2].id[:8]
        self.go("Layout")
        self.page.get_by_role("button", name=f"Stage its removal: {third}").click()
        self.lay_out("drain")
        left = [node["id"] for node in self.node.admin("GET", "/v1/layout")["nodes"]]
        assert self.cluster.nodes[2].id not in left and len(left) == 2
        assert wait_until(lambda: self.objects() > 500 or self.options.files < 500, 10)
        self.go("Cluster")
        self.look("drained")

    def ask_why(self) -> None:
        """A user is denied a request; the audit log leads to the reason."""
        self.go("Users")
        self.page.fill("#name", "guest")
        self.page.get_by_role("button", name="Create").click()
        self.page.fill("#bytes", "20GB")
        self.page.get_by_role("button", name="Save").click()
        self.wait("0 % of the bytes")
        self.look("user")
        self.page.get_by_role("button", name="New key").click()
        key, secret = self.page.input_value("#made-id"), self.page.input_value("#made-secret")
        guest = Client(self.node.endpoint, Credentials(key, secret))
        assert wait_until(lambda: guest.get(BUCKET, "diary.txt").status == 403, 60)
        self.go("Audit")
        self.look("audit", shown="audit")
        self.page.select_option("#decision", "denied")
        self.page.fill("#who", key)
        self.page.get_by_role("button", name="Show").click()
        self.look("audit-denied")
        self.page.get_by_role("link", name="Why was GetObject").first.click()
        self.wait("Denied")
        self.look("why")

    def by_keyboard(self) -> None:
        """Makes a bucket without a mouse."""
        self.go("Buckets")
        self.page.keyboard.press("Tab")
        assert self.page.evaluate("document.activeElement.className") == "skip"
        self.page.keyboard.press("Enter")
        for _ in range(60):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("document.activeElement.id") == "name":
                break
        self.page.keyboard.type("by-keyboard")
        self.look("keyboard")
        self.page.keyboard.press("Enter")
        self.page.get_by_role("heading", name="by-keyboard").wait_for()

    def watch_and_verify(self) -> None:
        """The charts move, and a verification finds nothing."""
        self.go("Activity")
        self.page.get_by_role("button", name="Verify").click()
        assert wait_until(lambda: self.page.reload() and self.page.get_by_text("found 0 problems").count(), 300, 2)
        client = Client(self.node.endpoint, self.cluster.credentials, keep_alive=True)
        sizes = [10_000 * (2 + number % 7) for number in range(20)]

        def is_drawn() -> bool:
            for number, size in enumerate(sizes):
                client.put(BUCKET_OF_FAULTS, f"load/{number}", bytes(size))
                client.get(BUCKET_OF_FAULTS, f"load/{number}")
            return self.page.evaluate("document.querySelectorAll('polyline')[0].points.length > 20")

        assert wait_until(is_drawn, 180)
        self.look("activity", shown="activity")


STEPS = (
    Walk.log_in,
    Walk.make_bucket,
    Walk.upload_a_folder,
    Walk.upload_over_a_bad_network,
    Walk.upload_after_a_reload,
    Walk.share,
    Walk.restore,
    Walk.add_a_node,
    Walk.drain_a_node,
    Walk.ask_why,
    Walk.by_keyboard,
    Walk.watch_and_verify,
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("axe", type=Path)
    parser.add_argument("--megabytes", type=int, default=120, help="size of each large file")
    parser.add_argument("--files", type=int, default=500, help="files in the folder")
    parser.add_argument("--pictures", type=Path, help="a folder for the pictures of the documentation")
    options = parser.parse_args()
    looker = Looker(options.folder, options.axe.read_text())
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        cluster = Cluster(Path(folder) / "cluster", Loopback(3), members=2)
        for node in cluster.nodes:
            with (node.folder / "archipel.toml").open("a") as settings:
                settings.write(f'[console]\nlisten = "{node.address}:{CONSOLE_PORT}"\n')
        try:
            cluster.form()
            walk = Walk(cluster, browser, looker, options, Path(folder))
            for step in STEPS:
                try:
                    step(walk)
                except Exception:
                    walk.page.screenshot(path=options.folder / "stuck.png", full_page=True)
                    raise
                print(f"{step.__name__.replace('_', ' ')}: done", flush=True)
        finally:
            cluster.stop_all()
    sys.exit(looker.tell())


if __name__ == "__main__":
    main()
