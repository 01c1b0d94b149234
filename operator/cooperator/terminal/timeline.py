"""The history of tasks by member, with holds and failures: intervals computed from the logs. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cooperator.model import HoldReason, Memory, TaskId, TaskState, TaskStatus


class StretchKind(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    FAILED = "failed"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Stretch:
    """An interval of a task. ``member`` runs the task, or it is held for it. Times are ms since the epoch."""

    task: TaskId
    kind: StretchKind
    member: str
    since_ms: int
    until_ms: int


_KINDS: Final = {
    TaskState.RUNNING: StretchKind.RUNNING,
    TaskState.PAUSED: StretchKind.PAUSED,
    TaskState.FAILED: StretchKind.FAILED,
    # Tasks still run while they are being stopped.
    TaskState.STOPPING: StretchKind.RUNNING,
}


def stretches(
    statuses: Iterable[TaskStatus], memories: Iterable[Memory], from_ms: int, to_ms: int
) -> list[Stretch]:
    """Returns the intervals from ``from_ms`` to ``to_ms``, by task and time. ``statuses`` are sorted by time.

    A killed member could not report the end of its tasks: they ended when the leader began to hold them. A
    task is held until the next report about it, at most to the end of its hold. If the hold ended without a
    report, its member came back with the task, which had been running all the time; the same applies to tasks
    of members that were evicted only for a moment.
    """
    changes: dict[TaskId, list[tuple[int, StretchKind | None, str]]] = {}
    for status in statuses:
        changes.setdefault(status.task, []).append((status.at_ms, _kind(status), status.worker))
    for task, hold in _holds(tuple(memories)).items():
        known = changes.setdefault(task, [])
        for identity, since_ms, until_ms, lasts in hold:
            words = [at_ms for at_ms, kind, _ in known if kind is not StretchKind.HELD and at_ms > since_ms]
            if words or lasts:
                known.append((since_ms, StretchKind.HELD, identity))
                if not words or min(words) > until_ms:
                    known.append((until_ms, None, identity))
    found = [stretch for task in sorted(changes) for stretch in _of(task, changes[task], to_ms)]
    return [_cut(one, from_ms, to_ms) for one in found if one.since_ms < to_ms and one.until_ms > from_ms]


def _holds(memories: tuple[Memory, ...]) -> dict[TaskId, set[tuple[str, int, int, bool]]]:
    """Returns the holds of each task: (member, since and until in ms, whether the last memory has it)."""
    found: dict[TaskId, dict[tuple[str, int], tuple[int, bool]]] = {}
    for memory in memories:
        for identity, hold in memory.holds.items():
            for task in hold.tasks if hold.reason is not HoldReason.EVICTED else ():
                lasts = memories[-1].holds.get(identity)
                still = lasts is not None and lasts.since_ms == hold.since_ms
                found.setdefault(task, {})[identity, hold.since_ms] = hold.until_ms, still
    return {task: {(*key, *value) for key, value in holds.items()} for task, holds in found.items()}


def _kind(status: TaskStatus) -> StretchKind | None:
    if status.state is TaskState.RESTARTING:
        # A status with a trace means that the task has failed, and waits for its next attempt.
        return StretchKind.FAILED if status.trace else None
    return _KINDS.get(status.state)


def _of(task: TaskId, changes: list[tuple[int, StretchKind | None, str]], to_ms: int) -> Iterator[Stretch]:
    current: tuple[StretchKind, str, int] | None = None
    for at_ms, kind, member in sorted(changes, key=lambda change: change[0]):
        if current is not None and current[:2] == (kind, member):
            continue
        if current is not None:
            yield Stretch(task, *current[:2], current[2], at_ms)
        current = None if kind is None else (kind, member, at_ms)
    if current is not None:
        yield Stretch(task, *current[:2], current[2], max(to_ms, current[2]))


def _cut(stretch: Stretch, from_ms: int, to_ms: int) -> Stretch:
    since_ms, until_ms = max(stretch.since_ms, from_ms), min(stretch.until_ms, to_ms)
    return Stretch(stretch.task, stretch.kind, stretch.member, since_ms, until_ms)
