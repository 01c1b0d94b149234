"""A bad configuration is refused with name, value and remedy; secrets are not shown."""

import pytest

from cooperator.group import GroupConfig
from cooperator.wire import Role

WORKER = {
    "bootstrap_servers": "localhost:9092",
    "group_id": "lake",
    "client_id": "lake-0.1",
    "role": Role.WORKER,
}
LEADER = {**WORKER, "role": Role.LEADER, "group_instance_id": "cluster.namespace.lake"}


def test_the_defaults_of_a_member_are_fine() -> None:
    GroupConfig(**WORKER)
    GroupConfig(**LEADER, session_timeout_ms=25_000)


@pytest.mark.parametrize("field", ["bootstrap_servers", "group_id", "client_id"])
def test_names_are_needed(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} is empty"):
        GroupConfig(**{**WORKER, field: ""})


@pytest.mark.parametrize("field", ["session_timeout_ms", "heartbeat_interval_ms", "rebalance_timeout_ms"])
def test_times_are_positive(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} is 0"):
        GroupConfig(**WORKER, **{field: 0})


def test_a_session_has_room_for_lost_heartbeats() -> None:
    with pytest.raises(ValueError, match=r"heartbeat_interval_ms 4000: at most a third .*10000"):
        GroupConfig(**WORKER, heartbeat_interval_ms=4_000)


def test_the_rebalance_timeout_is_longer_than_the_heartbeat_interval() -> None:
    with pytest.raises(ValueError, match="rebalance_timeout_ms 3000: must be greater than"):
        GroupConfig(**WORKER, rebalance_timeout_ms=3_000)


def test_the_leader_is_static_and_workers_are_not() -> None:
    with pytest.raises(ValueError, match="group_instance_id is empty: the leader"):
        GroupConfig(**{**LEADER, "group_instance_id": None})
    with pytest.raises(ValueError, match="group_instance_id 'x': workers are dynamic"):
        GroupConfig(**WORKER, group_instance_id="x")


def test_security_is_named_as_the_library_names_it_and_never_shown() -> None:
    config = GroupConfig(
        **WORKER, security={"sasl_plain_password": "hunter2", "security_protocol": "SASL_SSL"}
    )
    assert "hunter2" not in repr(config)
    with pytest.raises(ValueError, match=r"unknown setting 'sasl\.password'") as refusal:
        GroupConfig(**WORKER, security={"sasl.password": "hunter2"})
    assert "hunter2" not in str(refusal.value)
