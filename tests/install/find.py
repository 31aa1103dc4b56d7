"""Three machines that find each other by DNS and become one store: `find.py dns|srv FOLDER`.

Each is in a network namespace of its own. The DNS server, dnsmasq, is in the namespace of the clients.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults import network  # noqa: E402
from install.nodes import Group, get, health, put, shown  # noqa: E402
from support.server import wait_until  # noqa: E402

NAME = "nodes.example.test"
SOURCES = {"dns": f"dns://{NAME}:3901", "srv": "srv://_archipel._udp.example.test"}


class Dns:
    """dnsmasq with the names of these machines."""

    def __init__(self, folder: Path, net: network.Network):
        self.hosts, self.net = folder / "hosts", net
        self.hosts.write_text("")
        self.hosts.chmod(0o644)
        services = [f"--srv-host=_archipel._udp.example.test,m{n}.example.test,3901" for n in range(net.nodes)]
        with open(folder / "dnsmasq.log", "wb") as log:
            self.process = subprocess.Popen(
                [
                    "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=root",
                    f"--listen-address={network.CLIENTS}", "--bind-interfaces", "--pid-file=", "--log-queries",
                    "--log-facility=-", "--domain-needed", "--local=/example.test/", f"--addn-hosts={self.hosts}", *services,
                ],
                stdout=log,
                stderr=log,
            )  # fmt: skip
        resolv = folder / "resolv.conf"
        resolv.write_text(f"nameserver {network.CLIENTS}\noptions timeout:1 attempts:2\n")
        subprocess.run(["mount", "--bind", resolv, "/etc/resolv.conf"], check=True)

    def tell(self, machines: list[int]) -> None:
        """From now on it knows these machines and no others."""
        names = [f"{self.net.address(n)} {NAME} m{n}.example.test\n" for n in machines]
        self.hosts.write_text("".join(names))
        self.process.send_signal(1)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def main(kind: str, folder: Path) -> None:
    network.enter()
    net = network.Network(3)
    dns = Dns(folder, net)
    nodes = Group(folder / "nodes", net, f'discover = ["{SOURCES[kind]}"]', 3)
    try:
        # The third is not there yet: it would find the two at once, and nobody would be seen to wait.
        first, third = nodes.nodes[:2], nodes.nodes[2]
        for node in first:
            nodes.start(node)
        for node in first:
            nodes.wait_admin(node)
        dns.tell([0, 1])
        for node in first:
            waits = lambda: "2 of 3 nodes are there" in node.log.read_text()  # noqa: E731
            assert wait_until(waits, 60), node.log.read_text()[-1500:]
        dns.tell([0, 1, 2])
        nodes.start(third)
        layouts = nodes.wait_formed(3)
        assert len({shown(layout) for layout in layouts}) == 1
        nodes.wait_first_key()
        assert put(nodes.nodes[1], "k", b"found") == 200
        assert [get(node, "k") for node in nodes.nodes] == [b"found"] * 3
        assert wait_until(lambda: all(health(node, "quorum")[0] == 200 for node in nodes.nodes))
        assert wait_until(lambda: nodes.nodes[2].metric("archipel_discovered_addresses") == 3, 60)
        # Without DNS everything goes on.
        dns.stop()
        assert put(nodes.nodes[2], "later", b"x") == 200
        print("formed and served")
    finally:
        nodes.stop_all()
        dns.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
