"""The condition ConsumerMisconfigured: how a stock sink's consumers are told to share partitions."""

from typing import Any

import pytest

from cooperator.connect.properties import COOPERATIVE
from cooperator.crd import Connector, Worker, from_object
from cooperator.host.sink_consumers import consumer_misconfigured
from cooperator.host.status import connector_status

RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"
STRATEGY = "partition.assignment.strategy"
PROTOCOL = "group.protocol"


def said(
    overrides: dict[str, str] | None = None,
    of_worker: dict[str, str] | None = None,
    topics: str = "a",
    **spec: Any,
) -> tuple[str, str]:
    """Reason and message of the condition; empty if there is none."""
    config = {f"consumer.override.{name}": value for name, value in (overrides or {}).items()}
    connector = made(
        "Connector",
        {"workerRef": {"name": "lake"}, "class": "a.Sink", "config": {**config, "topics": topics}},
    )
    worker = made(
        "Worker",
        {
            "runtime": "connect",
            "connect": {"config": {f"consumer.{name}": value for name, value in (of_worker or {}).items()}},
            **spec,
        },
    )
    assert isinstance(connector, Connector)
    assert isinstance(worker, Worker)
    found = [*consumer_misconfigured(connector, worker)]
    assert all(each.status.value == "True" for each in found)
    return (found[0].reason, found[0].message) if found else ("", "")


def made(kind: str, spec: dict[str, Any]) -> Any:
    name = "lake" if kind == "Worker" else "a"
    return from_object(
        {
            "apiVersion": "cooperator.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        }
    )


@pytest.mark.parametrize("strategy", [RANGE, f"{COOPERATIVE}, {RANGE}"])
def test_one_eager_assignor_makes_all_tasks_stop(strategy: str) -> None:
    """A group with a list is cooperative only if all assignors of the list are."""
    reason, message = said({STRATEGY: strategy})
    assert reason == "EagerAssignor"
    assert f"spec.config.consumer.override.{STRATEGY} has {RANGE}" in message
    assert f"set it to {COOPERATIVE} alone" in message


def test_the_workers_own_setting_is_named_with_its_worker() -> None:
    reason, message = said(of_worker={STRATEGY: RANGE})
    assert reason == "EagerAssignor"
    assert f"spec.connect.config.consumer.{STRATEGY} of Worker 'lake'" in message
    assert said({STRATEGY: COOPERATIVE}, of_worker={STRATEGY: RANGE}) == ("", ""), "an override precedes"


def test_a_consumer_of_the_new_protocol_refuses_an_assignor() -> None:
    reason, message = said({PROTOCOL: "consumer"})
    assert reason == "AssignorRefused"
    field = f"spec.connect.config.consumer.{PROTOCOL} of Worker 'lake'"
    assert f"remove spec.config.consumer.override.{PROTOCOL}, or set {field}" in message
    reason, message = said({PROTOCOL: "CONSUMER", STRATEGY: COOPERATIVE})
    assert reason == "AssignorRefused"
    assert f"remove spec.config.consumer.override.{STRATEGY}" in message
    assert said({STRATEGY: COOPERATIVE}, of_worker={PROTOCOL: "consumer"})[0] == "AssignorRefused"


@pytest.mark.parametrize(
    ("overrides", "of_worker", "field"),
    [
        ({PROTOCOL: "consumer"}, {PROTOCOL: "classic"}, f"spec.config.consumer.override.{PROTOCOL}"),
        ({}, {PROTOCOL: "consumer"}, f"spec.connect.config.consumer.{PROTOCOL} of Worker 'lake'"),
    ],
)
def test_the_new_protocol_may_fail_tasks_that_lose_partitions(
    overrides: dict[str, str], of_worker: dict[str, str], field: str
) -> None:
    reason, message = said(overrides, of_worker)
    assert reason == "ProtocolFails"
    assert message.startswith(f"{field} is consumer")


@pytest.mark.parametrize(
    ("overrides", "of_worker"),
    [
        ({}, {}),
        ({STRATEGY: COOPERATIVE}, {}),
        ({STRATEGY: "com.example.OwnAssignor"}, {}),
        ({PROTOCOL: "classic"}, {}),
    ],
)
def test_nothing_is_said_without_a_problem(overrides: dict[str, str], of_worker: dict[str, str]) -> None:
    assert said(overrides, of_worker) == ("", "")


def test_workers_that_others_have_made_have_no_assignor_of_the_operator() -> None:
    assert said({PROTOCOL: "consumer"}, replicas=0, groupPolicy="Adopt")[0] == "ProtocolFails"


def test_a_source_has_no_such_consumers() -> None:
    assert said({STRATEGY: RANGE}, topics="") == ("", "")


def test_a_connectors_status_has_the_condition() -> None:
    config = {f"consumer.override.{STRATEGY}": RANGE, "topics": "a"}
    connector = made("Connector", {"workerRef": {"name": "lake"}, "class": "a.Sink", "config": config})
    worker = made("Worker", {"runtime": "connect"})
    status = connector_status(connector, [worker], {}, now_ms=0)
    assert "ConsumerMisconfigured" in {each.type for each in status.conditions}
    on_spark = made("Worker", {})
    status = connector_status(connector, [on_spark], {}, now_ms=0)
    assert "ConsumerMisconfigured" not in {each.type for each in status.conditions}
