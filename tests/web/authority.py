"""An authority that gives certificates (pebble), and the DNS server that it asks."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import urllib.request
from pathlib import Path

import pytest
from support import go
from support.projects import TOOLS, made_once
from support.server import free_port, wait_until

PEBBLE = "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1"


def pebble() -> Path:
    """The authority's program, built once."""

    def build(folder: Path) -> None:
        if not shutil.which("go"):
            pytest.skip("missing: go (it builds pebble, the authority of the tests)")
        env = {**os.environ, **go.ENVIRONMENT, "GOBIN": str(folder)}
        done = subprocess.run(["go", "install", PEBBLE], env=env, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr

    return made_once(TOOLS / PEBBLE.rpartition("/")[2], build) / "pebble"


class Authority:
    """Pebble on loopback. It looks for proofs at `tls_port` and `http_port` of the addresses that `names` gives."""

    def __init__(self, folder: Path, names: dict[str, str], tls_port: int, http_port: int):
        self.folder, self.processes = folder, []
        folder.mkdir()
        dns, self.port, self.management = free_port(), free_port(), free_port()
        chain, key = self._certificate()
        self.ca_file = chain
        known = [f"--address=/{name}/{address}" for name, address in names.items()]
        self._start(
            "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--pid-file=",
            "--listen-address=127.0.0.1", "--bind-interfaces", f"--port={dns}", "--log-facility=-", *known,
        )  # fmt: skip
        config = folder / "pebble.json"
        settings = {
            "listenAddress": f"127.0.0.1:{self.port}",
            "managementListenAddress": f"127.0.0.1:{self.management}",
            "certificate": str(chain),
            "privateKey": str(key),
            "httpPort": http_port,
            "tlsPort": tls_port,
        }
        config.write_text(json.dumps({"pebble": settings}))
        self._start(str(pebble()), "-strict", "-config", str(config), "-dnsserver", f"127.0.0.1:{dns}")
        self.roots = folder / "roots.pem"
        assert wait_until(self._read_roots, 30), self.log()

    def settings(self, domains: list[str], **more: str) -> str:
        """The section [acme] of a node."""
        lines = [f"domains = {json.dumps(domains)}", "accept_terms = true", 'contact = "admin@example.test"']
        lines += [f'directory = "https://localhost:{self.port}/dir"', f'ca_file = "{self.ca_file}"']
        lines += [f"{name} = {json.dumps(value)}" for name, value in more.items()]
        return "\n[acme]\n" + "\n".join(lines) + "\n"

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
            process.wait()

    def _start(self, *command: str) -> None:
        env = {**os.environ, "PEBBLE_VA_NOSLEEP": "1"}
        with open(self.folder / "log", "ab") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=env, stdin=subprocess.DEVNULL))

    def _certificate(self) -> tuple[Path, Path]:
        """The authority's own certificate, which is none of an authority."""
        chain, key = self.folder / "own.pem", self.folder / "own.key"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        command += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        command += ["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", chain]
        subprocess.run(command, check=True, capture_output=True)
        return chain, key

    def _read_roots(self) -> bool:
        """Reads the certificate that clients trust."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        try:
            url = f"https://localhost:{self.management}/roots/0"
            with urllib.request.urlopen(url, context=context, timeout=5) as answer:
                self.roots.write_bytes(answer.read())
        except OSError:
            return False
        return True
