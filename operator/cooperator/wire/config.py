"""The records of Kafka Connect's config topic (docs/protocol.md, section 8), record for record.

Keys are plain strings, values JSON without an envelope. ``fold`` interprets sequences of well-formed records.
"""

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from cooperator.model import SessionKey, TargetState, TaskId
from cooperator.wire.fields import Fields
from cooperator.wire.primitives import DecodeError, EncodeError
from cooperator.wire.records import Record, Unknown, dump_json, parse_json

SESSION_KEY: Final = "session-key"
_INT32_MAX: Final = 2**31 - 1
_OUR_TASK: Final = "cooperator.task"


@dataclass(frozen=True, slots=True)
class ConnectorRecord:
    """``connector-NAME``; a config of None deletes the connector with its tasks."""

    connector: str
    config: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """``task-NAME-N``: takes effect with the next commit of its connector."""

    task: TaskId
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """``commit-NAME``: the connector's tasks are those written before it, 0 to ``task_count`` - 1."""

    connector: str
    task_count: int


@dataclass(frozen=True, slots=True)
class TargetStateRecord:
    """``target-state-NAME``; a state of None goes with the deletion of the connector."""

    connector: str
    state: TargetState | None


@dataclass(frozen=True, slots=True)
class SessionKeyRecord:
    """``session-key`` (KIP-507)."""

    key: SessionKey


@dataclass(frozen=True, slots=True)
class RestartRecord:
    """``restart-connector-NAME`` (KIP-745): an event, not a state; each member restarts its own items.

    ``task`` is our addition: only this item (-1: the instance). Stock workers ignore it; for their sake such
    a record should say ``only_failed`` without tasks, so that they do as little as possible.
    """

    connector: str
    include_tasks: bool = False
    only_failed: bool = False
    task: int | None = None


@dataclass(frozen=True, slots=True)
class FencingRecord:
    """``tasks-fencing-NAME`` (KIP-618): older generations of ``task_count`` source tasks are fenced."""

    connector: str
    task_count: int


@dataclass(frozen=True, slots=True)
class LoggerRecord:
    """``logger-cluster-NS`` (KIP-976): an event, not a state."""

    namespace: str
    level: str


ConfigRecord = (
    ConnectorRecord
    | TaskRecord
    | CommitRecord
    | TargetStateRecord
    | SessionKeyRecord
    | RestartRecord
    | FencingRecord
    | LoggerRecord
)


def encode_config(record: ConfigRecord) -> Record:
    """The record as Kafka Connect would write it. Raises EncodeError."""
    match record:
        case ConnectorRecord(connector, config):
            return _record("connector-", connector, None if config is None else {"properties": dict(config)})
        case TaskRecord(task, config):
            if task.task < 0:
                raise EncodeError(f"task-{task.connector}: {task.task} is not a task number")
            return _record("task-", f"{task.connector}-{task.task}", {"properties": dict(config)})
        case CommitRecord(connector, task_count):
            return _record("commit-", connector, {"tasks": _counted(connector, task_count)})
        case TargetStateRecord(connector, state):
            return _record("target-state-", connector, None if state is None else _states(state))
        case SessionKeyRecord(key):
            return _record(SESSION_KEY, "", _session_key(key))
        case RestartRecord(connector, include_tasks, only_failed, task_number):
            value: dict[str, Any] = {"include-tasks": include_tasks, "only-failed": only_failed}
            if task_number is not None:
                value[_OUR_TASK] = task_number
            return _record("restart-connector-", connector, value)
        case FencingRecord(connector, task_count):
            return _record("tasks-fencing-", connector, {"task-count": _counted(connector, task_count)})
        case LoggerRecord(namespace, level):
            return _record("logger-cluster-", namespace, {"level": level})


def decode_config(record: Record) -> ConfigRecord | Unknown:
    """Returns what the record says; Unknown where Kafka Connect would log the record and skip it.

    Raises DecodeError only when the value is not JSON at all: Connect does not even count the offset of such
    a record.
    """
    value = None if record.value is None else parse_json(record.value, record.key)
    for prefix, decode in _DECODERS.items():
        if record.key.startswith(prefix) and (prefix != SESSION_KEY or record.key == SESSION_KEY):
            try:
                return decode(record.key.removeprefix(prefix), value)
            except DecodeError as error:
                return Unknown(record.key, str(error))
    return Unknown(record.key, "no key of the config log")


