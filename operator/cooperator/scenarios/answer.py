"""The answer to a "what if" question: the simulated run, in a form for people and programs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cooperator.model import Memory, TaskId
from cooperator.planner import Reason, View
from cooperator.scenarios.changes import Change
from cooperator.scenarios.driver import ScenarioRound, ScenarioRun
from cooperator.scenarios.group import ScenarioGroup
from cooperator.scenarios.snapshot import LedBy, Snapshot

FORMAT: Final = "cooperator-answer/1"


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A member releases or starts a task (or instance); ``why`` is a ``planner.Why``."""

    task: TaskId
    member: str
    why: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A task that is held for an identity until ``until_ms`` (ms since the epoch); ``why`` is a
    ``model.HoldReason``."""

    task: TaskId
    held_for: str
    until_ms: int
    why: str


@dataclass(frozen=True, slots=True)
class PlayedRound:
    """One round that changes something. ``held``: all tasks that are held after it."""

    at_ms: int
    cause: str
    lets_go: tuple[PlanStep, ...]
    starts: tuple[PlanStep, ...]
    held: tuple[Waiting, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """(connector instances, tasks) of a member; None when it is not in the group."""

    member: str
    before: tuple[int, int] | None
    after: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A task that ends on another member than the one that ran it, or for which it was held."""

    task: TaskId
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class WhatIfAnswer:
    """The answer to a "what if" question.

    ``rounds``: the rounds that change something, until rest. ``starts``: number of task starts.
    ``stops``: number of running tasks that members stop. ``unassigned_task_ms``: the sum over all tasks of
    the time that each is unassigned because of holds, leases and delays; one that is stopped counts for
    ``meter.HAND_OVER_MS`` at least. ``longest_unassigned_ms``: the longest of these times. ``placed``: the
    member of each running item at the end; ``unassigned``: the items that no member runs. ``at_rest``: False
    when the simulation was cut off. ``rest_at_ms``: time of the last change. ``notes``: the assumptions
    behind the answer.
    """

    group: str
    led_by: LedBy
    policy: str
    now_ms: int
    changes: tuple[str, ...]
    rounds: tuple[PlayedRound, ...]
    loads: tuple[Load, ...]
    moved: tuple[Moved, ...]
    starts: int
    stops: int
    unassigned_task_ms: int
    longest_unassigned_ms: int
    placed: Mapping[TaskId, str]
    unassigned: tuple[TaskId, ...]
    at_rest: bool
    rest_at_ms: int
    notes: tuple[str, ...]


def answer_of(
    snapshot: Snapshot, changes: Sequence[Change], run: ScenarioRun, notes: Iterable[str]
) -> WhatIfAnswer:
    """Return the answer from a run that began at ``snapshot``."""
    group, view = run.group, snapshot.view
    placed = {task: process.name for process in group.members() for task in process.running}
    warnings = dict.fromkeys(text for round_ in run.rounds for text in round_.outcome.plan.warnings)
    rounds = tuple(_rounds(run.rounds, snapshot.memory, view.now_ms))
    return WhatIfAnswer(
        group=snapshot.group,
        led_by=snapshot.led_by,
        policy=view.policy.name.value,
        now_ms=view.now_ms,
        changes=tuple(map(str, changes)),
        rounds=rounds,
        loads=tuple(_loads(view, group)),
        moved=tuple(_moved(snapshot, placed)),
        starts=group.meter.tasks.starts,
        stops=group.meter.tasks.stops,
        unassigned_task_ms=group.meter.tasks.down_ms,
        longest_unassigned_ms=group.meter.longest_down_ms,
        placed={task: placed[task] for task in sorted(placed)},
        unassigned=tuple(sorted(group.items() - placed.keys())),
        at_rest=run.quiescent,
        rest_at_ms=rounds[-1].at_ms if rounds else view.now_ms,
        notes=(*snapshot.notes, *warnings, *notes),
    )


def due(memory: Memory) -> dict[str, frozenset[TaskId]]:
    """Return the tasks given to, or held for, each identity."""
    owed = dict(memory.given)
    for identity, hold in memory.holds.items():
        owed[identity] = owed.get(identity, frozenset()) | hold.tasks
    return owed


