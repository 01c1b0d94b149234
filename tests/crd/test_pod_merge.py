"""A user's part of a pod is merged list by list, by the keys of Kubernetes; nothing is lost in silence."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.crd.pod_merge import KEYS, identity, merged, problem_of
from tests.crd.pod_parts import templates

OURS = {
    "containers": [
        {
            "name": "worker",
            "args": ["x"],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "H", "valueFrom": {"fieldRef": {"fieldPath": "a"}}},
            ],
            "ports": [{"name": "member", "containerPort": 8084}],
            "volumeMounts": [{"name": "state", "mountPath": "/state"}],
        }
    ],
    "volumes": [{"name": "state", "emptyDir": {}}],
    "tolerations": [{"effect": "NoSchedule"}],
    "topologySpreadConstraints": [
        {
            "topologyKey": "zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"a": "b"}},
        }
    ],
}


def of_worker(**fields: Any) -> dict[str, Any]:
    [worker] = merged(OURS, {"containers": [{"name": "worker", **fields}]})["containers"]
    return worker


def test_two_mounts_of_one_volume_are_two() -> None:
    theirs = [
        {"name": "data", "mountPath": "/a", "subPath": "a"},
        {"name": "data", "mountPath": "/b", "subPath": "b"},
    ]
    assert of_worker(volumeMounts=theirs)["volumeMounts"] == [
        {"name": "state", "mountPath": "/state"},
        *theirs,
    ]
    own = {"name": "data", "mountPath": "/state"}
    assert of_worker(volumeMounts=[own])["volumeMounts"] == [own]


def test_ports_are_told_apart_by_number_and_protocol() -> None:
    udp = {"name": "dns", "containerPort": 8084, "protocol": "UDP"}
    assert of_worker(ports=[udp])["ports"] == [{"name": "member", "containerPort": 8084}, udp]
    tcp = {"containerPort": 8084, "protocol": "TCP", "hostIP": "127.0.0.1"}
    assert of_worker(ports=[tcp])["ports"] == [{"name": "member", **tcp}]


def test_lists_without_keys_and_some_mappings_are_theirs() -> None:
    theirs = {
        "tolerations": [{"effect": "NoExecute"}],
        "topologySpreadConstraints": [
            {
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"c": "d"}},
            },
            {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
        ],
    }
    assert merged(OURS, theirs) == {**OURS, **theirs}
    assert of_worker(args=["y"])["args"] == ["y"]
    field = {"name": "H", "valueFrom": {"fieldRef": {"fieldPath": "b"}}}
    assert of_worker(env=[field])["env"] == [{"name": "A", "value": "1"}, field]


def test_init_containers_have_lists_of_their_own() -> None:
    mounts = [{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/b"}]
    theirs = {"initContainers": [{"name": "worker-2", "volumeMounts": mounts}]}
    assert merged(OURS, theirs)["initContainers"] == theirs["initContainers"]


@given(templates(), templates())
def test_every_entry_of_both_is_in_the_result_once(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert problem_of(ours) == problem_of(theirs) == ""
    result = merged(ours, theirs)
    assert problem_of(result) == ""
    for path in KEYS:
        if "." not in path:
            found = {identity(entry, path): entry for entry in result.get(path, ())}
            wanted = {identity(entry, path) for spec in (ours, theirs) for entry in spec.get(path, ())}
            assert found.keys() == wanted
            for entry in theirs.get(path, ()):
                assert entry.keys() <= found[identity(entry, path)].keys()
    assert merged(ours, {}) == ours
    assert merged(result, theirs) == result


@given(templates(), st.data())
def test_an_entry_that_is_there_twice_is_refused_wherever_it_is(
    spec: dict[str, Any], data: st.DataObject
) -> None:
    lists = list(_lists(spec, ""))
    if not lists:
        return
    path, entries = data.draw(st.sampled_from(lists))
    entries.append(data.draw(st.sampled_from(entries)))
    assert "have the same " in problem_of(spec), path
    assert problem_of(spec).endswith(": keep one")


def _lists(value: Any, path: str) -> Any:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _lists(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and path in KEYS and value:
        yield path, value
        for entry in value:
            yield from _lists(entry, path)


@pytest.mark.parametrize("entry", [None, "a", [], {}, {"mountPath": None}, {"mountPath": {}}])
def test_an_entry_without_its_keys_is_refused(entry: Any) -> None:
    spec = {"containers": [{"name": "worker", "volumeMounts": [entry]}]}
    assert problem_of(spec).startswith("containers[0].volumeMounts[0] ")


@pytest.mark.parametrize(
    "directive",
    ["$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers"],
)
@given(templates(), st.data())
def test_a_directive_of_patches_is_refused_wherever_it_is(
    directive: str, spec: dict[str, Any], data: st.DataObject
) -> None:
    """A server would drop it in silence, and what it was to remove would stay."""
    spec = copy.deepcopy(spec)  # the strategy gives some parts to several examples
    place = data.draw(st.sampled_from(list(_mappings(spec))))
    place[directive] = "delete"
    assert f"{directive} is a directive of patches: remove it" in problem_of(spec)


def _mappings(value: Any) -> Any:
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _mappings(part)
