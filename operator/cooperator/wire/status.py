"""The records of Kafka Connect's status topic, and our additions to them.

Key ``status-task-NAME-N`` or ``status-connector-NAME``; value ``{"state","trace","worker_id",
"generation"}``. Values unknown to stock workers are in one more field, ``cooperator``, which they ignore;
``state`` always holds one of their states, because their reader drops records with unknown ones.
"""

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from cooperator.model import INSTANCE, Epoch, TaskId, TaskState, TaskStatus
from cooperator.wire.fields import Fields
from cooperator.wire.records import Record, Unknown, dump_json, parse_json

_TASK: Final = "status-task-"
_CONNECTOR: Final = "status-connector-"
_OURS: Final = "cooperator"
_TASK_KEY: Final = re.compile(r"(?s)(.+)-([0-9]{1,10})\Z")

# The state shown to stock workers in place of ours: a stopping task is still RUNNING.
_STOCK: Final = MappingProxyType(
    {
        TaskState.STARTING: TaskState.UNASSIGNED,
        TaskState.STOPPING: TaskState.RUNNING,
        TaskState.HELD: TaskState.UNASSIGNED,
    }
)
_ENDED: Final = frozenset({TaskState.UNASSIGNED, TaskState.STOPPED, TaskState.HELD})
_ENDING: Final = _ENDED | {TaskState.STOPPING}


@dataclass(frozen=True, slots=True)
class StatusTombstone:
    """The task or instance no longer has a status."""

    task: TaskId


def status_key(task: TaskId) -> str:
    if task.task == INSTANCE:
        return _CONNECTOR + task.connector
    return f"{_TASK}{task.connector}-{task.task}"


def encode_status(status: TaskStatus) -> Record:
    """The record as Kafka Connect would write it, with our additions. Raises EncodeError."""
    epoch = status.epoch
    stock = _STOCK.get(status.state, status.state)
    ours: dict[str, Any] = {}
    if stock is not status.state:
        ours["state"] = status.state.value
    if epoch is not None:
        ours["term"] = epoch.term
    if status.at_ms:
        ours["at_ms"] = status.at_ms
    if status.progress:
        ours["progress"] = status.progress
    if status.reason:
        ours["reason"] = status.reason
    if status.next_attempt_ms:
        ours["next_attempt_ms"] = status.next_attempt_ms
    value: dict[str, Any] = {
        "state": stock.value,
        "trace": status.trace or None,
        "worker_id": status.worker,
        "generation": -1 if epoch is None else epoch.generation,
    }
    if ours:
        value[_OURS] = ours
    key = status_key(status.task)
    return Record(key, dump_json(value, key))


def encode_status_tombstone(task: TaskId) -> Record:
    return Record(status_key(task), None)


def decode_status(record: Record) -> TaskStatus | StatusTombstone | Unknown:
    """Returns what the record says; Unknown for keys that are not a task's or connector's
    (``status-topic-…``).

    A stock worker's record has term 0, since it knows no terms. Raises DecodeError for a malformed value.
    """
    task = _task_of(record.key)
    if task is None:
        return Unknown(record.key, "no task's or connector's key")
    if record.value is None:
        return StatusTombstone(task)
    value = Fields(parse_json(record.value, record.key), record.key)
    ours = value.object_or_empty(_OURS)
    generation = value.integer("generation", -1)
    epoch: Epoch | None = None
    if "term" in ours or generation >= 0:
        epoch = Epoch(ours.integer("term", 0), generation)
    stock = value.choice("state", TaskState)
    return TaskStatus(
        task=task,
        # Our states are written in ``cooperator``, beside a state that stock workers know.
        state=_own_state(ours.text("state", stock), stock),
        worker=value.text("worker_id", ""),
        epoch=epoch,
        at_ms=ours.integer("at_ms", 0),
        trace=value.text("trace", ""),
        progress=ours.text("progress", ""),
        reason=ours.text("reason", ""),
        next_attempt_ms=ours.integer("next_attempt_ms", 0),
    )


def _own_state(text: str, stock: TaskState) -> TaskState:
    return TaskState(text) if text in TaskState.__members__ else stock


def _task_of(key: str) -> TaskId | None:
    if key.startswith(_CONNECTOR) and key != _CONNECTOR:
        return TaskId(key.removeprefix(_CONNECTOR), INSTANCE)
    if key.startswith(_TASK):
        matched = _TASK_KEY.match(key.removeprefix(_TASK))
        if matched is not None and int(matched[2]) < 2**31:
            return TaskId(matched[1], int(matched[2]))
    return None


def supersedes(new: TaskStatus, old: TaskStatus | None) -> bool:
    """Whether ``new``, read later, replaces ``old``.

    It does, unless it is another worker's late record of an older round: members write independently, so
    their records may arrive in any order. Between two terms the round alone does not decide, since terms
    count from the beginning when the topics of a group are created again: there a record is late if the task
    ends by it, and is alive in the newer round, or if it is older by the clocks, too.
    """
    if old is None or new.worker == old.worker or new.epoch is None or old.epoch is None:
        return True
    if not new.epoch < old.epoch:
        return True
    if new.epoch.term == old.epoch.term:
        return False
    ends = new.state in _ENDING and old.state not in _ENDED
    # A stock worker's record has no time.
    return not (ends or 0 < new.at_ms <= old.at_ms)


def apply_status(statuses: dict[TaskId, TaskStatus], entry: TaskStatus | StatusTombstone | Unknown) -> bool:
    """Apply one record, in log order, to ``statuses``. Returns whether anything changed."""
    match entry:
        case TaskStatus():
            old = statuses.get(entry.task)
            if entry == old or not supersedes(entry, old):
                return False
            statuses[entry.task] = entry
            return True
        case StatusTombstone(task):
            return statuses.pop(task, None) is not None
        case Unknown():
            return False
