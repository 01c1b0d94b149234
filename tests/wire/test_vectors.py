"""Byte-for-byte comparison, in both directions, with output of Kafka's own classes on the JVM."""

import json
from pathlib import Path
from typing import Any

import pytest

from cooperator.model import INSTANCE, TaskId
from cooperator.model.java import hash_set_order
from cooperator.wire import (
    ExtendedAssignment,
    Metadata,
    Protocol,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)

HERE = Path(__file__).parent / "vectors"
VECTORS = [json.loads(line) for line in (HERE / "wire.jsonl").read_text("utf-8").splitlines()]
ORDERS = [json.loads(line) for line in (HERE / "hashset.jsonl").read_text("utf-8").splitlines()]


def items(connectors: list[str], tasks: list[Any]) -> tuple[TaskId, ...]:
    instances = [TaskId(connector, INSTANCE) for connector in connectors]
    return (*instances, *(TaskId(connector, task) for connector, numbers in tasks for task in numbers))


def assignment_of(value: dict[str, Any]) -> ExtendedAssignment:
    return ExtendedAssignment(
        error=value["error"],
        leader=value["leader"],
        leader_url=value["leader_url"],
        config_offset=value["config_offset"],
        assigned=items(value["connectors"], value["tasks"]),
        revoked=items(value.get("revoked_connectors", []), value.get("revoked_tasks", [])),
        delay_ms=value.get("delay_ms", 0),
    )


def metadata_of(value: dict[str, Any]) -> Metadata:
    allocation = value.get("allocation")
    return Metadata(value["url"], value["config_offset"], allocation and assignment_of(allocation))


def in_order_of_bytes(assignment: ExtendedAssignment) -> ExtendedAssignment:
    """The same assignment with its items listed as the bytes list them: connector by connector."""

    def listed(tasks: tuple[TaskId, ...]) -> tuple[TaskId, ...]:
        instances = {task.connector: 0 for task in tasks if task.is_instance}
        position = {name: at for at, name in enumerate(dict.fromkeys((*instances, *(t[0] for t in tasks))))}
        return tuple(sorted(tasks, key=lambda task: (position[task.connector], task.task >= 0)))

    return ExtendedAssignment(
        assignment.error,
        assignment.leader,
        assignment.leader_url,
        assignment.config_offset,
        listed(assignment.assigned),
        listed(assignment.revoked),
        assignment.delay_ms,
    )


def test_there_are_vectors_of_every_kind_and_version() -> None:
    kinds = {(vector["kind"], vector["version"]) for vector in VECTORS}

    assert kinds == {(kind, version) for kind in ("metadata", "assignment") for version in (0, 1, 2)}
    assert len(VECTORS) == 33


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['kind']}-{v['protocol']}")
def test_a_value_becomes_the_jvms_bytes(vector: dict[str, Any]) -> None:
    protocol = Protocol(vector["protocol"])
    assert protocol.version == vector["version"]

    if vector["kind"] == "metadata":
        encoded = encode_metadata(metadata_of(vector["value"]), protocol)
    else:
        encoded = encode_assignment(assignment_of(vector["value"]), protocol)

    assert encoded.hex() == vector["hex"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['kind']}-{v['protocol']}")
def test_the_jvms_bytes_become_the_value_and_the_same_bytes_again(vector: dict[str, Any]) -> None:
    data, protocol = bytes.fromhex(vector["hex"]), Protocol(vector["protocol"])

    if vector["kind"] == "metadata":
        metadata, meant = decode_metadata(data), metadata_of(vector["value"])
        allocation = meant.allocation and in_order_of_bytes(meant.allocation)
        assert metadata == Metadata(meant.url, meant.config_offset, allocation)
        assert encode_metadata(metadata, protocol) == data
    else:
        assignment = decode_assignment(data)
        assert assignment == in_order_of_bytes(assignment_of(vector["value"]))
        assert encode_assignment(assignment, protocol) == data


@pytest.mark.parametrize("order", ORDERS, ids=lambda o: str(len(o["in"])))
def test_connectors_are_listed_in_the_order_of_a_java_hash_set(order: dict[str, list[str]]) -> None:
    assert hash_set_order(order["in"]) == order["out"]
