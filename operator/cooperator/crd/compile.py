"""Resources to the planner's terms."""

from collections.abc import Iterable
from typing import Final

from cooperator.crd.choices import Spread
from cooperator.crd.connector import AutoRestartSpec, Connector, State
from cooperator.crd.worker import Worker
from cooperator.model import (
    AutoRestart,
    Desired,
    DesiredConnector,
    Fencing,
    Policy,
    PolicyName,
    TargetState,
)

_TARGETS: Final = {
    State.RUNNING: TargetState.STARTED,
    State.PAUSED: TargetState.PAUSED,
    State.STOPPED: TargetState.STOPPED,
}


def compile_desired(worker: Worker, connectors: Iterable[Connector], revision: int) -> Desired:
    """What ``worker`` is asked to run: the Connectors of its namespace that refer to it."""
    return Desired(
        revision,
        {
            connector.metadata.name: _compile(connector)
            for connector in connectors
            if connector.spec.worker_ref.name == worker.metadata.name
            and connector.metadata.namespace == worker.metadata.namespace
        },
    )


def compile_policy(worker: Worker) -> Policy:
    """How ``worker`` wants its work scheduled."""
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
    )


def _compile(connector: Connector) -> DesiredConnector:
    spec = connector.spec
    return DesiredConnector(
        config={
            **spec.config,
            "name": connector.metadata.name,
            "connector.class": spec.class_,
            "tasks.max": str(spec.tasks_max),
            **_auto_restart(spec.auto_restart).settings(),
        },
        target=_TARGETS[spec.state],
        weight=spec.task_weight,
    )


def _auto_restart(spec: AutoRestartSpec) -> AutoRestart:
    return AutoRestart(
        enabled=spec.enabled,
        max_restarts=spec.max_restarts,
        backoff_ms=spec.backoff_seconds * 1000,
        backoff_max_ms=spec.backoff_max_seconds * 1000,
        reset_after_ms=spec.reset_after_seconds * 1000,
    )
