"""The records of a reconciled group as records of the leader log.

A value is JSON: ``v``, the fields, tasks as runs of numbers (``wire.taskset``), and ``connectors``, the table
of names that the runs refer to. Releases without this protocol do not know the keys, and pass them over.
"""

from collections.abc import Mapping
from typing import Any, Final

from cooperator.model import TaskId
from cooperator.reconciliation.current import CurrentAssignment, MemberState
from cooperator.reconciliation.group import Fence, ReconciledMember, TargetAssignment
from cooperator.reconciliation.records import Epochs, RecordKey, RecordKind, Records, Value
from cooperator.wire import DecodeError, EncodeError, Record
from cooperator.wire.fields import Fields, typed
from cooperator.wire.records import dump_json, parse_json
from cooperator.wire.taskset import TaskSetReader, TaskSetWriter

_VERSION: Final = 1


def encode_records(records: Records) -> tuple[Record, ...]:
    """Return the records in order. Equal values give equal bytes. Raises EncodeError."""
    return tuple(
        Record(_text(key), None if value is None else _encode(value, _text(key)))
        for key, value in records.items()
    )


def decode_record(record: Record) -> tuple[RecordKey, Value | None] | None:
    """Return key and value of a record, None as the value of a tombstone; None for a key of another kind.

    Raises DecodeError for malformed values, and for those of a newer version.
    """
    key = _key(record.key)
    if key is None:
        return None
    if record.value is None:
        return key, None
    values = Fields(parse_json(record.value, record.key), record.key)
    version = values.integer("v")
    if version != _VERSION:
        raise DecodeError(
            f"{record.key}.v: version {version} cannot be read, only {_VERSION}: update this process"
        )
    sets = TaskSetReader(values.array_of("connectors", str))
    match key.kind:
        case RecordKind.GROUP:
            names = ("term", "epoch", "assignment_epoch")
            return key, Epochs(*(values.integer(name) for name in names))
        case RecordKind.TARGET:
            tasks = sets.read(typed(values.value("tasks"), list, record.key), record.key)
            return key, TargetAssignment(values.integer("epoch"), tasks)
        case RecordKind.MEMBER:
            return key, _member(key.identity, values, sets)
        case RecordKind.FENCE:
            return key, Fence(_member(key.identity, values, sets), values.integer("until_ms"))


def _text(key: RecordKey) -> str:
    if "/" in key.identity:
        raise EncodeError(f"identity {key.identity!r}: contains '/', which separates the parts of a key")
    return "/".join(part for part in key if part)


def _key(text: str) -> RecordKey | None:
    kind, *parts = text.split("/", 2)
    if kind == RecordKind.GROUP and not parts:
        return RecordKey(RecordKind.GROUP)
    if kind in (RecordKind.TARGET, RecordKind.MEMBER) and len(parts) == 1 and parts[0]:
        return RecordKey(RecordKind(kind), parts[0])
    if kind == RecordKind.FENCE and len(parts) == 2 and all(parts):
        return RecordKey(RecordKind.FENCE, *parts)
    return None


def _encode(value: Value, what: str) -> bytes:
    sets = TaskSetWriter()
    match value:
        case Epochs():
            plain: dict[str, Any] = dict(value._asdict())
        case TargetAssignment():
            plain = {"epoch": value.epoch, "tasks": sets.write(value.tasks)}
        case ReconciledMember():
            plain = _plain(value, sets)
        case Fence():
            plain = {**_plain(value.member, sets), "until_ms": value.until_ms}
    names = {"connectors": sets.names} if sets.names else {}
    return dump_json({"v": _VERSION, **plain, **names}, what)


def _plain(member: ReconciledMember, sets: TaskSetWriter) -> dict[str, Any]:
    current = member.current
    plain = {
        "incarnation": member.incarnation,
        "sequence": member.sequence,
        "epoch": current.member_epoch,
        "previous": current.previous_member_epoch,
        "state": current.state.value,
        "assigned": tasks_by_epoch(current.assigned, sets),
    }
    if current.pending_revocation:
        plain["pending"] = tasks_by_epoch(current.pending_revocation, sets)
    if member.revoke_by_ms is not None:
        plain["revoke_by_ms"] = member.revoke_by_ms
    return plain


def tasks_by_epoch(tasks: Mapping[TaskId, int], sets: TaskSetWriter) -> dict[str, list[int]]:
    """Return the runs of the tasks of each epoch."""
    epochs: dict[int, list[TaskId]] = {}
    for task, epoch in tasks.items():
        epochs.setdefault(epoch, []).append(task)
    return {str(epoch): sets.write(epochs[epoch]) for epoch in sorted(epochs)}


def _member(identity: str, values: Fields, sets: TaskSetReader) -> ReconciledMember:
    current = CurrentAssignment(
        values.integer("epoch"),
        values.integer("previous"),
        values.choice("state", MemberState),
        read_tasks_by_epoch(values.object("assigned"), sets),
        read_tasks_by_epoch(values.object_or_empty("pending"), sets),
    )
    by_ms = values.integer("revoke_by_ms") if "revoke_by_ms" in values else None
    return ReconciledMember(identity, values.text("incarnation"), values.integer("sequence"), current, by_ms)


def read_tasks_by_epoch(values: Fields, sets: TaskSetReader) -> dict[TaskId, int]:
    """Return the epoch of each task. Raises DecodeError."""
    found: dict[TaskId, int] = {}
    for epoch, runs, path in values.items():
        if not (epoch.isascii() and epoch.isdigit() and len(epoch) < 20):
            raise DecodeError(f"{path}: {epoch!r} is no epoch")
        found.update(dict.fromkeys(sets.read(typed(runs, list, path), path), int(epoch)))
    return found
