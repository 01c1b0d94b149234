"""Prometheus metrics of leaders, per Worker, labelled with its namespace and name.

Task names and causes of rounds are labels only where there are few: a connector's tasks are counted by state,
and a round's cause is one of a short list of reasons.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.utils import floatToGoString

from cooperator.host.known import is_known
from cooperator.leader.distribution import BOUNDS_S
from cooperator.leader.endpoint import MetricsPage
from cooperator.model import INSTANCE
from cooperator.reconciliation import MemberState

Status = Mapping[str, Any]
"""A leader's status, as returned by ``LeaderService.status``; empty before the first call."""

_WORKER: Final = ("namespace", "worker")
_COUNTERS: Final = {
    "assigned": ("cooperator_worker_assigned", "Connectors and tasks that rounds have assigned"),
    "revoked": ("cooperator_worker_revoked", "Connectors and tasks that rounds have revoked"),
    "moved": ("cooperator_worker_moved", "Connectors and tasks assigned to another member than their last"),
}
_HISTOGRAMS: Final = {
    "rounds": (
        "cooperator_worker_rebalance_duration_seconds",
        "From the cause of a round until all that it assigned ran",
    ),
    "plans": ("cooperator_worker_planning_seconds", "Planning a round and encoding its assignments"),
    "starts": (
        "cooperator_worker_task_start_seconds",
        "From the plan that assigned a task until the task ran",
    ),
    "holds": ("cooperator_worker_hold_seconds", "From a task's loss until it was assigned again"),
    "hand_overs": (
        "cooperator_worker_hand_over_seconds",
        "From taking a task from its member until it ran at another",
    ),
}
"""Keyed by the name of their distribution in a status's totals."""
_GROUP_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable")
"""As Kafka's ``consumer-group-count`` has them; a group that ends is not led."""
_BOUNDS: Final = (*map(floatToGoString, BOUNDS_S), "+Inf")


class WorkerMetrics(MetricsPage):
    """``statuses``: returns those of all leaders, by namespace and Worker."""

    def __init__(self, statuses: Callable[[], Mapping[tuple[str, str], Status]]) -> None:
        self._statuses = statuses
        super().__init__()

    def collect(self) -> Iterable[Metric]:
        statuses = self._statuses()
        leading = {worker: status for worker, status in statuses.items() if status.get("leading")}
        yield _gauge(
            "cooperator_worker_leading",
            "1 while this process leads the Worker's group",
            {worker: worker in leading for worker in statuses},
        )
        yield from _of_groups(leading)
        known = {worker: status for worker, status in leading.items() if is_known(status)}
        yield _gauge(
            "cooperator_worker_members",
            "In the group, without the leader",
            {worker: len(status["members"]) for worker, status in known.items()},
        )
        yield from _of_protocols(known)
        yield from _of_tasks(known)
        yield from _of_rounds(statuses)


def _of_groups(leading: Mapping[tuple[str, str], Status]) -> Iterable[Metric]:
    gauges: tuple[tuple[str, str, Callable[[Status], float]], ...] = (
        ("generation", "Generation of the group", lambda status: status["generation"]),
        ("term", "Number of times that the lead of the group was taken", lambda status: status["term"]),
        ("settled", "1 while nothing moves, waits or starts", lambda status: status["settled"]),
    )
    for name, documentation, value in gauges:
        values = {worker: value(status) for worker, status in leading.items()}
        yield _gauge(f"cooperator_worker_{name}", documentation, values)


def _of_protocols(leading: Mapping[tuple[str, str], Status]) -> Iterable[Metric]:
    """Protocols, and states and epochs without rounds; none of a projection that may be out of date."""
    protocols = GaugeMetricFamily(
        "cooperator_worker_group_count", "1 for the protocol of the group", labels=(*_WORKER, "protocol")
    )
    states = GaugeMetricFamily(
        "cooperator_worker_reconciled_group_count",
        "1 for the state of a group that reconciles without rounds",
        labels=(*_WORKER, "state"),
    )
    members = GaugeMetricFamily(
        "cooperator_worker_reconciled_members",
        "Members by state in a group that reconciles without rounds",
        labels=(*_WORKER, "state"),
    )
    epochs = _gauge("cooperator_worker_group_epoch", "Changes of a group without rounds", {})
    assigned = _gauge("cooperator_worker_assignment_epoch", "Group epoch of the newest target", {})
    for worker, status in leading.items():
        if status.get("stale") or not status.get("protocol"):
            continue
        protocols.add_metric((*worker, status["protocol"]), 1)
        group = status.get("reconciliation")
        if group is None:
            continue
        for state in _GROUP_STATES:
            states.add_metric((*worker, state), float(group["state"] == state))
        counts = Counter(member["state"] for member in group["members"].values())
        for member_state in MemberState:
            members.add_metric((*worker, member_state.value), counts[member_state.value])
        epochs.add_metric(worker, group["epoch"])
        assigned.add_metric(worker, group["assignment_epoch"])
    return (protocols, states, members, epochs, assigned)


