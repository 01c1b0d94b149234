"""The status of a group as one JSON-like value: a projection for people, never read back to decide."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any, Final

from cooperator.leader.learner_reports import shown
from cooperator.leader.state import LeaderState
from cooperator.leader.stock import members as stock
from cooperator.model import INSTANCE, Epoch, Member, TargetState, TaskId, TaskState, TaskStatus, Warmth
from cooperator.model.status import GROUP_TOO_LARGE, HUNG, UNEXPECTED_MEMBER
from cooperator.reconciliation import MemberState, ReconciledGroup

POISON_TASK: Final = "PoisonTask"
SUSPECT_TASK: Final = "SuspectTask"
_SUSPICION: Final = (
    "Members ended repeatedly soon after this task and others were assigned to them; "
    "these tasks now start one at a time, and this one waits for its turn."
)
_HUNG_SHOWN: Final = 5
_QUARANTINE: Final = (
    "Members ended repeatedly soon after this task was assigned to them, so it is "
    "quarantined: fix its connector, then restart it."
)
_NO_ROOM: Final = (
    "The group's record at the broker has no room for this task; its Connector's condition says more."
)


def project(state: LeaderState, statuses: Mapping[TaskId, TaskStatus]) -> dict[str, Any]:
    """Members, connectors, tasks (with holds and their ends), the last rebalances, totals.

    ``known``: whether members and tasks are the group's. They are not before a round of this tenure is
    complete, and while members from before it may be on their way back.

    Times are milliseconds since the epoch. A task's state is the last report of its owner under the present
    ownership, with the time of its next attempt (``next_attempt_ms``) if it waits for one. HELD, UNASSIGNED,
    and FAILED with the reason ``PoisonTask`` are set by the leader itself.
    """
    ended = state.facts.ended
    owner_of = {
        task: member
        for member in state.members
        for task in member.owned
        # The end of an incarnation is known before the round without it.
        if task not in state.facts.poisoned or (member.identity, member.incarnation) not in ended
    }
    hung_stops = list(_hung_stops(state, statuses))
    return {
        "leading": state.leading,
        "term": state.memory.term,
        "generation": state.generation,
        "known": state.is_known,
        "protocol": state.protocol,
        "reconciliation": None if state.group is None else _reconciliation(state.group, state.avoided),
        "members": [_member(member) for member in sorted(state.members, key=lambda m: m.identity)],
        "awaited": dict(sorted(state.awaited.items())),
        "incarnations": _listed(_incarnations(state)),
        "addresses": _addresses(state),
        "unexpected": sorted(state.unexpected),
        "hung": [{**asdict(each), "items": [str(task) for task in each.items]} for each in state.hung],
        "hung_stops": [trace for _, trace in hung_stops],
        "hanging": sorted({identity for identity, _ in hung_stops}),
        "held_down_by": list(state.held_down_by),
        "connectors": {
            name: {
                "state": connector.target.value,
                "tasks": connector.task_count,
                "regrouping": name in state.regroups,
            }
            for name, connector in sorted(state.config.connectors.items())
        },
        "tasks": list(_tasks(state, statuses, owner_of)),
        "rebalances": [asdict(rebalance) for rebalance in state.history.rebalances],
        "counters": dict(sorted(state.history.counters.items())),
        "reasons": dict(sorted(state.history.reasons.items())),
        "trouble": state.trouble,
        "refusal": state.refusal,
        "topic_refusal": state.topic_refusal,
        "unwritten": state.unwritten,
        "refused": {name: each.reason for name, each in sorted(state.refused.items())},
        "warnings": list(state.plan.warnings) if state.plan is not None else [],
        "orphans": list(state.orphans),
        "inputs": _inputs(state),
    }


def _reconciliation(group: ReconciledGroup, avoided: frozenset[str]) -> dict[str, Any]:
    """Epochs and states of a group without rounds, in the words of KIP-848."""
    return {
        "state": _group_state(group, avoided),
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "settled": not _waiting(group, avoided) and all(_has_target(group, i) for i in group.members),
        "members": {
            identity: {
                "state": member.current.state.value,
                "epoch": member.current.member_epoch,
                "target_epoch": group.target_of(identity).epoch,
            }
            for identity, member in sorted(group.members.items())
        },
    }


def _waiting(group: ReconciledGroup, avoided: frozenset[str]) -> bool:
    """Whether a member that the last layout ``avoided`` has no tasks, and gets some from the next one."""
    return any(not group.target_of(i).tasks for i in avoided & group.members.keys())


def _group_state(group: ReconciledGroup, avoided: frozenset[str]) -> str:
    """As Kafka's ``ConsumerGroup.state``: Empty, Assigning, Reconciling or Stable."""
    if not group.members:
        return "Empty"
    if group.epoch > group.assignment_epoch or _waiting(group, avoided):
        return "Assigning"
    is_stable = all(_has_target(group, identity) for identity in group.members)
    return "Stable" if is_stable else "Reconciling"


