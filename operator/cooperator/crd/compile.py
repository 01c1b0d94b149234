"""Compiles resources to the planner's terms."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from cooperator.crd.choices import DeletionPolicy, Spread
from cooperator.crd.connector import AutoRestartSpec, Connector, State, StateReplicasSpec
from cooperator.crd.connector_names import named
from cooperator.crd.worker import Worker
from cooperator.model import (
    AutoRestart,
    Desired,
    DesiredConnector,
    Fencing,
    Policy,
    PolicyName,
    StateReplicas,
    TargetState,
)

HAND_OVER_MS: Final = 20_000
"""The part of the drain time-out, at most half of it, in which a departing member stops its last tasks."""

_TARGETS: Final = {
    State.RUNNING: TargetState.STARTED,
    State.PAUSED: TargetState.PAUSED,
    State.STOPPED: TargetState.STOPPED,
}


def compile_desired(
    worker: Worker,
    connectors: Iterable[Connector],
    revision: int,
    ending: Iterable[Connector] = (),
    kept: Iterable[str] = (),
    withheld: Collection[str] = (),
) -> Desired:
    """Returns what ``worker`` is to run: the Connectors of its namespace that refer to it, by Kafka name.
    Connectors that ``named`` refuses are left out.

    ``ending`` are other Connectors, which are being deleted. ``kept`` names connectors whose resources cannot
    be read. ``withheld`` names Connectors that stay stopped, whatever state they ask for.
    """
    found = named(worker, connectors).connectors
    compiled = {
        name: _compile(connector, connector.metadata.name in withheld) for name, connector in found.items()
    }
    last = {
        name: _is_orphan(each) for name, each in named(worker, ending).connectors.items() if name not in found
    }
    return Desired(revision, compiled, frozenset(kept), last)


def compile_policy(worker: Worker) -> Policy:
    """The scheduling policy of ``worker``."""
    spec = worker.spec
    return Policy(
        name=PolicyName(spec.policy),
        scheduled_rebalance_max_delay_ms=spec.scheduled_rebalance_max_delay_ms,
        lease_ms=spec.lease_ms,
        join_wait_ms=spec.join_wait_ms,
        max_returns=spec.max_returns,
        assignor=spec.assignor,
        strict_spread=spec.spread is Spread.STRICT,
        fencing=Fencing(spec.fencing),
        hung_after_ms=spec.stock.hung_after_ms,
        reconciles=not spec.why_in_rounds,
        depart_warm_ms=max(spec.drain_timeout_ms - HAND_OVER_MS, spec.drain_timeout_ms // 2),
    )


def _compile(connector: Connector, is_withheld: bool) -> DesiredConnector:
    spec = connector.spec
    return DesiredConnector(
        config={
            **spec.config,
            "name": connector.connector_name,
            "connector.class": spec.class_,
            "tasks.max": str(spec.tasks_max),
            **_auto_restart(spec.auto_restart).settings(),
            **_state_replicas(spec.state_replicas),
        },
        target=TargetState.STOPPED if is_withheld else _TARGETS[spec.state],
        weight=spec.task_weight,
        orphan=_is_orphan(connector),
    )


def _state_replicas(spec: StateReplicasSpec | None) -> Mapping[str, str]:
    if spec is None:
        return {}
    return StateReplicas(
        standbys=spec.standbys,
        max_warmups=spec.max_warmups,
        acceptable_lag_bytes=spec.acceptable_lag_bytes,
        warmup_timeout_ms=spec.warmup_timeout_ms,
    ).settings()


def _is_orphan(connector: Connector) -> bool:
    return connector.spec.deletion_policy is DeletionPolicy.ORPHAN


def _auto_restart(spec: AutoRestartSpec) -> AutoRestart:
    return AutoRestart(
        enabled=spec.enabled,
        max_restarts=spec.max_restarts,
        backoff_ms=spec.backoff_ms,
        backoff_max_ms=spec.backoff_max_ms,
        reset_after_ms=spec.reset_after_ms,
    )