def _rounds(rounds: Iterable[ScenarioRound], memory: Memory, now_ms: int) -> Iterator[PlayedRound]:
    holds = (hold for hold in memory.holds.values() if hold.until_ms > now_ms)
    waiting = frozenset(task for hold in holds for task in hold.tasks)
    for round_ in rounds:
        plan = round_.outcome.plan
        lets_go: list[PlanStep] = []
        starts: list[PlanStep] = []
        for member in round_.members:
            assignment, name = round_.outcome.assignment(member.member_id), member.process.name
            lets_go += (PlanStep(task, name, _why(plan.revoked_why, task)) for task in assignment.revoked)
            starts += (PlanStep(task, name, _why(plan.assigned_why, task)) for task in assignment.assigned)
        if lets_go or starts or plan.held.keys() != waiting:
            held = (Waiting(t, w.identity, w.until_ms, w.reason.value) for t, w in sorted(plan.held.items()))
            yield PlayedRound(
                at_ms=round_.time_ms,
                cause=_cause(round_),
                lets_go=tuple(sorted(lets_go, key=_order)),
                starts=tuple(sorted(starts, key=_order)),
                held=tuple(held),
            )
        waiting = frozenset(plan.held)


def _order(step: PlanStep) -> tuple[str, TaskId]:
    return step.member, step.task


def _why(reasons: Mapping[TaskId, Reason], task: TaskId) -> str:
    reason = reasons.get(task)
    return reason.why.value if reason is not None else ""


_CAUSES: Final = {
    "rejoin": "revoked tasks have stopped",
    "scheduled": "a delay has ended",
    "start": "initial state",
}


def _cause(round_: ScenarioRound) -> str:
    texts = dict.fromkeys(str(event.raw["says"]) for event in round_.events)
    return ", ".join(texts or (_CAUSES[trigger] for trigger in round_.trigger))


def _loads(view: View, group: ScenarioGroup) -> Iterator[Load]:
    before: dict[str, list[TaskId]] = {}
    after: dict[str, list[TaskId]] = {}
    for member in view.members:
        before.setdefault(member.identity, []).extend(member.owned)
    for process in group.members():
        after.setdefault(process.name, []).extend(process.running)
    for identity in sorted(before.keys() | after.keys()):
        yield Load(identity, _load(before.get(identity)), _load(after.get(identity)))


def _load(tasks: Sequence[TaskId] | None) -> tuple[int, int] | None:
    if tasks is None:
        return None
    instances = sum(task.is_instance for task in tasks)
    return instances, len(tasks) - instances


def _moved(snapshot: Snapshot, now: Mapping[TaskId, str]) -> Iterator[Moved]:
    was = {task: identity for identity, tasks in due(snapshot.memory).items() for task in tasks}
    was |= {task: member.identity for member in snapshot.view.members for task in member.owned}
    for task in sorted(now.keys() & was.keys()):
        if now[task] != was[task]:
            yield Moved(task, was[task], now[task])


def to_plain(answer: WhatIfAnswer) -> dict[str, Any]:
    """Return the answer as a JSON value; the format is documented in ``docs/planner.md``."""
    now_ms = answer.now_ms
    return {
        "format": FORMAT,
        "group": answer.group,
        "led_by": answer.led_by.value,
        "policy": answer.policy,
        "now_ms": now_ms,
        "changes": list(answer.changes),
        "rounds": [
            {
                "after_ms": round_.at_ms - now_ms,
                "cause": round_.cause,
                "lets_go": list(map(_step, round_.lets_go)),
                "starts": list(map(_step, round_.starts)),
                "held": [
                    {**_item(w.task), "held_for": w.held_for, "until_ms": w.until_ms, "why": w.why}
                    for w in round_.held
                ],
            }
            for round_ in answer.rounds
        ],
        "members": [
            {"name": load.member, "before": _counts(load.before), "after": _counts(load.after)}
            for load in answer.loads
        ],
        "moved": [{**_item(m.task), "from": m.before, "to": m.after} for m in answer.moved],
        "task_starts": answer.starts,
        "task_stops": answer.stops,
        "unassigned_task_ms": answer.unassigned_task_ms,
        "longest_unassigned_ms": answer.longest_unassigned_ms,
        "placed": [{**_item(task), "member": member} for task, member in answer.placed.items()],
        "unassigned": [_item(task) for task in answer.unassigned],
        "at_rest": answer.at_rest,
        "rest_after_ms": answer.rest_at_ms - now_ms,
        "notes": list(answer.notes),
    }


def _item(task: TaskId) -> dict[str, Any]:
    return {"name": str(task), "connector": task.connector, "task": task.task}


def _step(step: PlanStep) -> dict[str, Any]:
    return {**_item(step.task), "member": step.member, "why": step.why}


def _counts(load: tuple[int, int] | None) -> dict[str, int] | None:
    return None if load is None else {"connectors": load[0], "tasks": load[1]}
