"""Composes statuses from observations of a Worker and its leader's projection. Pure; decides nothing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cooperator.crd import (
    Condition,
    ConditionStatus,
    Connector,
    ConnectorStatus,
    Worker,
    WorkerStatus,
    connector_conditions,
    summary_conditions,
    worker_found,
)
from cooperator.crd.choices import GroupPolicy
from cooperator.crd.conditions import INVALID_SPEC, REPLICA_FAILURE, connector_state
from cooperator.crd.status import (
    AdoptedStatus,
    HeldTaskStatus,
    MemberStatus,
    RebalanceStatus,
    TaskCounts,
    TaskStatusEntry,
    connector_selector,
    held_summary,
    ratio,
    timestamp,
    worker_selector,
)
from cooperator.host.delivery import NOTHING_LOCAL, PodLocal, exactly_once
from cooperator.host.known import Leader, is_known, protocol_of, reconciliation
from cooperator.host.phases import MESSAGES, MemberIncarnation, phase_of
from cooperator.host.progress import learning, reported, total, warming_summary
from cooperator.host.sink_consumers import consumer_misconfigured
from cooperator.pool import Report

_GOOD = ("KafkaReachable", "Leading")
"""Leader conditions that should be True, in the order shown: the second depends on the first."""


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """Observations of one Worker.

    ``reports``: of the pool; ``expected``: the members it should have; ``more``: conditions that only this
    host has.
    """

    incarnations: Mapping[str, MemberIncarnation] = field(default_factory=dict)
    leader: Leader = field(default_factory=dict)
    reports: tuple[Report, ...] = ()
    expected: frozenset[str] = frozenset()
    more: tuple[Condition, ...] = ()


def with_holds(seen: WorkerFacts, worker: Worker | None) -> WorkerFacts:
    """Mark tasks as held from the moment at which their incarnation is known to have ended.

    The leader reports these holds itself only after the next round.
    """
    if worker is None:
        return seen
    delay_ms = worker.spec.scheduled_rebalance_max_delay_ms
    until_ms: dict[str, int] = {}
    for member in seen.leader.get("members", ()):
        incarnation = seen.incarnations.get(member["identity"])
        if incarnation is not None and (
            incarnation.ended_ms is not None or member["incarnation"] in incarnation.past
        ):
            ended_ms = incarnation.started_ms if incarnation.ended_ms is None else incarnation.ended_ms
            until_ms[member["identity"]] = ended_ms + delay_ms
    if not until_ms:
        return seen
    tasks = [
        {
            **task,
            "state": "HELD",
            "member": None,
            "held_for": task["member"],
            "held_until_ms": until_ms[task["member"]],
            "held_reason": "Departed",
            # Reported by the incarnation that has ended.
            "progress": "",
            "trace": "",
        }
        if task["member"] in until_ms
        else task
        for task in seen.leader["tasks"]
    ]
    return replace(seen, leader={**seen.leader, "tasks": tasks})


def worker_status(
    worker: Worker,
    seen: WorkerFacts,
    now_ms: int,
    problems: Sequence[str] = (),
    reason: str = INVALID_SPEC,
    deletion: str = "",
) -> WorkerStatus:
    """``problems``: why the present spec was refused, ``reason`` in a word; the status then describes the
    previous one. ``deletion``: what its deletion waits for."""
    tasks = [t for t in seen.leader.get("tasks", ()) if t["task"] >= 0]
    members = [
        MemberStatus(
            identity=row["name"],
            phase=row["phase"],
            incarnation=row["incarnation"],
            tasks=row["tasks"],
            message=row["message"],
            state=row["state"],
            epoch=row["epoch"],
            target_epoch=row["target_epoch"],
        )
        for row in member_rows((worker.metadata.namespace, worker.metadata.name), seen)
    ]
    has_figures = is_known(seen.leader)
    counts = _counts(tasks) if has_figures else None
    ready = sum(member.phase == "Running" for member in members) if has_figures else None
    known = (*_conditions(seen.leader, worker), _members_ready(worker, members, seen), *seen.more)
    summary = summary_conditions(
        known,
        generation=worker.metadata.generation,
        settled=bool(seen.leader.get("settled")),
        problems=problems,
        reason=reason,
        deletion=deletion,
    )
    return WorkerStatus(
        observed_generation=worker.metadata.generation,
        replicas=sum(not incarnation.ended for incarnation in seen.incarnations.values()),
        ready_replicas=ready,
        selector=worker_selector(worker),
        member_summary=ratio(ready, worker.spec.replicas),
        task_summary=_task_summary(counts),
        held_summary=_held_summary(tasks, now_ms),
        tasks=counts,
        members=tuple(members),
        held=tuple(
            HeldTaskStatus(
                task=task["name"],
                identity=task["held_for"],
                until=timestamp(task["held_until_ms"]),
                reason=task["held_reason"],
            )
            for task in seen.leader.get("tasks", ())
            if "held_for" in task
        ),
        adopted=tuple(_adopted(worker, seen)),
        protocol=protocol_of(worker, seen.leader),
        last_rebalance=_last_rebalance(seen.leader),
        conditions=(*summary, *known),
    )


def connector_status(
    connector: Connector,
    workers: Sequence[Worker],
    leader: Leader,
    now_ms: int,
    problems: Sequence[str] = (),
    bound_worker: str | None = None,
    withheld: str = "",
    deletion: str = "",
    local: PodLocal = NOTHING_LOCAL,
) -> ConnectorStatus:
    """The status of a Connector.

    * ``problems``: why the present spec was refused; the status then describes the previous one.
    * ``bound_worker``: the Worker whose group has its progress, if any.
    * ``withheld``: why it is not started (see :mod:`cooperator.host.outputs`).
    * ``deletion``: what its deletion waits for.
    * ``local``: storage of its Worker that ends with a pod.
    """
    name = connector.connector_name
    tasks = [task for task in leader.get("tasks", ()) if task["connector"] == name]
    found = worker_found(connector, workers)
    worker = _worker_of(connector, workers)
    reports = [reported(task, now_ms) for task in tasks]
    of_tasks = [report for task, report in zip(tasks, reports, strict=True) if task["task"] >= 0]
    own_tasks = [task for task in tasks if task["task"] >= 0]
    has_figures = is_known(leader)
    counts = _counts(own_tasks) if has_figures else None
    waiting = [{**task, "waits": report.waits} for task, report in zip(tasks, reports, strict=True)]
    state = connector_state(connector.spec.state, waiting)
    return ConnectorStatus(
        observed_generation=connector.metadata.generation,
        state=state if found.status is ConditionStatus.TRUE else found.reason,
        bound_worker=bound_worker,
        selector=connector_selector(connector),
        task_summary=_task_summary(counts),
        held_summary=_held_summary(own_tasks, now_ms),
        warming_summary=warming_summary(own_tasks, now_ms),
        tasks=counts,
        lag=total(report.lag for report in of_tasks),
        rows_per_second=total(report.rows_per_second for report in of_tasks),
        state_rows=total(report.state_rows for report in of_tasks),
        state_bytes=total(report.state_bytes for report in of_tasks),
        task_statuses=tuple(
            TaskStatusEntry(
                id=task["task"],
                state=task["state"],
                reason=task.get("reason", ""),
                member=task["member"] or "",
                trace=task["trace"],
                progress=report.short,
                lag=report.lag,
                rows_per_second=report.rows_per_second,
                state_rows=report.state_rows,
                state_bytes=report.state_bytes,
                state_commit_ms=report.state_commit_ms,
                learning=learning(task, now_ms),
                last_error=report.last_error,
                reported_at=timestamp(task["at_ms"]) if task.get("at_ms") else "",
                next_attempt=timestamp(task["next_attempt_ms"]) if "next_attempt_ms" in task else "",
            )
            for task, report in zip(tasks, reports, strict=True)
        ),
        conditions=(
            *connector_conditions(
                connector,
                found,
                waiting if has_figures else None,
                problems,
                withheld,
                _refused(name, leader),
                deletion,
            ),
            *consumer_misconfigured(connector, worker),
            exactly_once(connector, worker is not None and worker.spec.is_stock, local),
        ),
    )


def _refused(name: str, leader: Leader) -> str:
    reason = leader.get("refused", {}).get(name, "")
    if not reason:
        return ""
    return (
        f"the broker rejects the record of its configuration ({reason}): make it "
        "smaller, or raise max.message.bytes of that topic; until then it keeps its previous configuration"
    )


def _worker_of(connector: Connector, workers: Iterable[Worker]) -> Worker | None:
    place = (connector.metadata.namespace, connector.spec.worker_ref.name)
    return next((each for each in workers if (each.metadata.namespace, each.metadata.name) == place), None)


def _adopted(worker: Worker, seen: WorkerFacts) -> Iterator[AdoptedStatus]:
    """Configured connectors that no resource here asks for, and that run on."""
    adopts = worker.spec.group_policy is GroupPolicy.ADOPT
    orphans = seen.leader.get("orphans", ())
    asked_for = seen.leader.get("inputs", {}).get("weights", {})
    for name, connector in seen.leader.get("connectors", {}).items():
        if name not in asked_for and (adopts or name in orphans):
            yield AdoptedStatus(name=name, state=connector["state"], tasks=connector["tasks"])


def member_rows(worker: tuple[str, str], seen: WorkerFacts) -> list[dict[str, Any]]:
    """The members of a Worker: processes, in the group or not, and members without a process."""
    epochs_of = reconciliation(seen.leader).get("members", {})
    in_group = {member["identity"]: member for member in seen.leader.get("members", ())}
    notes = {report.subject: report.message for report in seen.reports}
    rows = []
    for identity in sorted(seen.incarnations.keys() | in_group.keys()):
        incarnation = seen.incarnations.get(identity)
        member = in_group.get(identity)
        if (
            incarnation is not None
            and incarnation.removed
            and member is None
            and identity not in seen.expected
        ):
            continue  # It is gone for good; only its log is left.
        if (
            incarnation is not None
            and member is not None
            and member["incarnation"] != incarnation.incarnation
        ):
            member = None  # The group still has the previous incarnation.
        phase = phase_of(incarnation, member)
        epochs = epochs_of.get(identity, {}) if member is not None else {}
        rows.append(
            {
                "name": identity,
                "namespace": worker[0],
                "worker": worker[1],
                "phase": phase,
                "incarnation": incarnation.incarnation
                if incarnation
                else (member or {}).get("incarnation", ""),
                "tasks": len(member["owned"]) if member else 0,
                "pid": incarnation.pid if incarnation and not incarnation.ended else None,
                "restarts": incarnation.restarts if incarnation else 0,
                "started_ms": incarnation.started_ms if incarnation else None,
                "message": notes.get(identity, "") or MESSAGES.get(phase, ""),
                "state": epochs.get("state", ""),
                "epoch": epochs.get("epoch"),
                "target_epoch": epochs.get("target_epoch"),
            }
        )
    return rows


def _held_summary(tasks: Iterable[Mapping[str, Any]], now_ms: int) -> str:
    return held_summary((task["held_until_ms"] for task in tasks if "held_for" in task), now_ms)


def _counts(tasks: Iterable[Mapping[str, Any]]) -> TaskCounts:
    states = [task["state"] for task in tasks]
    return TaskCounts(
        desired=len(states),
        running=states.count("RUNNING"),
        held=states.count("HELD"),
        failed=states.count("FAILED"),
    )


def _task_summary(counts: TaskCounts | None) -> str:
    return "?" if counts is None else ratio(counts.running, counts.desired)


def _last_rebalance(leader: Leader) -> RebalanceStatus | None:
    rebalances = leader.get("rebalances")
    if not rebalances:
        return None
    # A round that changed something says more than the empty one after it.
    last = next(
        (each for each in reversed(rebalances) if each["assigned"] or each["revoked"]), rebalances[-1]
    )
    return RebalanceStatus(
        generation=last["generation"],
        epoch=last.get("epoch") or None,
        at=timestamp(last["at_ms"]),
        reason=", by ".join(filter(None, (last["cause"], last.get("events")))),
        assigned=last["assigned"],
        revoked=last["revoked"],
        duration_ms=last.get("duration_ms", 0),
    )


def _conditions(leader: Leader, worker: Worker) -> Iterable[Condition]:
    conditions = leader.get("conditions", ())
    for condition in sorted(conditions, key=lambda c: (c["type"] not in _GOOD, c["type"])):
        yield Condition(
            type=condition["type"],
            status=ConditionStatus(condition["status"]),
            reason=condition["reason"],
            message=condition["message"],
            observed_generation=worker.metadata.generation,
            last_transition_time=timestamp(condition["since_ms"]),
        )


def _members_ready(worker: Worker, members: Sequence[MemberStatus], seen: WorkerFacts) -> Condition:
    ready = sum(member.phase == "Running" for member in members)
    wanted = worker.spec.replicas
    report = next(iter(seen.reports), None)
    failure = next((each for each in seen.more if each.type == REPLICA_FAILURE), None)
    if failure is not None and ready != wanted:
        status, reason, message = ConditionStatus.FALSE, failure.reason, failure.message
    elif report is not None:
        status, reason, message = ConditionStatus.FALSE, report.reason.value, report.message
    elif not is_known(seen.leader):
        status, reason, message = ConditionStatus.UNKNOWN, "Unknown", "the group's members are not known yet"
    elif ready == wanted:
        status, reason, message = ConditionStatus.TRUE, "MembersReady", ""
    else:
        status, reason, message = (
            ConditionStatus.FALSE,
            "Progressing",
            f"{ready} of {wanted} members are ready",
        )
        stalled = next((member for member in members if member.phase == "Stalled"), None)
        if stalled is not None:
            message = f"{message}; {stalled.identity}: {stalled.message}"
    return Condition(
        type="MembersReady",
        status=status,
        reason=reason,
        message=message,
        observed_generation=worker.metadata.generation,
    )
