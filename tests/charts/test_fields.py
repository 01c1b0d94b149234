"""Kubernetes knows every field that the chart writes, according to the models of its client library."""

import re
from typing import Any

import pytest
from kubernetes.client import models

from tests.charts.rendered import EVERYTHING, MODES, NAMESPACED, Release

PLAIN: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "bool": bool,
    "object": object,
    "IntOrString": (int, str),
}
GENERIC = re.compile(r"(List|Dict)\[(?:str, )?(.+)\]")
ALL_OF_A_POD = {
    **EVERYTHING,
    **NAMESPACED,
    "imagePullSecrets": [{"name": "registry"}],
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"operator": "Exists"}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "priorityClassName": "high",
    "podAnnotations": {"note": "1"},
    "podLabels": {"team": "lakes"},
    "podSecurityContext": {"runAsUser": 1000650000},
}


def check(value: Any, kind: str, path: str) -> None:
    if kind in PLAIN:
        assert isinstance(value, PLAIN[kind]), f"{path} is {value!r}, not {kind}"
    elif match := GENERIC.fullmatch(kind):
        parts = enumerate(value) if match[1] == "List" else value.items()
        for name, part in parts:
            check(part, match[2], f"{path}.{name}")
    else:
        model = getattr(models, kind)
        attributes = {name: attribute for attribute, name in model.attribute_map.items()}
        assert value.keys() <= attributes.keys(), f"{path} is a {kind}"
        for name, part in value.items():
            check(part, model.openapi_types[attributes[name]], f"{path}.{name}")


@pytest.mark.parametrize("values", [*MODES.values(), EVERYTHING, ALL_OF_A_POD])
def test_every_field_is_known(release: Release, values: Any) -> None:
    ours = [each for each in release.manifests(values) if "monitoring.coreos.com" not in each["apiVersion"]]
    assert len(ours) > 5
    for manifest in ours:
        check(manifest, f"V1{manifest['kind']}", manifest["kind"])


def test_a_field_that_is_misspelt_is_noticed(release: Release) -> None:
    pod = release.operator_pod()
    [container] = pod["spec"]["containers"]
    wrong = {**pod, "spec": {**pod["spec"], "containers": [{**container, "livenesProbe": {}}]}}
    with pytest.raises(AssertionError, match=r"^template\.spec\.containers\.0 is a V1Container"):
        check(wrong, "V1PodTemplateSpec", "template")
