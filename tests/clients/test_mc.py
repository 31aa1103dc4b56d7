"""mc, the command line of MinIO: `mc watch`."""

import json
import shutil
import subprocess
import threading

import pytest


@pytest.fixture
def mc(server, tmp_path):
    """The command, and its environment with the server as `here`."""
    found = shutil.which("mc")
    shown = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=60).stdout if found else ""
    if "minio" not in shown.lower():
        pytest.skip("mc of MinIO is not installed")
    scheme, address = server.endpoint.split("://")
    host = f"{scheme}://{server.access_key}:{server.secret_key}@{address}"
    return found, {"MC_HOST_here": host, "MC_CONFIG_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize("watched", ["bucket", "all"])
def test_watch_shows_changes(s3, bucket, mc, watched):
    command, environment = mc
    target = f"here/{bucket}" if watched == "bucket" else "here/"
    watching = subprocess.Popen(
        [command, "watch", "--json", "--suffix", ".jpg", target], env=environment, stdout=subprocess.PIPE, text=True
    )
    stop = threading.Event()

    def write() -> None:
        while not stop.wait(0.2):
            s3.put_object(Bucket=bucket, Key="photos/a b.jpg", Body=b"12")

    writer = threading.Thread(target=write)
    writer.start()
    ends = threading.Timer(60, watching.kill)
    ends.start()
    try:
        document = ""
        while not document.endswith("}\n") or document.count("{") != document.count("}"):
            line = watching.stdout.readline()
            assert line, f"it ended: {document}"
            document += line
    finally:
        stop.set()
        writer.join()
        ends.cancel()
        watching.kill()
        watching.wait()
    event = json.loads(document)["events"]
    assert (event["size"], event["type"]) == (2, "s3:ObjectCreated:Put")
    assert event["path"].endswith(f"/{bucket}/photos/a%20b.jpg") or event["path"].endswith(f"/{bucket}/photos/a b.jpg")
