"""A configuration that the broker rejects is reported on its Connector and affects no other."""

from collections.abc import Sequence

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from cooperator.crd import Connector, Worker, parse
from cooperator.host.status import WorkerFacts, connector_status, worker_status
from cooperator.leader import events as ev
from cooperator.leader.actuator import Actuator
from cooperator.leader.group_record import usable_bytes
from cooperator.leader.observability.projection import plan_conditions, project
from cooperator.leader.state import LeaderSettings
from cooperator.local.broker import EmbeddedBroker
from cooperator.logs import LogsConfig, ensure_topics, open_logs
from cooperator.model import INSTANCE, Desired, DesiredConnector
from cooperator.wire import ConnectorRecord, TargetStateRecord
from tests.harness.fake_group import FakeGroup, running_group, tasks
from tests.harness.support import eventually


def connector(size: int = 0) -> DesiredConnector:
    return DesiredConnector({"connector.class": "noop", "tasks.max": "1", "text": "x" * size})


MANIFESTS = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: lake}
spec: {replicas: 1, runtime: spark}
---
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: b}
spec: {class: noop, workerRef: {name: lake}}
"""


def stated(group: FakeGroup) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message of the conditions of the Worker and of Connector ``b`` (``b.<type>``)."""
    worker, connector = parse(MANIFESTS, "t")
    assert isinstance(worker, Worker)
    assert isinstance(connector, Connector)
    told = project(group.machine.state, {})
    conditions = [
        {"type": type_, "status": str(holds), "reason": reason, "message": message, "since_ms": 0}
        for type_, holds, reason, message in (
            ("KafkaReachable", True, "Connected", ""),
            ("Leading", True, "Leading", ""),
            *plan_conditions(told),
        )
    ]
    leader = {**told, "conditions": conditions, "tasks": told["tasks"]}
    of_worker = worker_status(worker, WorkerFacts(leader=leader), 0).conditions
    of_connector = connector_status(connector, (worker,), leader, 0).conditions
    found = {each.type: each for each in of_worker} | {f"b.{each.type}": each for each in of_connector}
    return {name: (each.status.value, each.reason, each.message) for name, each in found.items()}


def planned(group: FakeGroup) -> tuple[bool, str, str]:
    status, reason, message = next(
        each[1:] for each in plan_conditions(project(group.machine.state, {})) if each[0] == "Planned"
    )
    return status, reason, message


