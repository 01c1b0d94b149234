"""The cost of a fault, computed from what the members wrote about their tasks. Pure.

Times are ms since the epoch. A task is unassigned from its last report, or from the death of a member that
could not report any more, until it runs again.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from cooperator.model import Epoch, TaskId, TaskState, TaskStatus

_OVER = frozenset({TaskState.UNASSIGNED, TaskState.STOPPED, TaskState.FAILED, TaskState.RESTARTING})


@dataclass(frozen=True, slots=True)
class Span:
    """One run of a task: at which member, under which assignment. ``until_ms`` is None while it runs, or if
    nobody reported its end."""

    member: str
    epoch: Epoch | None
    since_ms: int
    until_ms: int | None


@dataclass(frozen=True, slots=True)
class Cost:
    """``moves`` are tasks on another member than before. ``needless`` are starts that neither a departure nor
    the balance required. ``unassigned_task_s`` is the sum over all tasks."""

    rebalances: int
    moves: int
    needless: int
    unassigned_task_s: float


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, from ``began_ms`` until now. ``departed`` are members that left, once each, with the time of
    death for those that could not report any more (None for an orderly departure). ``for_balance`` is the
    number of tasks that may move to members that came or came back."""

    began_ms: int
    departed: Mapping[str, int | None]
    for_balance: int = 0


def spans(records: Iterable[TaskStatus]) -> dict[TaskId, list[Span]]:
    """The runs of each task. ``records`` are in the order of the log."""
    found: dict[TaskId, list[Span]] = {}
    for record in records:
        incarnations = found.setdefault(record.task, [])
        last = incarnations[-1] if incarnations else None
        runs = last is not None and last.until_ms is None
        same = last is not None and (last.member, last.epoch) == (record.worker, record.epoch)
        # Another member's report of this kind is early, and this one runs on.
        again = same and record.state is TaskState.STARTING
        if record.state is TaskState.RUNNING:
            if not (runs and same):
                incarnations.append(Span(record.worker, record.epoch, record.at_ms, None))
        elif last is not None and runs and (record.state in _OVER or again):
            incarnations[-1] = replace(last, until_ms=record.at_ms)
    return found


def where(records: Iterable[TaskStatus]) -> dict[TaskId, str]:
    """The member that runs each task, by the last report."""
    incarnations = {task: spans[-1] for task, spans in spans(records).items() if spans}
    return {task: last.member for task, last in incarnations.items() if last.until_ms is None}


def cost(records: Collection[TaskStatus], fault: Fault, rebalances: int) -> Cost:
    """The cost of a fault after which all tasks run again, from all records so far."""
    moves, unassigned_ms, needless = 0, 0, 0
    for incarnations in spans(records).values():
        before = [incarnation for incarnation in incarnations if incarnation.since_ms < fault.began_ms]
        after = incarnations[len(before) :]
        if not before:
            continue
        moves += incarnations[-1].member != before[-1].member
        needless += max(0, len(after) - (before[-1].member in fault.departed))
        for one, other in zip(incarnations[len(before) - 1 :], after, strict=False):
            ended_ms = one.until_ms
            if ended_ms is None:
                ended_ms = fault.departed.get(one.member) or other.since_ms
            unassigned_ms += max(0, other.since_ms - ended_ms)
    return Cost(rebalances, moves, max(0, needless - fault.for_balance), unassigned_ms / 1000)
