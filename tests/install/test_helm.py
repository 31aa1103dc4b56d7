"""The Helm chart: its templates rendered as Helm does, and a node that starts with the settings of its pods.

Helm itself is in no package registry of Debian or Python. `render/` has Go's templates, which are Helm's, and the functions
that the chart uses.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from support import go
from support.server import binary

CHART = Path(__file__).resolve().parents[2] / "packaging/helm/archipel"
RENDERER = Path(__file__).with_name("render")
USUAL = {"existingSecret": "the-secret"}


@pytest.fixture(scope="module")
def renderer(tmp_path_factory) -> Path:
    if not shutil.which("go"):
        pytest.skip("missing: go (apt-get install golang-go)")
    folder = tmp_path_factory.mktemp("render")
    command = ["go", "build", "-o", str(folder / "render"), "."]
    env = {**os.environ, **go.ENVIRONMENT, "GOPROXY": "off"}
    done = subprocess.run(command, cwd=RENDERER, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder / "render"


def values(changes: dict) -> dict:
    """The values of the chart with changes; a name that the chart does not have is an error."""
    all_values = yaml.safe_load((CHART / "values.yaml").read_text())

    def merge(into: dict, changed: dict) -> dict:
        for name, value in changed.items():
            assert name in into, name
            deeper = isinstance(value, dict) and isinstance(into[name], dict) and into[name]
            into[name] = merge(copy.deepcopy(into[name]), value) if deeper else value
        return into

    return merge(all_values, changes)


def run(renderer: Path, changes: dict) -> subprocess.CompletedProcess:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    data = {
        "Values": values(changes),
        "Chart": {"AppVersion": chart["appVersion"]},
        "Release": {"Name": "shop", "Namespace": "storage", "Service": "Helm"},
    }
    return subprocess.run([str(renderer), str(CHART)], input=json.dumps(data), capture_output=True, text=True, timeout=60)


def rendered(renderer: Path, changes: dict) -> dict[tuple[str, str], dict]:
    """The objects by kind and name."""
    done = run(renderer, changes)
    assert done.returncode == 0, done.stderr
    files = json.loads(done.stdout)
    assert "None" not in files["NOTES.txt"] and "<no value>" not in done.stdout
    texts = [text for name, text in files.items() if name.endswith(".yaml")]
    objects = [one for text in texts for one in yaml.safe_load_all(text) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


def pod(objects: dict) -> tuple[dict, dict]:
    spec = objects["StatefulSet", "shop"]["spec"]["template"]["spec"]
    return spec, spec["containers"][0]


def settings(container: dict, name: str) -> dict[str, str]:
    """The environment of a pod."""
    told = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    assert all(isinstance(value, str) for value in told.values()), told
    return {key: value.replace("$(POD_NAME)", name) for key, value in told.items()}


VARIANTS = {
    "usual": {},
    "all": {
        "nodes": 5,
        "firstNodes": 3,
        "replicas": 3,
        "tlsSecret": "certificate",
        "console": {"enabled": True},
        "firstStart": {"bucket": "photos"},
        "storage": {"className": "fast"},
        "env": {"ARCHIPEL_LOG_FORMAT": "json"},
        "tolerations": [{"key": "storage", "operator": "Exists"}],
        "service": {"type": "LoadBalancer", "annotations": {"a": "b"}},
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_objects_fit_together(renderer, variant):
    objects = rendered(renderer, USUAL | VARIANTS[variant])
    assert set(objects) == {("StatefulSet", "shop"), ("Service", "shop"), ("Service", "shop-nodes"), ("PodDisruptionBudget", "shop")}
    of_set = objects["StatefulSet", "shop"]["spec"]
    spec, container = pod(objects)
    labels = of_set["template"]["metadata"]["labels"]
    selectors = [of_set["selector"]["matchLabels"], objects["PodDisruptionBudget", "shop"]["spec"]["selector"]["matchLabels"]]
    selectors += [objects["Service", name]["spec"]["selector"] for name in ("shop", "shop-nodes")]
    selectors += [one["labelSelector"]["matchLabels"] for one in spec["topologySpreadConstraints"]]
    assert all(selector and selector.items() <= labels.items() for selector in selectors)
    ports = {port["name"] for port in container["ports"]}
    named = [port["targetPort"] for name in ("shop", "shop-nodes") for port in objects["Service", name]["spec"]["ports"]]
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
    assert {*named, *(probe["port"] for probe in probes)} == ports
    assert [probe["path"] for probe in probes] == ["/health/live", "/health/live", "/health/ready"]
    assert {probe["scheme"] for probe in probes} == {"HTTPS" if variant == "all" else "HTTP"}
    peers = objects["Service", "shop-nodes"]["spec"]
    assert of_set["serviceName"] == "shop-nodes" and peers["clusterIP"] == "None" and peers["publishNotReadyAddresses"]
    volumes = {volume["name"] for volume in spec["volumes"]} | {claim["metadata"]["name"] for claim in of_set["volumeClaimTemplates"]}
    assert volumes == {mount["name"] for mount in container["volumeMounts"]}
    assert all(volume["secret"]["defaultMode"] == 0o440 for volume in spec["volumes"])
    assert of_set["replicas"] == (5 if variant == "all" else 3)
    assert spec["enableServiceLinks"] is False and container["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize(
    ("changes", "why"), [({"existingSecret": ""}, "existingSecret"), ({"nodes": 1}, "nodes: at least 2")]
)
def test_wrong_values_are_refused(renderer, changes, why):
    done = run(renderer, USUAL | changes)
    assert done.returncode != 0 and why in done.stderr


@pytest.mark.process
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_server_accepts_the_settings_of_the_pods(renderer, tmp_path, variant):
    """Its own check of the configuration, with the files of the pod at other places."""
    spec, container = pod(rendered(renderer, USUAL | VARIANTS[variant]))
    told = settings(container, "shop-1")
    assert told["ARCHIPEL_CLUSTER_ADVERTISE"] == '["shop-1.shop-nodes.storage.svc.cluster.local:3901"]'
    assert told["ARCHIPEL_CLUSTER_FIRST_NODES"] == "3"
    if "tls" in {volume["name"] for volume in spec["volumes"]}:
        # The check of certificates has tests of its own.
        assert "/run/secrets/tls/tls.crt" in told.pop("ARCHIPEL_TLS_CERTIFICATES")
    for mount in container["volumeMounts"]:
        folder = tmp_path / mount["name"]
        folder.mkdir(exist_ok=True)
        told = {key: value.replace(mount["mountPath"], str(folder)) for key, value in told.items()}
    for name in ("cluster-secret", "first-secret-key"):
        file = tmp_path / "secrets" / name
        file.write_text("0123456789abcdef0123456789abcdef\n")
        file.chmod(0o440)
    config = CHART.parents[1] / "container/archipel.toml"
    command = [str(binary()), "config", "check", "--config", str(config)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("ARCHIPEL_")}
    done = subprocess.run(command, env=env | told, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stdout, "a variable that is no setting"
