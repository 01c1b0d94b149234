"""Whether the consumers of a stock sink are configured to stop all of its tasks in each rebalance, to fail in
it, or not to start at all, as a condition of its Connector. Pure."""

from collections.abc import Iterator
from typing import Final

from cooperator.connect.properties import COOPERATIVE, GROUP_PROTOCOL, STRATEGY
from cooperator.crd import Condition, ConditionStatus, Connector, Worker
from cooperator.model.status import CONSUMER_MISCONFIGURED

_OVERRIDE: Final = "consumer.override."
_OF_WORKER: Final = "consumer."
_TOPICS: Final = ("topics", "topics.regex")
_FAILS: Final = (
    "{} is consumer, with which a sink task of Kafka Connect 4.3.1 may fail as it loses some of its "
    "partitions (UnsupportedOperationException in WorkerSinkTask): set it to classic, unless your image "
    "has a fix"
)
_EAGER: Final = frozenset({"RangeAssignor", "RoundRobinAssignor", "StickyAssignor"})
"""Kafka's own assignors without a cooperative protocol; of other classes nothing is known here."""


def consumer_misconfigured(connector: Connector, worker: Worker | None) -> Iterator[Condition]:
    """The condition ``ConsumerMisconfigured``; absent if nothing is wrong.

    Only sinks of stock workers have such consumers. A Connector's override takes precedence over the
    ``connect.config`` of its Worker.
    """
    if worker is None or not worker.spec.is_stock or not any(connector.spec.config.get(t) for t in _TOPICS):
        return
    protocol, protocol_field = _effective(GROUP_PROTOCOL, connector, worker)
    strategy, strategy_field = _effective(STRATEGY, connector, worker)
    if protocol.strip().lower() == "consumer":
        text = _refused(protocol_field, strategy_field, worker)
        reason = "AssignorRefused" if text else "ProtocolFails"
        text = text or _FAILS.format(protocol_field)
    else:
        text = _eager(strategy, strategy_field)
        reason = "EagerAssignor"
    if text:
        yield Condition(
            type=CONSUMER_MISCONFIGURED,
            status=ConditionStatus.TRUE,
            reason=reason,
            message=text,
            observed_generation=connector.metadata.generation,
        )


def _effective(setting: str, connector: Connector, worker: Worker) -> tuple[str, str]:
    """The value of a consumer's setting, and the field that has it; both empty if no user sets it."""
    if value := connector.spec.config.get(f"{_OVERRIDE}{setting}", ""):
        return value, f"spec.config.{_OVERRIDE}{setting}"
    if value := worker.spec.stock.config.get(f"{_OF_WORKER}{setting}", ""):
        return value, f"spec.connect.config.{_OF_WORKER}{setting} of Worker {worker.metadata.name!r}"
    return "", ""


def _eager(strategy: str, field: str) -> str:
    classes = [name.strip() for name in strategy.split(",") if name.strip()]
    eager = next((name for name in classes if name.rpartition(".")[2] in _EAGER), None)
    if eager is None:
        return ""
    return (
        f"{field} has {eager}, which is eager: all tasks of this sink stop reading whenever one of them "
        f"starts, stops or moves; set it to {COOPERATIVE} alone"
    )


def _refused(protocol_field: str, strategy_field: str, worker: Worker) -> str:
    """The reason why consumers with ``group.protocol=consumer`` do not start: they refuse any assignor."""
    if strategy_field:
        return (
            f"{protocol_field} is consumer, and {strategy_field} names an assignor, which consumers of that "
            f"protocol refuse, so that the tasks do not start: remove {strategy_field}"
        )
    made_here = worker.spec.replicas > 0
    if made_here and f"{_OF_WORKER}{GROUP_PROTOCOL}" not in worker.spec.stock.config:
        field = f"spec.connect.config.{_OF_WORKER}{GROUP_PROTOCOL} of Worker {worker.metadata.name!r}"
        return (
            f"{protocol_field} is consumer, and workers that the operator makes have "
            f"{_OF_WORKER}{STRATEGY}, which consumers of that protocol refuse, so that the tasks do not "
            f"start: remove {protocol_field}, or set {field}, after which the operator sets no assignor"
        )
    return ""
