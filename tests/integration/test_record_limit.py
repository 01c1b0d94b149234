"""A real broker with a small limit of a group's record: new tasks wait, everything else goes on."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from cooperator.leader import between_rounds
from cooperator.leader.service import LeaderService
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import Desired
from tests.harness.leader_process import desired_of
from tests.harness.member_group import MemberGroup
from tests.harness.support import eventually

pytestmark = pytest.mark.real

LIMIT_BYTES = 6_000
OLD = {f"old-{number}": {"connector.class": "noop", "tasks.max": "1", "units": "1"} for number in range(4)}
NEW = {
    f"new-{number:02}-{'x' * 100}": {"connector.class": "noop", "tasks.max": "1", "units": "1"}
    for number in range(30)
}


def limit_records(servers: str, limit_bytes: int | None) -> None:
    """Set ``max.message.bytes`` of the topic of all groups; None: back to the default."""
    operation = AlterConfigOpType.DELETE if limit_bytes is None else AlterConfigOpType.SET
    value = "" if limit_bytes is None else str(limit_bytes)
    entry = ConfigEntry("max.message.bytes", value, incremental_operation=operation)
    topic = ConfigResource(ResourceType.TOPIC, "__consumer_offsets", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.incremental_alter_configs([topic])[topic].result(10)


@contextmanager
def limited(servers: str, unique: str) -> Iterator[None]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": f"{unique}-first", "log_level": 0})
    consumer.subscribe([unique])

    def limits() -> bool:
        consumer.poll(0.2)
        with suppress(KafkaException):  # The topic exists once there is a group.
            limit_records(servers, LIMIT_BYTES)
            return True
        return False

    try:
        eventually(limits, 60)
        yield
    finally:
        consumer.close()
        limit_records(servers, None)


def planned(leader: LeaderService) -> tuple[str, str, str]:
    leader.status()
    condition = leader.conditions.get("Planned")
    assert condition is not None
    return condition.status, condition.reason, condition.message


def test_new_connectors_wait_deaths_are_processed_and_a_raised_limit_is_noticed(
    group: MemberGroup, broker: EmbeddedBroker, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(between_rounds, "REFUSED_PAUSE_MS", 1_000)
    with limited(broker.bootstrap_servers, unique):
        expected = ["lake-0", "lake-1"]
        leader = group.leader(OLD, expected, policy={"scheduled_rebalance_max_delay_ms": 1_000})
        members = [group.member(identity) for identity in expected]
        old_tasks = [f"{name}-0" for name in OLD]
        group.runs(*old_tasks)
        starts = group.starts()

        leader.set_desired(desired(group, {**OLD, **NEW}))
        eventually(lambda: planned(leader)[1] == "GroupTooLarge", 60, "the condition says what does not fit")
        assert planned(leader)[0] == "False"
        assert "tasks of new-" in planned(leader)[2]
        assert f"of {LIMIT_BYTES:,}" in planned(leader)[2]
        assert all(group.starts()[key] == count for key, count in starts.items()), "tasks that ran run on"
        running = running_at(leader, "lake-1")

        members[1].kill()
        group.facts(leader, expected)
        eventually(lambda: running <= running_at(leader, "lake-0"), 60, "a death is processed")
        assert planned(leader)[1] == "GroupTooLarge"

        limit_records(broker.bootstrap_servers, 1_000_000)
        eventually(lambda: len(running_at(leader, "lake-0")) == 2 * len(OLD | NEW), 60, "it is noticed")
        assert planned(leader)[0] == "True"


def running_at(leader: LeaderService, identity: str) -> set[str]:
    return {task["name"] for task in leader.status().get("tasks", ()) if task["member"] == identity}


def desired(group: MemberGroup, connectors: dict[str, dict[str, str]]) -> Desired:
    return desired_of(group._with_journal(connectors))