def _of_tasks(leading: Mapping[tuple[str, str], Status]) -> Iterable[Metric]:
    tasks = GaugeMetricFamily(
        "cooperator_connector_tasks",
        "Tasks by state; HELD: waits for its member, UNASSIGNED: no member has it",
        labels=(*_WORKER, "connector", "state"),
    )
    instances = GaugeMetricFamily(
        "cooperator_connector_state",
        "1 for the state that the connector's own instance is in",
        labels=(*_WORKER, "connector", "state"),
    )
    held = GaugeMetricFamily(
        "cooperator_worker_held_tasks",
        "Connectors and tasks that wait for a member",
        labels=(*_WORKER, "member"),
    )
    deadlines = GaugeMetricFamily(
        "cooperator_worker_hold_deadline_timestamp_seconds",
        "Unix time at which the last hold for the member ends",
        labels=(*_WORKER, "member"),
    )
    for worker, status in leading.items():
        counts: Counter[tuple[str, str]] = Counter()
        ends: dict[str, list[int]] = {}
        for each in status["tasks"]:
            if each["task"] == INSTANCE:
                instances.add_metric((*worker, each["connector"], each["state"]), 1)
            else:
                counts[each["connector"], each["state"]] += 1
            if "held_for" in each:
                ends.setdefault(each["held_for"], []).append(each["held_until_ms"])
        for (connector, state), count in sorted(counts.items()):
            tasks.add_metric((*worker, connector, state), count)
        for member, until_ms in sorted(ends.items()):
            held.add_metric((*worker, member), len(until_ms))
            deadlines.add_metric((*worker, member), max(until_ms) / 1000)
    return (tasks, instances, held, deadlines)


def _of_rounds(statuses: Mapping[tuple[str, str], Status]) -> Iterable[Metric]:
    rebalances = CounterMetricFamily(
        "cooperator_worker_rebalances", "Rounds that were planned here, by cause", labels=(*_WORKER, "reason")
    )
    counters = {
        key: CounterMetricFamily(name, documentation, labels=_WORKER)
        for key, (name, documentation) in _COUNTERS.items()
    }
    histograms = {
        key: HistogramMetricFamily(name, documentation, labels=_WORKER)
        for key, (name, documentation) in _HISTOGRAMS.items()
    }
    unassigned = CounterMetricFamily(
        "cooperator_worker_unassigned_task_seconds",
        "Task-seconds that were HELD or UNASSIGNED",
        labels=_WORKER,
    )
    forced = CounterMetricFamily(
        "cooperator_worker_forced_rebalances",
        "Rounds that cost stock workers a start, since the leader wrote to the config log too early",
        labels=_WORKER,
    )
    for worker, status in statuses.items():
        for reason, count in status.get("reasons", {}).items():
            rebalances.add_metric((*worker, reason), count)
        for key, family in counters.items():
            family.add_metric(worker, status.get("counters", {}).get(key, 0))
        totals = status.get("totals")
        if totals is not None:
            for key, histogram in histograms.items():
                found = totals[key]
                buckets = list(zip(_BOUNDS, found["counts"], strict=True))
                histogram.add_metric(worker, buckets, found["sum_s"])
            unassigned.add_metric(worker, totals["unassigned_task_ms"] / 1000)
            forced.add_metric(worker, totals["forced_rounds"])
    return (rebalances, *counters.values(), *histograms.values(), unassigned, forced)


def _gauge(name: str, documentation: str, values: Mapping[tuple[str, str], float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, documentation, labels=_WORKER)
    for worker, value in values.items():
        family.add_metric(worker, float(value))
    return family
