"""What a fault cost, out of what the members wrote about their tasks. Pure.

Times are ms since the epoch. A task is without a member from its last word, or from the death of the member
that could say nothing any more, until it runs again.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from cooperator.model import Epoch, TaskId, TaskState, TaskStatus

_OVER = frozenset({TaskState.UNASSIGNED, TaskState.STOPPED, TaskState.FAILED, TaskState.RESTARTING})


@dataclass(frozen=True, slots=True)
class Span:
    """One life of a task: at which member, under which share; ``until_ms``: None while it runs, or when
    nobody said that it ended."""

    member: str
    epoch: Epoch | None
    since_ms: int
    until_ms: int | None


@dataclass(frozen=True, slots=True)
class Cost:
    """``moves``: tasks that are on another member than before. ``needless``: starts that neither a departure
    nor the balance asked for. ``unassigned_task_s``: the sum over all tasks."""

    rebalances: int
    moves: int
    needless: int
    unassigned_task_s: float


@dataclass(frozen=True, slots=True)
class Fault:
    """What was done, between ``began_ms`` and now. ``departed``: members that left, once each, each with the
    time of its death where it could not say anything more (None: it went in order). ``for_balance``: how many
    tasks may move so that members that came, or came back, have their part."""

    began_ms: int
    departed: Mapping[str, int | None]
    for_balance: int = 0


def spans(records: Iterable[TaskStatus]) -> dict[TaskId, list[Span]]:
    """The lives of each task. ``records``: in the order of the log."""
    found: dict[TaskId, list[Span]] = {}
    for record in records:
        lives = found.setdefault(record.task, [])
        last = lives[-1] if lives else None
        runs = last is not None and last.until_ms is None
        same = last is not None and (last.member, last.epoch) == (record.worker, record.epoch)
        # Another member that says so is early, and this one runs on.
        again = same and record.state is TaskState.STARTING
        if record.state is TaskState.RUNNING:
            if not (runs and same):
                lives.append(Span(record.worker, record.epoch, record.at_ms, None))
        elif last is not None and runs and (record.state in _OVER or again):
            lives[-1] = replace(last, until_ms=record.at_ms)
    return found


def where(records: Iterable[TaskStatus]) -> dict[TaskId, str]:
    """Who runs each task, by the last word."""
    lives = {task: spans[-1] for task, spans in spans(records).items() if spans}
    return {task: last.member for task, last in lives.items() if last.until_ms is None}


def cost(records: Collection[TaskStatus], fault: Fault, rebalances: int) -> Cost:
    """Of a fault after which all tasks run again, by all records that there are by then."""
    moves, unassigned_ms, needless = 0, 0, 0
    for lives in spans(records).values():
        before = [life for life in lives if life.since_ms < fault.began_ms]
        after = lives[len(before) :]
        if not before:
            continue
        moves += lives[-1].member != before[-1].member
        needless += max(0, len(after) - (before[-1].member in fault.departed))
        for one, other in zip(lives[len(before) - 1 :], after, strict=False):
            ended_ms = one.until_ms
            if ended_ms is None:
                ended_ms = fault.departed.get(one.member) or other.since_ms
            unassigned_ms += max(0, other.since_ms - ended_ms)
    return Cost(rebalances, moves, max(0, needless - fault.for_balance), unassigned_ms / 1000)
