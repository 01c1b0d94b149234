"""What a Worker's processes are started with: its resource, as settings and command lines."""

import sys
from collections.abc import Callable, Sequence
from typing import Final

from cooperator.crd import Worker, compile_policy
from cooperator.leader.ownership import GroupPolicy
from cooperator.leader.service import ServiceSettings
from cooperator.local.layout import WorkerDir
from cooperator.wire import Owner

MemberCommand = Callable[[Worker, str, str, str], Sequence[str]]
"""(worker, bootstrap servers, identity, incarnation) to the command of a member's process."""

_LEADER_SESSION_MS: Final = 25_000
_SHORTEST_SESSION_MS: Final = 6_000
"""Brokers refuse shorter ones by default."""


def leader_settings(
    worker: Worker, bootstrap_servers: str, cluster: str, host: str = "127.0.0.1", port: int = 0
) -> ServiceSettings:
    """The leader of a Worker's group. ``cluster``: who leads, part of the group's owner."""
    spec = worker.spec
    return ServiceSettings(
        bootstrap_servers=bootstrap_servers,
        group_id=worker.group_id,
        owner=Owner(cluster, worker.metadata.namespace, worker.metadata.name),
        group_policy=GroupPolicy(spec.group_policy.value),
        policy=compile_policy(worker),
        host=host,
        port=port,
        # A leader that is away must be gone before a round has waited for it in vain.
        session_timeout_ms=max(
            _SHORTEST_SESSION_MS, min(_LEADER_SESSION_MS, spec.rebalance_timeout_ms * 5 // 6)
        ),
        heartbeat_interval_ms=spec.heartbeat_interval_ms,
        rebalance_timeout_ms=spec.rebalance_timeout_ms,
    )


def member_command(directory: WorkerDir) -> MemberCommand:
    """How members are started that keep their files below ``directory``."""

    def command(worker: Worker, bootstrap_servers: str, identity: str, incarnation: str) -> list[str]:
        spec = worker.spec
        options = {
            "--group-id": worker.group_id,
            "--bootstrap-servers": bootstrap_servers,
            "--identity": identity,
            "--incarnation": incarnation,
            "--state-dir": str(directory.members / identity),
            "--checkpoints": spec.checkpoint_location or str(directory.checkpoints),
            "--session-timeout-ms": str(spec.session_timeout_ms),
            "--heartbeat-interval-ms": str(spec.heartbeat_interval_ms),
            "--rebalance-timeout-ms": str(spec.rebalance_timeout_ms),
            "--drain-timeout-ms": str(spec.drain_timeout_seconds * 1000),
        }
        conf = [f"--spark-conf={name}={value}" for name, value in sorted(spec.spark.conf.items())]
        return [
            *(sys.executable, "-m", "cooperator.cli", "worker"),
            *(word for option in options.items() for word in option),
            *conf,
        ]

    return command