def _has_target(group: ReconciledGroup, identity: str) -> bool:
    current = group.members[identity].current
    return current.state is MemberState.STABLE and current.member_epoch == group.target_of(identity).epoch


def _hung_stops(state: LeaderState, statuses: Mapping[TaskId, TaskStatus]) -> Iterator[tuple[str, str]]:
    """Identities of members with their reports of tasks that hang in their stop, including tasks of deleted
    connectors."""
    ended = state.facts.ended
    for member in sorted(state.members, key=lambda m: m.identity):
        if (member.identity, member.incarnation) in ended:
            continue
        for task in sorted(member.owned):
            reported = statuses.get(task)
            if reported is not None and _hangs(reported) and _is_of(reported, member, state.history.born):
                yield member.identity, reported.trace


def _hangs(reported: TaskStatus) -> bool:
    return reported.state is TaskState.STOPPING and reported.reason == HUNG


def _incarnations(state: LeaderState) -> set[tuple[str, str]]:
    """(identity, incarnation) of every incarnation whose end would change a decision."""
    memory = state.memory
    return {
        *((member.identity, member.incarnation) for member in state.members),
        *memory.incarnations.items(),
        *((identity, hold.incarnation) for identity, hold in memory.holds.items()),
        *((entry.identity, entry.incarnation) for entry in memory.unstopped),
    }


def _addresses(state: LeaderState) -> dict[str, str]:
    """By incarnation of a stock worker: the host and port at which it serves, if they are known."""
    incarnations = state.memory.incarnations
    known = {incarnations[i]: at for i, at in sorted(state.memory.addresses.items()) if i in incarnations}
    return known | {m.incarnation: m.worker_id for m in state.members if not m.is_agent and m.url}


def _inputs(state: LeaderState) -> dict[str, Any]:
    """The inputs of the leader's plans that no log contains; ``group_inspector.told`` reads them."""
    facts = {
        each.name: None if (value := getattr(state.facts, each.name)) is None else _listed(value)
        for each in fields(state.facts)
    }
    suspended = {task for regroup in state.regroups.values() for task in regroup.affected}
    desired = state.desired.connectors if state.desired is not None else {}
    return {
        "facts": facts,
        "suspended": _listed(suspended),
        "weights": {name: connector.weight for name, connector in sorted(desired.items())},
    }


def _listed(values: Iterable[Any]) -> list[Any]:
    return [list(value) if isinstance(value, tuple) else value for value in sorted(values)]


def plan_conditions(status: Mapping[str, Any]) -> Iterator[tuple[str, bool, str, str]]:
    """Type, status, reason and message of the conditions that a projection implies about the last plan."""
    reasons = {"WrongConfigTopic": "topic_refusal", GROUP_TOO_LARGE: "refusal", "CannotWrite": "unwritten"}
    said = ((reason, str(status.get(key, ""))) for reason, key in reasons.items())
    reason, message = next((each for each in said if each[1]), ("Planned", ""))
    yield "Planned", not message, reason, message
    warnings = "; ".join(status.get("warnings", ()))
    yield "PlannedAsAsked", not warnings, "PlanWarning" if warnings else "PlannedAsAsked", warnings
    yield from stock.conditions(status)
    strangers = ", ".join(status.get("unexpected", ())[:_HUNG_SHOWN])
    text = f"{strangers}: not a member of this Worker, so it gets no tasks: end that process"
    yield UNEXPECTED_MEMBER, bool(strangers), "Stranger" if strangers else "None", text if strangers else ""
    found = "; ".join(filter(None, (stock.hung_text(status), *status.get("hung_stops", ())[:_HUNG_SHOWN])))
    yield HUNG, bool(found), "MemberHangs" if found else "NoneHangs", found