def _record(prefix: str, name: str, value: Any) -> Record:
    key = prefix + name
    return Record(key, None if value is None else dump_json(value, key))


def _counted(connector: str, count: int) -> int:
    if not 0 <= count <= _INT32_MAX:
        raise EncodeError(f"{connector}: {count} is not a number of tasks")
    return count


def _states(state: TargetState) -> dict[str, str]:
    # Workers from before KIP-875 do not know STOPPED.
    old = TargetState.PAUSED if state is TargetState.STOPPED else state
    return {"state": old.value, "state.v2": state.value}


def _session_key(key: SessionKey) -> dict[str, Any]:
    return {
        "key": base64.b64encode(key.key).decode(),
        "algorithm": key.algorithm,
        "creation-timestamp": key.created_ms,
    }


def _properties(value: Any) -> Mapping[str, str]:
    properties = Fields(value, "value").object("properties")
    config: dict[str, str] = {}
    for name, text, path in properties.items():
        if text is None:  # Connect's schema allows it: the property is not set.
            continue
        if not isinstance(text, str):
            raise DecodeError(f"{path}: {type(text).__name__} instead of str")
        config[name] = text
    return config


def _connector(name: str, value: Any) -> ConnectorRecord:
    return ConnectorRecord(name, None if value is None else _properties(value))


_TASK_KEY: Final = re.compile(r"(?s)(.+)-([0-9]{1,10})\Z")


def _task(name: str, value: Any) -> TaskRecord:
    matched = _TASK_KEY.match(name)
    if matched is None or int(matched[2]) > _INT32_MAX:
        raise DecodeError("the key names no task")
    return TaskRecord(TaskId(matched[1], int(matched[2])), _properties(value))


def _task_count(value: Any, name: str) -> int:
    count = Fields(value, "value").integer(name)
    if not 0 <= count <= _INT32_MAX:
        raise DecodeError(f"value.{name}: {count} is not a number of tasks")
    return count


def _commit(name: str, value: Any) -> CommitRecord:
    return CommitRecord(name, _task_count(value, "tasks"))


def _fencing(name: str, value: Any) -> FencingRecord:
    return FencingRecord(name, _task_count(value, "task-count"))


def _target_state(name: str, value: Any) -> TargetStateRecord:
    if value is None:
        return TargetStateRecord(name, None)
    states = Fields(value, "value")
    try:
        text = states.text("state.v2")
    except DecodeError:  # Absent, or of another type: the older field counts.
        text = states.text("state")
    try:
        return TargetStateRecord(name, TargetState(text))
    except ValueError:
        raise DecodeError(f"{text!r} is not a target state") from None


def _session_key_record(_name: str, value: Any) -> SessionKeyRecord:
    fields = Fields(value, "value")
    encoded = fields.text("key")
    try:
        key = base64.b64decode(encoded, validate=True)
    except ValueError:
        raise DecodeError("value.key: not base64") from None
    return SessionKeyRecord(SessionKey(key, fields.text("algorithm"), fields.integer("creation-timestamp")))


def _restart(name: str, value: Any) -> RestartRecord:
    fields = Fields(value, "value")
    task = fields.integer(_OUR_TASK) if _OUR_TASK in fields else None
    return RestartRecord(name, fields.flag("include-tasks"), fields.flag("only-failed"), task)


def _logger(name: str, value: Any) -> LoggerRecord:
    return LoggerRecord(name, Fields(value, "value").text("level"))


# The order is that in which Connect tries them.
_DECODERS: Final[Mapping[str, Callable[[str, Any], ConfigRecord]]] = MappingProxyType(
    {
        "target-state-": _target_state,
        "connector-": _connector,
        "task-": _task,
        "commit-": _commit,
        "restart-connector-": _restart,
        "tasks-fencing-": _fencing,
        SESSION_KEY: _session_key_record,
        "logger-cluster-": _logger,
    }
)
