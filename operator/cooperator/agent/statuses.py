"""The statuses of a member: one record whenever the state of a task changes.

Statuses are for users, and for the operator, which rolls no pod while tasks start.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from cooperator.agent.instructions import Instruction, PutStatus
from cooperator.agent.state import Said, Settings, State
from cooperator.model import RESTART_LIMIT, TaskId, TaskState, TaskStatus
from cooperator.model.text import listed

_UNITS_SHOWN: Final = 5


def say(
    state: State,
    settings: Settings,
    key: TaskId,
    what: TaskState,
    *,
    trace: str = "",
    progress: str = "",
    reason: str = "",
    next_attempt_ms: int | None = None,
) -> list[Instruction]:
    """The instruction to write the status of an owned task; none if it repeats the last one.

    ``next_attempt_ms``: by the supervisor's clock.
    """
    task = state.tasks[key]
    status = TaskStatus(
        key, what, settings.identity, epoch=task.epoch, trace=trace, progress=progress, reason=reason
    )
    said = Said(status, next_attempt_ms)
    if task.said == said:
        return []
    state.tasks[key] = replace(task, said=said)
    return [_put(said, state.now_ms)]


def say_again(state: State) -> list[Instruction]:
    """The instructions to write the last status of each task that is kept once more.

    A new leader reads the log from its beginning, where only the last record of a task may be left. That can
    be one which waited for the broker in the previous owner, and arrived after that of the present one.
    """
    kept = [task.said for task in state.tasks.values() if task.keep]
    return [_put(said, state.now_ms) for said in kept if said is not None]


def _put(said: Said, now_ms: int) -> PutStatus:
    next_ms = said.next_attempt_ms
    return PutStatus(said.status, None if next_ms is None else next_ms - now_ms)


def say_failed(state: State, settings: Settings, key: TaskId) -> list[Instruction]:
    """The status of a failed task: what it waits for, its next attempt or an intervention."""
    task = state.tasks[key]
    restart_ms = state.restart_ms(task)
    if restart_ms is not None:
        return say(state, settings, key, TaskState.RESTARTING, trace=task.trace, next_attempt_ms=restart_ms)
    if task.reason:
        return say(state, settings, key, TaskState.FAILED, trace=task.trace, reason=task.reason)
    auto = state.auto_restart(key.connector)
    if not (auto.enabled and task.restarts):
        return say(state, settings, key, TaskState.FAILED, trace=task.trace)
    # The note follows the trace, which begins with the cause.
    trace = (
        f"{task.trace.rstrip()}\n\nIt has failed again after {task.restarts} automatic restarts "
        f"(maxRestarts is {auto.max_restarts}) and stays failed: fix the cause, then restart it."
    )
    return say(state, settings, key, TaskState.FAILED, trace=trace, reason=RESTART_LIMIT)


def unit_of(config: Mapping[str, str] | None) -> str:
    """The units of a task by their names, for a message; an instance has none."""
    units = [unit for unit in (config or {}).get("task.units", "").split(",") if unit]
    if not units:
        return "no units"
    return f"unit{'s' if len(units) > 1 else ''} {listed(units, _UNITS_SHOWN)}"
