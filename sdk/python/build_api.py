"""Makes the generated part of the package from the OpenAPI document, whenever the package is built.

The document is the repository's `docs/openapi.json`, so the package cannot lag behind it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
PACKAGE = HERE / "src/archipel_admin"

CONFIG = {
    "package_name_override": "archipel_admin",
    "post_hooks": [],
    "content_type_overrides": {"application/openmetrics-text; version=1.0.0; charset=utf-8": "text/plain"},
}


def document() -> Path:
    """The document: beside this file in a source package, else that of the repository."""
    for path in (HERE / "openapi.json", HERE.parents[1] / "docs/openapi.json"):
        if path.exists():
            return path
    raise FileNotFoundError("openapi.json")


def generate() -> None:
    """Writes `api/`, `models/`, `client.py`, `errors.py` and `types.py` into the package."""
    with tempfile.TemporaryDirectory() as folder:
        made, config = Path(folder) / "made", Path(folder) / "config.json"
        config.write_text(json.dumps(CONFIG))
        command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning"]
        command += ["--path", str(document()), "--config", str(config), "--output-path", str(made)]
        subprocess.run(command, check=True)
        for part in ("api", "models"):
            shutil.rmtree(PACKAGE / part, ignore_errors=True)
            shutil.copytree(made / part, PACKAGE / part)
        for part in ("client.py", "errors.py", "types.py"):
            shutil.copyfile(made / part, PACKAGE / part)


class CustomBuildHook(BuildHookInterface):
    """The hook that hatchling calls before it builds."""

    def initialize(self, version: str, build_data: dict) -> None:
        generate()