class TestMachine:
    def test_others_are_written_and_run_and_the_culprit_is_named(self) -> None:
        group = FakeGroup()
        group.join("lake-0")
        group.round()
        group.too_large = {"b"}
        group.want(Desired(1, {"a": connector(), "b": connector(5), "c": connector()}))
        group.settle()
        assert group.runs("lake-0") == tasks("a", INSTANCE) | tasks("c", INSTANCE)
        assert project(group.machine.state, {})["refused"] == {"b": "a record exceeds the limit"}
        assert planned(group) == (True, "Planned", "")
        told = stated(group)
        for condition, status in {"Ready": "False", "Reconciling": "False", "Stalled": "True"}.items():
            assert told[f"b.{condition}"][0] == status
        assert told["b.Stalled"][1] == told["b.Ready"][1] == "ConfigRefused"
        assert (
            "(a record exceeds the limit): make it smaller, or raise max.message.bytes" in told["b.Ready"][2]
        )

    def test_a_connector_whose_tasks_fit_into_no_record_of_the_group_names_the_remedy(self) -> None:
        group = running_group(max_group_bytes=usable_bytes(2_700))
        group.record_limit = 2_700
        group.desire(a=6, b=50, **{f"connector-{n}": 1 for n in range(60)})
        group.settle()
        assert group.machine.state.refused_tasks
        group.post("b", *(f"u{n}" for n in range(50)))
        group.settle()
        refused = [task for task in group.machine.state.refused_tasks if task.connector == "b"]
        told = stated(group)
        assert told["b.Ready"][:2] == ("False", "GroupTooLarge")
        assert told["b.Stalled"][:2] == ("True", "GroupTooLarge")
        assert told["b.Ready"][2].startswith("the group's record at the broker has no room for b-")
        assert f"of 50 tasks: {len(refused)} UNASSIGNED; raise" in told["b.Ready"][2]
        assert "raise max.message.bytes of __consumer_offsets" in told["b.Ready"][2]
        assert len(told["b.Ready"][2]) < 400
        reasons = {t["name"]: t.get("reason") for t in project(group.machine.state, {})["tasks"]}
        assert all(reasons[str(task)] == "GroupTooLarge" for task in refused)
        assert reasons["a"] is None

        group.record_limit = 1_048_588
        group.advance(60_000)
        group.settle()
        assert "GroupTooLarge" not in {reason for _, reason, _ in stated(group).values()}

    def test_it_is_tried_again_each_minute_and_at_once_when_it_changes(self) -> None:
        group = running_group()
        group.too_large = {"b"}
        wanted = {**group.machine.state.desired.connectors, "b": connector(5)}
        group.want(Desired(1, wanted))
        group.advance(59_000)
        assert group.refusals == 1
        group.advance(62_000)
        assert group.refusals == 3
        group.want(Desired(1, {**wanted, "b": connector(4)}))
        assert group.refusals == 4
        group.too_large.clear()
        group.want(Desired(1, {**wanted, "b": connector(3)}))
        group.settle()
        assert project(group.machine.state, {})["refused"] == {}
        assert tasks("b", INSTANCE) <= set(group.all_running())

    def test_a_connector_that_goes_is_forgotten(self) -> None:
        group = running_group()
        before = group.machine.state.desired
        group.too_large = {"b"}
        group.want(Desired(1, {**before.connectors, "b": connector(5)}))
        group.want(before)
        assert group.machine.state.refused == {}

    def test_tasks_that_cannot_be_written_stop_none_that_run(self) -> None:
        group = running_group()
        running = group.all_running()
        group.too_large = {"a"}
        for _ in range(3):
            group.post("a", "x" * 50, *(f"u-{number}" for number in range(5)))
            group.settle()
        group.advance(10_000)
        group.settle()
        assert {task.connector for task in group.all_running()} == {task.connector for task in running}
        assert len(group.all_running()) == len(running), "none waits for what cannot be written"
        assert "a" in group.machine.state.refused

    def test_a_leader_that_cannot_write_is_not_ready(self) -> None:
        group = running_group()
        before = group.machine.state.desired
        group.config_log_away = True
        group.want(Desired(1, {**before.connectors, "b": connector()}))
        assert planned(group) == (False, "CannotWrite", "a log is out of reach")
        told = stated(group)
        assert told["Ready"] == ("False", "CannotWrite", "a log is out of reach")
        assert (told["Reconciling"][0], told["Stalled"][0]) == ("True", "False"), "it passes by itself"
        group.advance(10_000)
        assert planned(group)[0] is False
        group.config_log_away = False
        group.advance(10_000)
        assert planned(group) == (True, "Planned", "")

    def test_a_refused_connector_that_is_no_longer_desired_is_not_missing(self) -> None:
        group = running_group()
        before = group.machine.state.desired
        group.config_log_away = True
        group.want(Desired(1, {**before.connectors, "b": connector()}))
        group.want(before)
        group.advance(10_000)
        assert planned(group) == (True, "Planned", "")


class Group:
    """The part of a membership that an actuator uses."""

    def rejoin(self, reason: str) -> None: ...
    def evict(self, member_ids: Sequence[str]) -> None: ...


@pytest.mark.real
@pytest.mark.parametrize("size", [20_000, 2_000_000], ids=["for the broker", "for the client"])
def test_a_real_broker_takes_the_others(broker: EmbeddedBroker, unique: str, size: int) -> None:
    overrides = {"max.message.bytes": "10000"}
    config = LogsConfig(broker.bootstrap_servers, unique)
    ensure_topics(config)
    logs = open_logs(config)
    reported: list[ev.Event] = []
    actuator = Actuator(
        LeaderSettings("http://leader/"),
        Group(),
        logs,
        reported.append,
        reported.append,
        lambda: False,
        lambda: 0,
    )
    try:
        actuator.begin()
        topic = ConfigResource(ResourceType.TOPIC, f"{unique}-configs", set_config=overrides)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        admin.alter_configs([topic])[topic].result(10)
        records = (
            ConnectorRecord("a", {"k": "v"}),
            TargetStateRecord("b", None),
            ConnectorRecord("b", {"k": "v" * size}),
            ConnectorRecord("c", {"k": "\ud800"}),
            ConnectorRecord("d", {"k": "v"}),
        )
        eventually(lambda: "b" in refused(actuator, reported, records), 30, "the limit is in effect")
        assert refused(actuator, reported, records) == {"b", "c"}
        assert logs.config.read_to_end(10_000).connectors.keys() == {"a", "d"}
    finally:
        logs.close()


def refused(actuator: Actuator, reported: list[ev.Event], records: tuple[object, ...]) -> set[str]:
    reported.clear()
    actuator.carry_out(ev.WriteConfig(records, "a test"))
    return {event.connector for event in reported if isinstance(event, ev.ConfigRefused)}
