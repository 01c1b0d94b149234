"""The custom resource definitions: the checked-in files are generated from the models, and valid for
Kubernetes.

Their behaviour on a real API server is tested in test_api_server.py.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from pydantic import BaseModel, Field
from typer.testing import CliRunner

from cooperator.cli.app import program
from cooperator.crd import ConnectorStatus, WorkerStatus
from cooperator.crd.projection import Projection
from cooperator.crd.render import definitions, structural, to_yaml

ROOT = Path(__file__).parents[2]
CRDS = ROOT / "crds"
Schema = dict[str, Any]


def schema(kind: str) -> Schema:
    (found,) = (crd for crd in definitions().values() if crd["spec"]["names"]["kind"] == kind)
    root: Schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return root


def nodes(node: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every schema nested in a schema, with its path."""
    yield path, node
    for name, part in node.get("properties", {}).items():
        yield from nodes(part, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if key in node:
            yield from nodes(node[key], path + mark)


ALL_NODES = [
    pytest.param(node, id=kind + path)
    for kind in ("Worker", "Connector")
    for path, node in nodes(schema(kind))
    if path not in (".apiVersion", ".kind", ".metadata")
]


def test_the_checked_in_definitions_are_up_to_date() -> None:
    written = {path.name: path.read_text() for path in CRDS.glob("*.yaml")}

    assert written == {name: to_yaml(crd) for name, crd in definitions().items()}, (
        "run: cooperator crds --directory crds"
    )


def test_the_command_prints_both_definitions_and_writes_them(tmp_path: Path) -> None:
    printed = CliRunner().invoke(program(), ["crds"])
    assert list(yaml.safe_load_all(printed.output)) == list(definitions().values())

    CliRunner().invoke(program(), ["crds", "--directory", str(tmp_path / "new")])
    assert {path.name for path in (tmp_path / "new").iterdir()} == set(definitions())


@pytest.mark.parametrize("node", ALL_NODES)
def test_everything_has_a_type_a_bound_and_a_description(node: Schema) -> None:
    free = node.get("x-kubernetes-preserve-unknown-fields")
    assert node.get("type") or node.get("x-kubernetes-int-or-string") or free
    if node.get("type") == "string":
        assert "maxLength" in node or "enum" in node
    if node.get("type") == "array":
        assert "maxItems" in node
    if "additionalProperties" in node:
        assert "maxProperties" in node
        assert "properties" not in node, "the server accepts only one of the two"
    assert not {"$ref", "anyOf", "allOf", "oneOf", "title"} & node.keys()
    for name, part in node.get("properties", {}).items():
        if name not in ("metadata",) or "properties" in part:
            assert part.get("description"), name


@pytest.mark.parametrize("kind", ["Worker", "Connector"])
def test_every_rule_has_a_remedy_in_one_line(kind: str) -> None:
    rules = [rule for _, node in nodes(schema(kind)) for rule in node.get("x-kubernetes-validations", ())]
    assert rules
    for rule in rules:
        assert rule["message"]
        assert len(rule["message"]) <= 2048
        assert "\n" not in rule["message"]


def test_defaults_equal_those_of_the_models_also_nested_ones() -> None:
    spec = schema("Worker")["properties"]["spec"]

    assert spec["default"] == {
        name: part["default"] for name, part in spec["properties"].items() if part.get("default")
    }, "the server validates an object's default before it fills in nested ones"
    assert spec["properties"]["replicas"]["default"] == 1
    assert spec["properties"]["rollout"]["default"] == {}
    assert spec["properties"]["rollout"]["properties"]["strategy"]["default"] == "Hold"
    assert "default" not in spec["properties"]["checkpointVolume"], "it is absent unless set"
    assert schema("Connector")["properties"]["spec"]["properties"]["tasksMax"]["default"] == 1


@pytest.mark.parametrize("kind", ["Worker", "Connector"])
def test_a_status_has_no_defaults_but_that_nobody_has_observed_the_resource(kind: str) -> None:
    status = schema(kind)["properties"]["status"]
    assert status.pop("default") == {"observedGeneration": -1}
    assert not [path for path, node in nodes(status) if "default" in node]


@pytest.mark.parametrize(("kind", "model"), [("Worker", WorkerStatus), ("Connector", ConnectorStatus)])
def test_a_status_schema_has_every_field_that_is_written(kind: str, model: type[Projection]) -> None:
    printed = model().model_dump(mode="json", by_alias=True)
    assert printed.keys() == schema(kind)["properties"]["status"]["properties"].keys()


def test_columns_and_scale_use_existing_fields() -> None:
    for crd in definitions().values():
        version = crd["spec"]["versions"][0]
        there = {path for path, _ in nodes(version["schema"]["openAPIV3Schema"])}
        scale = version["subresources"]["scale"]
        paths = [*scale.values(), *(column["jsonPath"] for column in version["additionalPrinterColumns"])]
        for path in paths:
            plain = path.replace("[?(@.type=='Ready')]", "[]")
            assert plain in there or plain == ".metadata.creationTimestamp"


class Odd(BaseModel):
    several: int | str = 0


class Patterned(BaseModel):
    text: Annotated[str, Field(pattern="a+")] = "a"


@pytest.mark.parametrize(
    ("model", "said"), [(Odd, "has one type in a structural schema"), (Patterned, r"no place .*'pattern'")]
)
def test_a_constraint_that_the_server_cannot_check_is_refused(model: type[BaseModel], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        structural(model.model_json_schema(), {})
