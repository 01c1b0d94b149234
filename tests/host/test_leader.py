"""Settings of a leader: the group of a Worker can be led with all valid times."""

import pytest

from cooperator.crd import Worker, parse
from cooperator.group import GroupConfig
from cooperator.host.leader import leader_settings
from cooperator.wire import Role


def worker(rebalance_ms: int, heartbeat_ms: int, session_ms: int) -> Worker:
    times = f"rebalanceTimeoutMs: {rebalance_ms}, heartbeatIntervalMs: {heartbeat_ms}"
    spec = f"spec: {{{times}, sessionTimeoutMs: {session_ms}, leaseMs: 86400000}}"
    [resource] = parse(
        f"apiVersion: cooperator.dev/v1alpha1\nkind: Worker\nmetadata: {{name: lake}}\n{spec}", "lake.yaml"
    )
    assert isinstance(resource, Worker)
    return resource


@pytest.mark.parametrize(
    ("rebalance_ms", "heartbeat_ms", "session_ms"),
    [(30_000, 3_000, 10_000), (10_000, 3_000, 10_000), (2_000, 3_000, 10_000), (60_000, 20_000, 60_000)],
)
def test_its_heartbeats_fit_into_its_own_session(
    rebalance_ms: int, heartbeat_ms: int, session_ms: int
) -> None:
    settings = leader_settings(worker(rebalance_ms, heartbeat_ms, session_ms), "kafka:9092", "test")

    # Refuses times that do not go together.
    GroupConfig(
        bootstrap_servers=settings.bootstrap_servers,
        group_id=settings.group_id,
        client_id="leader",
        role=Role.LEADER,
        group_instance_id="leader",
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
    )
    assert settings.heartbeat_interval_ms <= heartbeat_ms


def test_a_worker_with_default_times_is_led_with_its_own_heartbeats() -> None:
    settings = leader_settings(worker(30_000, 3_000, 10_000), "kafka:9092", "test")

    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms) == (25_000, 3_000)