def is_settled(status: Mapping[str, Any]) -> bool:
    """Whether nothing moves, waits or starts in a projection: every configured task is at rest.

    A failed task is at rest, even if it waits for its next attempt: no round will help it. A group with a
    member that warms up is not settled: the member will be assigned tasks when it is warm. Likewise a task
    that a member learns in order to take it over.
    """
    return (
        bool(status["leading"])
        and not status["awaited"]
        and not (status.get("reconciliation") and not status["reconciliation"]["settled"])
        and not any(connector["regrouping"] for connector in status["connectors"].values())
        and not any(
            member["stopping"] or member["draining"] or member["runtime"] == Warmth.WARMING
            for member in status["members"]
        )
        and all(_is_at_rest(task, status["connectors"][task["connector"]]) for task in status["tasks"])
    )


def _is_at_rest(task: Mapping[str, Any], connector: Mapping[str, Any]) -> bool:
    if task["state"] == TaskState.STOPPED.value:
        # The instance of a stopped connector stays assigned and does not run (KIP-875).
        return bool(connector["state"] == TargetState.STOPPED.value)
    if any(learner["role"] == "warmup" for learner in task.get("learners", ())):
        return False
    resting = {TaskState.RUNNING.value, TaskState.PAUSED.value, TaskState.FAILED.value}
    return task["state"] in resting or "next_attempt_ms" in task


def _member(member: Member) -> dict[str, Any]:
    return {
        "identity": member.identity,
        "member_id": member.member_id,
        "incarnation": member.incarnation,
        "owned": [str(task) for task in sorted(member.owned)],
        "stopping": [str(task) for task in sorted(member.stopping)],
        "draining": member.draining,
        "runtime": member.warmth.value,
        "is_agent": member.is_agent,
        "applied": str(member.applied) if member.applied else None,
    }


def _is_of(reported: TaskStatus, owner: Member, born: Mapping[str, tuple[str, Epoch]]) -> bool:
    """Whether ``owner`` reported this in its present incarnation.

    An incarnation that was killed could not retract its last status.
    """
    if reported.worker != owner.worker_id:
        return False
    incarnation, epoch = born.get(owner.identity, ("", None))
    if epoch is None or incarnation != owner.incarnation or not isinstance(reported.epoch, Epoch):
        return True
    if not owner.is_agent:
        return reported.epoch.generation >= epoch.generation  # Stock workers know no terms.
    return reported.epoch >= epoch


def _configured(state: LeaderState) -> Iterator[TaskId]:
    for name, connector in sorted(state.config.connectors.items()):
        yield TaskId(name, INSTANCE)
        for number in range(connector.task_count):
            yield TaskId(name, number)


def _tasks(
    state: LeaderState, statuses: Mapping[TaskId, TaskStatus], owner_of: Mapping[TaskId, Member]
) -> Iterator[dict[str, Any]]:
    held = state.plan.held if state.plan is not None else {}
    refused = frozenset(state.refused_tasks if state.leading else ())
    learners = shown(state.learners, state.memory, state.members)
    for task in _configured(state):
        owner = owner_of.get(task)
        reported = statuses.get(task)
        entry: dict[str, Any] = {
            "name": str(task),
            "connector": task.connector,
            "task": task.task,
            "member": owner.identity if owner else None,
            "worker_id": owner.worker_id if owner else None,
            "state": TaskState.UNASSIGNED.value,
            "at_ms": reported.at_ms if reported else 0,
            "progress": "",
            "trace": "",
        }
        if owner is not None and reported is not None and _is_of(reported, owner, state.history.born):
            entry["state"] = reported.state.value
            entry["epoch"] = str(reported.epoch) if isinstance(reported.epoch, Epoch) else None
            entry["progress"] = reported.progress
            entry["trace"] = reported.trace
            if reported.reason:
                entry["reason"] = reported.reason
            if reported.next_attempt_ms:
                entry["next_attempt_ms"] = reported.next_attempt_ms
        elif owner is None and task in state.facts.suspected:
            entry["reason"] = SUSPECT_TASK
            entry["trace"] = _SUSPICION
        elif owner is None and task in state.facts.poisoned:
            entry["state"] = TaskState.FAILED.value
            entry["reason"] = POISON_TASK
            entry["trace"] = _QUARANTINE
        elif owner is None and task in refused:
            entry["reason"] = GROUP_TOO_LARGE
            entry["trace"] = _NO_ROOM
        elif owner is None and task in held:
            wait = held[task]
            entry["state"] = TaskState.HELD.value
            entry["held_for"] = wait.identity
            entry["held_until_ms"] = wait.until_ms
            entry["held_reason"] = wait.reason.value
        if task in learners:
            entry["learners"] = learners[task]
        yield entry
