"""The command line, run against a node of a demo."""

from __future__ import annotations

import os
import subprocess

from support.server import binary


def run(demo, line: str, *more: str, given: str | None = None, node: int = 0) -> subprocess.CompletedProcess:
    """Runs `archipel LINE MORE...` against a node, with `given` on its standard input."""
    command = [str(binary()), *line.split(), *more, "--socket", demo.nodes[node]["admin"]]
    env = {name: value for name, value in os.environ.items() if not name.startswith("ARCHIPEL_")}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, input=given)
