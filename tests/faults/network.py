"""A network of its own for every node: namespaces on a bridge, with packet filters for cuts and loss.

All of it, processes too, lives in namespaces that end with this process (`enter`), whatever happens to it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

INSIDE = "ARCHIPEL_FAULTS_INSIDE"
NET = "10.77.0"
CLIENTS = f"{NET}.254"
UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def why_not() -> str | None:
    """Returns what this machine does not permit, or None."""
    missing = [name for name in ("ip", "nft", "unshare", "nsenter") if not shutil.which(name, path=_path())]
    if missing:
        return f"missing: {', '.join(missing)} (apt-get install iproute2 nftables util-linux)"
    probe = f"mount -t tmpfs none /run && ip link add br0 type bridge && {_nft_probe()}"
    done = subprocess.run(
        [*UNSHARE, "sh", "-c", probe], capture_output=True, env={**os.environ, "PATH": _path()}, timeout=60
    )
    return None if done.returncode == 0 else f"no network namespaces or packet filters: {done.stderr.decode().strip()}"


def _nft_probe() -> str:
    return "nft 'add table ip t; add chain ip t c; add rule ip t c numgen random mod 1000 < 5 drop'"


def _path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def entered() -> bool:
    """This process is in namespaces of its own."""
    return bool(os.environ.get(INSIDE))


def enter() -> None:
    """Runs this program again in namespaces of its own, unless it is there."""
    os.environ["PATH"] = _path()
    if entered():
        return
    os.environ[INSIDE] = "1"
    os.execvp(UNSHARE[0], [*UNSHARE, sys.executable, *sys.argv])


_networks: dict[int, "Network"] = {}


def shared(nodes: int) -> "Network":
    """The one network of this process, without cuts."""
    if nodes not in _networks:
        _networks[nodes] = Network(nodes)
    _networks[nodes].end_all_cuts()
    return _networks[nodes]


class Network:
    """One address per node, `10.77.0.1` and on; the clients are at `.254`, and never cut off."""

    def __init__(self, nodes: int):
        self.nodes = nodes
        self.drops: dict[tuple[int, int], float] = {}
        self.lock = threading.Lock()
        _run("mount", "-t", "tmpfs", "none", "/run")
        Path("/run/netns").mkdir()
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "br0", "type", "bridge")
        _run("ip", "addr", "add", f"{CLIENTS}/24", "dev", "br0")
        _run("ip", "link", "set", "br0", "up")
        for node in range(nodes):
            self._add(node)

    def _add(self, node: int) -> None:
        name = f"n{node}"
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", f"veth{node}", "type", "veth", "peer", "name", "eth0", "netns", name)
        _run("ip", "link", "set", f"veth{node}", "master", "br0", "up")
        _run("ip", "-n", name, "addr", "add", f"{self.address(node)}/24", "dev", "eth0")
        for link in ("eth0", "lo"):
            _run("ip", "-n", name, "link", "set", link, "up")
        self._apply(node)

    def address(self, node: int) -> str:
        return f"{NET}.{node + 1}"

    def command(self, node: int, command: list[str]) -> list[str]:
        """`command` in the node's network; the process stays the same one."""
        return ["nsenter", f"--net=/run/netns/n{node}", *command]

    def cut(self, source: int, target: int) -> None:
        """Keeps all that `source` sends from `target`; the other way is not touched."""
        self.lose(source, target, 1.0)

    def lose(self, source: int, target: int, share: float) -> None:
        """Of the packets from `source` to `target`, this share is lost."""
        self.drops[source, target] = share
        self._apply(target)

    def end_cut(self, source: int, target: int) -> None:
        self.drops.pop((source, target), None)
        self._apply(target)

    def end_all_cuts(self) -> None:
        self.drops.clear()
        for node in range(self.nodes):
            self._apply(node)

    def isolate(self, node: int) -> None:
        """Cuts a node off from all others, both ways."""
        for other in range(self.nodes):
            if other != node:
                self.cut(node, other)
                self.cut(other, node)

    def join(self, node: int) -> None:
        """Undoes `isolate`."""
        for other in range(self.nodes):
            if other != node:
                self.end_cut(node, other)
                self.end_cut(other, node)

    def _apply(self, target: int) -> None:
        """Replaces the rules at the receiving end, at once."""
        with self.lock:
            self._replace(target)

    def _replace(self, target: int) -> None:
        rules = "".join(
            f"ip saddr {self.address(source)} {chance(share)} drop\n"
            for (source, to), share in sorted(self.drops.items())
            if to == target
        )
        text = (
            "table ip faults\ndelete table ip faults\n"
            f"table ip faults {{\nchain input {{\ntype filter hook input priority 0;\n{rules}}}\n}}\n"
        )
        done = subprocess.run(self.command(target, ["nft", "-f", "-"]), input=text.encode(), capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"nft: {done.stderr.decode()}")


def chance(share: float) -> str:
    """The filter's words for this share of the packets."""
    return "" if share >= 1 else f"numgen random mod 1000 < {round(share * 1000)}"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.decode().strip()}")
