"""Values: each has a description, a default and a schema; errors name the wrong value."""

import importlib.util
import json
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.charts.rendered import CRDS, EVERYTHING, MODES, OPERATOR, ROOT, Release
from tests.kubernetes.helm import HelmFailed, run_helm

DEFAULTS = yaml.safe_load((OPERATOR / "values.yaml").read_text())
SCHEMA = json.loads((OPERATOR / "values.schema.json").read_text())

WRONG: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "a name that is misspelt": ({"replica": 2}, "additional properties 'replica' not allowed"),
    "one within a group": (
        {"serviceMonitor": {"enable": True}},
        "'/serviceMonitor': additional properties 'enable'",
    ),
    "a number as text": ({"replicas": "two"}, "'/replicas': got string, want integer"),
    "too many": ({"replicas": 50}, "'/replicas': maximum: got 50, want 10"),
    "a Lease that nobody can renew": (
        {"leaderElection": {"leaseDurationMs": 1000}},
        "'/leaderElection/leaseDurationMs': minimum: got 1,000, want 3,000",
    ),
    "a switch as text": (
        {"networkPolicy": {"enabled": "yes"}},
        "'/networkPolicy/enabled': got string, want boolean",
    ),
    "Kafka without a port": ({"bootstrapServers": "kafka"}, "'/bootstrapServers': 'kafka' does not match"),
    "Kafka as a list": ({"bootstrapServers": ["kafka:9092"]}, "'/bootstrapServers': got array, want string"),
    "a namespace in capitals": ({"namespaces": ["Lakes"]}, "'/namespaces/0': 'Lakes' does not match"),
    "a namespace twice": ({"namespaces": ["a", "a"]}, "'/namespaces': items at 0 and 1 are equal"),
    "namespaces with commas": ({"namespaces": "a,b"}, "'/namespaces': got string, want array"),
    "an image with its tag": (
        {"image": {"repository": "op:1"}},
        "'/image/repository': 'op:1' does not match",
    ),
    "a digest without its kind": ({"image": {"digest": "abc"}}, "'/image/digest': 'abc' does not match"),
    "a policy that is none": (
        {"image": {"pullPolicy": "Sometimes"}},
        "'/image/pullPolicy': value must be one of",
    ),
    "root": (
        {"podSecurityContext": {"runAsUser": 0}},
        "'/podSecurityContext/runAsUser': minimum: got 0, want 1",
    ),
    "privileges": (
        {"podSecurityContext": {"runAsNonRoot": False}},
        "'/podSecurityContext': additional properties 'runAsNonRoot' not allowed",
    ),
    "a variable that is the chart's": (
        {"extraEnv": [{"name": "POD_IP", "value": "::"}]},
        "'/extraEnv/0/name': 'not' failed",
    ),
    "a label by which the pod is found": (
        {"podLabels": {"app.kubernetes.io/name": "mine"}},
        "'/podLabels/app.kubernetes.io~1name': false schema",
    ),
    "a label that cannot be": (
        {"podLabels": {"my team": "a"}},
        "'/podLabels': additional properties 'my team' not",
    ),
    "a label's value that cannot be": (
        {"podLabels": {"team": "a b"}},
        "'/podLabels/team': 'a b' does not match",
    ),
    "an interval without a unit": (
        {"serviceMonitor": {"interval": "30"}},
        "'/serviceMonitor/interval': '30' does not",
    ),
    "a receiver of metrics without a scheme": (
        {"telemetry": {"otlpEndpoint": "collector:4317"}},
        "'/telemetry/otlpEndpoint': 'collector:4317' does not match",
    ),
    "a receiver of metrics with a password": (
        {"telemetry": {"otlpEndpoint": "http://me:secret@collector:4318"}},
        "'/telemetry/otlpEndpoint'",
    ),
    "a Secret without its key": (
        {"telemetry": {"headersSecret": {"name": "collector"}}},
        "'/telemetry/headersSecret'",
    ),
    "no rights and no name": ({"clusterRights": False}, "clusterRights is false, so give clusterName a name"),
    "no rights and everything": (
        {"clusterRights": False, "clusterName": "here", "clusterWide": True},
        "clusterRights is false, so the whole cluster cannot be served",
    ),
    "no rights and an admission policy": (
        {"clusterRights": False, "clusterName": "here", "admissionPolicy": {"enabled": True}},
        "clusterRights is false, and an admission policy is an object of the cluster",
    ),
    "a quick start without a role": (
        {"quickstart": {"enabled": True}, "rbac": {"create": False}},
        "quickstart.enabled creates a role of its own",
    ),
    "a quick start elsewhere": (
        {"quickstart": {"enabled": True}, "namespaces": ["a"]},
        "quickstart.enabled puts a Worker into the release's namespace home: add it to namespaces",
    ),
    "a producer that stands still": (
        {"quickstart": {"producer": {"rowsPerSecond": 0}}},
        "'/quickstart/producer/rowsPerSecond': minimum: got 0, want 1",
    ),
    "an admission policy that refuses nothing": (
        {"worker": {"template": "Any"}, "admissionPolicy": {"enabled": True}},
        "admissionPolicy.enabled refuses what worker.template: Any allows",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_value_is_refused_by_its_name(release: Release, case: str) -> None:
    values, said = WRONG[case]
    with pytest.raises(HelmFailed) as refused:
        release.manifests(values)
    assert said in str(refused.value)


@pytest.mark.parametrize("mode", [*MODES, "everything"])
def test_helm_lint_accepts_the_operators_chart(release: Release, mode: str) -> None:
    values = json.dumps(MODES.get(mode, EVERYTHING))
    said = run_helm("lint", "--strict", str(OPERATOR), "--values", "-", words=values)
    assert "1 chart(s) linted, 0 chart(s) failed" in said


def test_helm_lint_accepts_the_chart_of_the_definitions(release: Release) -> None:
    assert "0 chart(s) failed" in run_helm("lint", "--strict", str(CRDS))


def paths(schema: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths in a schema that values.yaml has to list."""
    for name, part in schema["properties"].items():
        if "properties" in part and _at(DEFAULTS, (*above, name)):
            yield from paths(part, (*above, name))
        else:
            yield *above, name


def _at(tree: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        tree = tree.get(key, {})
    return tree


def leaves(tree: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(tree, dict) and tree:
        for name, part in tree.items():
            yield from leaves(part, (*above, name))
    else:
        yield above


def test_the_schema_knows_all_values_and_no_others() -> None:
    known = {path for path in paths(SCHEMA) if path[-1] != "global"}
    of_maps = {path for path in leaves(DEFAULTS) if path not in known}
    # Keys below a value that is a mapping are the user's.
    assert {path[:-1] for path in of_maps} == {
        ("resources", "requests"),
        ("resources", "limits"),
        ("grafanaDashboard", "labels"),
    }
    assert known - set(leaves(DEFAULTS)) == {path[:-1] for path in of_maps} | {("resources", "claims")}


def test_each_value_is_used_by_a_template() -> None:
    text = "".join(path.read_text() for path in (OPERATOR / "templates").rglob("*.*"))
    for path in paths(SCHEMA):
        if path[-1] != "global":
            # A template uses the full name, or the last part within a `with` of its group.
            assert ".Values." + path[0] in text, path
            assert path[0] == "resources" or f".{path[-1]}" in text, path


# --- the page --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("values_page", ROOT / "docs" / "values.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(page: ModuleType) -> None:
    assert (ROOT / "docs" / "values.md").read_text() == page.page(), "out of date: python docs/values.py"


def test_every_value_has_a_line_on_the_page(page: ModuleType) -> None:
    documented = {value.path for value in page.values((OPERATOR / "values.yaml").read_text())}
    for path in leaves(DEFAULTS):
        assert any(path[: len(each)] == each for each in documented), path


@pytest.mark.parametrize(
    "text",
    ["# All.\na: 1\nb: 2\n", "group:\n  # One.\n  a: 1\n  b: 2\n", "# One.\n\na: 1\n", "a: {}\n"],
)
def test_a_value_without_a_meaning_is_noticed(page: ModuleType, text: str) -> None:
    with pytest.raises(ValueError, match=r"values\.yaml:\d: \S+ has no line of comment above it"):
        list(page.values(text))
