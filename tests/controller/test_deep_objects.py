"""An object that is nested without bounds costs its author alone: neighbours are read, run and removed."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kopf._cogs.clients import api as kopf_api
from kubernetes import client

from cooperator.controller.api.bounded_json import cut, loads
from cooperator.controller.api.client import CONNECTORS, Api, ApiError, Kind
from cooperator.controller.main import Operator, teach_kopf
from cooperator.controller.manifests.pods import Defaults
from cooperator.controller.options import OperatorOptions
from cooperator.controller.outputs import Outputs
from cooperator.controller.resources import Readings, read_connectors
from cooperator.controller.store import CONNECTOR, WORKER, Store
from cooperator.crd import Connector, ResourceError, Worker, from_object, shallow

KEYWORDS = dict(aiohttp.ClientResponse.json.__kwdefaults__)
FILES = {"source.format": "rate", "sink.format": "parquet", "sink.options.path": "/out"}


def nested(levels: int) -> Any:
    """Mappings and lists in turn, built without recursion."""
    value: Any = "a"
    for number in range(levels):
        value = [value] if number % 2 else {"a": value}
    return value


def connector(name: str, version: int, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": str(version)}
    full = {"workerRef": {"name": "lake"}, "class": "spark", "config": FILES, **spec}
    return {
        "apiVersion": "cooperator.dev/v1alpha1",
        "kind": "Connector",
        "metadata": {**metadata, "generation": 1},
        "spec": full,
    }


def worker(version: int, namespace: str = "default", **template: Any) -> dict[str, Any]:
    metadata = {"name": "lake", "namespace": namespace, "uid": namespace, "resourceVersion": str(version)}
    spec = {"runtime": "spark", "template": {"spec": template}} if template else {"runtime": "spark"}
    return {
        "apiVersion": "cooperator.dev/v1alpha1",
        "kind": "Worker",
        "metadata": {**metadata, "generation": 1},
        "spec": spec,
    }


@pytest.mark.parametrize("levels", [80, 600, 5_000, 100_000])
def test_a_deep_connector_keeps_no_neighbour_from_being_read(levels: int) -> None:
    deep, healthy = connector("deep", 1, config=nested(levels)), connector("healthy", 2)
    readings = Readings()
    seen = read_connectors([deep, healthy], readings)
    assert [each.metadata.name for each in seen.living] == ["healthy"]
    assert seen.kept == {"deep"}
    message = "spec is nested more than 64 deep: remove the innermost mappings and lists"
    assert readings.problems == {("Connector", "deep"): message}
    deep["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    seen = read_connectors([deep, healthy], readings)
    assert (len(seen.living), seen.kept) == (1, frozenset()), "it can be removed"


def test_an_edit_that_cannot_be_read_for_its_depth_stops_nothing() -> None:
    readings = Readings()
    assert readings.worker(worker(1)) is not None
    found = readings.worker(worker(2, a=nested(600)))
    assert found is not None
    assert found.metadata.uid == "default"
    assert "nested more than 64 deep" in readings.problems["Worker", "lake"]


def test_any_failure_of_reading_is_its_connectors_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(body: Any) -> Any:
        if body["metadata"]["name"] == "deep":
            raise MemoryError
        return from_object(body)

    monkeypatch.setattr("cooperator.controller.resources.from_object", fails)
    seen = read_connectors([connector("deep", 1), connector("healthy", 2)], Readings())
    assert [each.metadata.name for each in seen.living] == ["healthy"]
    assert seen.kept == {"deep"}


@pytest.mark.parametrize("levels", [600, 100_000])
def test_other_namespaces_keep_their_directories_beside_a_deep_object(levels: int) -> None:
    store = Store(lambda name: None)
    for version, body in enumerate([worker(1, "hostile", a=nested(levels)), worker(2)]):
        store.put(WORKER, {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}})
    store.put(CONNECTOR, connector("deep", 3, "hostile", config=nested(levels)))
    store.put(CONNECTOR, connector("a", 4, "hostile"))
    healthy = connector("healthy", 5)
    store.put(CONNECTOR, healthy)
    found = from_object(healthy)
    assert isinstance(found, Connector)
    seen = Outputs(store).see("default", (found,))
    assert seen.withheld == {}
    assert set(seen.notes) == {"healthy"}


def test_an_ordinary_depth_is_read_and_managed_fields_do_not_count() -> None:
    body = worker(1, a=nested(50))
    body["metadata"]["managedFields"] = nested(600)
    assert isinstance(from_object(body), Worker)
    with pytest.raises(ResourceError, match="spec is nested more than 64 deep"):
        from_object(worker(1, a=nested(63)))


def test_a_shallow_copy_is_refused_as_its_original_is() -> None:
    copied = shallow(connector("deep", 1, config=nested(100_000)))
    assert copied == json.loads(json.dumps(copied))
    with pytest.raises(ResourceError, match="spec is nested more than 64 deep"):
        from_object(copied)
    assert shallow(connector("healthy", 1)) == connector("healthy", 1)


class Listing:
    """An API whose lists of one namespace cannot be read."""

    def list(self, kind: Kind, namespace: str | None, labels: str = "") -> tuple[list[dict[str, Any]], int]:
        if namespace == "hostile":
            raise ApiError(0, "Unreadable", "the answer is nested too deep")
        if kind is CONNECTORS:
            return [connector("healthy", 1, "good"), connector("deep", 2, "good", config=nested(5_000))], 3
        return [worker(1, "good")], 3


def test_a_namespace_that_cannot_be_listed_hides_no_other(tmp_path: Path) -> None:
    options = OperatorOptions(
        "here", "op_1", Defaults("worker:1"), nodes=False, namespaces=("hostile", "good")
    )
    made = Operator(options, Listing(), tmp_path)  # type: ignore[arg-type]
    made._resync()
    made._resync()
    assert set(made.store.workers()) == {("good", "lake")}
    seen = made.store.see(("good", "lake"))
    assert [body["metadata"]["name"] for body in seen.connectors] == ["deep", "healthy"]


def test_an_object_of_any_depth_hides_no_other_of_its_list(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(configuration=client.Configuration())
    items = json.dumps([connector("deep", 1, config={"x": "@"}), connector("healthy", 2)])
    text = items.replace('"@"', '{"a":[' * 5_000 + '"]}\\"' + '"' + "]}" * 5_000)
    body = f'{{"metadata": {{"resourceVersion": "3"}}, "items": {text}}}'
    answer = SimpleNamespace(status=200, read=body.encode)
    monkeypatch.setattr(api._client, "call_api", lambda *_, **__: answer)
    found, version = api.list(CONNECTORS, None)
    assert version == 3
    assert found[1] == connector("healthy", 2)
    assert read_connectors(found, Readings()).kept == {"deep"}
    for unfinished in (b'{"items":' + b"[" * 100_000, b'{"items":' + b"[" * 900 + b"]" * 901):
        answer.read = lambda text=unfinished: text
        with pytest.raises(ApiError, match="the answer is not JSON"):
            api.list(CONNECTORS, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('[]{}"\\,:a\u20ac')),
    lambda part: st.lists(part) | st.dictionaries(st.text(st.sampled_from('[]{}"\\a')), part),
)


def without_levels(value: Any, levels: int) -> Any:
    if isinstance(value, dict | list) and levels == 0:
        return None
    if isinstance(value, dict):
        return {key: without_levels(part, levels - 1) for key, part in value.items()}
    return [without_levels(part, levels - 1) for part in value] if isinstance(value, list) else value


@given(JSON, st.integers(0, 5))
def test_a_text_is_cut_where_its_value_is(value: Any, levels: int) -> None:
    assert json.loads(cut(json.dumps(value), levels)) == without_levels(value, levels)
    assert loads(json.dumps(value)) == value


@pytest.mark.parametrize("levels", [300, 900, 9_000, 200_000])
def test_kopf_reads_answers_and_events_of_any_depth(levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kopf_api, "json", json)
    monkeypatch.setattr(aiohttp.ClientResponse.json, "__kwdefaults__", {**KEYWORDS})
    teach_kopf()
    text = '{"type": "ADDED", "object": ' + '{"a":' * levels + "1" + "}" * levels + "}"
    module: Any = kopf_api
    for read in (module.json.loads, aiohttp.ClientResponse.json.__kwdefaults__["loads"]):
        event = read(text)
        assert event["type"] == "ADDED"
        assert copy.deepcopy(event) == event, "kopf copies objects"
