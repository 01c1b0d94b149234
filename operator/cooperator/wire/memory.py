"""The leader's memory as the JSON object of its record (see ``leader``)."""

from typing import Any

from cooperator.model import Hold, HoldReason, Kip415Memory, Memory, TaskId
from cooperator.wire.fields import Fields, typed, typed_all
from cooperator.wire.taskset import TaskSetReader, TaskSetWriter


def memory_fields(memory: Memory) -> dict[str, Any]:
    """Everything sorted: equal memories are equal bytes."""
    sets = TaskSetWriter()
    value: dict[str, Any] = {
        "term": memory.term,
        "generation": memory.generation,
        "given": {name: sets.write(memory.given[name]) for name in sorted(memory.given)},
        "incarnations": dict(sorted(memory.incarnations.items())),
        "holds": {name: _hold_fields(memory.holds[name], sets) for name in sorted(memory.holds)},
        "returns": {name: list(memory.returns[name]) for name in sorted(memory.returns)},
    }
    if memory.kip415 is not None:
        value["kip415"] = _kip415_fields(memory.kip415, sets)
    value["connectors"] = sets.names
    return value


def read_memory(value: Fields) -> Memory:
    """Raises DecodeError."""
    sets = TaskSetReader(value.array_of("connectors", str))
    return Memory(
        term=value.integer("term", 0),
        generation=value.integer("generation", -1),
        given={
            name: sets.read(typed(runs, list, path), path)
            for name, runs, path in value.object_or_empty("given").items()
        },
        incarnations={
            name: typed(incarnation, str, path)
            for name, incarnation, path in value.object_or_empty("incarnations").items()
        },
        holds={
            name: _hold(Fields(hold, path), sets)
            for name, hold, path in value.object_or_empty("holds").items()
        },
        returns={
            name: tuple(typed_all(typed(times, list, path), int, path))
            for name, times, path in value.object_or_empty("returns").items()
        },
        kip415=_kip415(value.object("kip415"), sets) if "kip415" in value else None,
    )


def _hold_fields(hold: Hold, sets: TaskSetWriter) -> dict[str, Any]:
    return {
        "tasks": sets.write(hold.tasks),
        "since_ms": hold.since_ms,
        "deadline_ms": hold.deadline_ms,
        "not_before_ms": hold.not_before_ms,
        "incarnation": hold.incarnation,
        "reason": hold.reason.value,
        "cause": hold.cause,
    }


def _hold(value: Fields, sets: TaskSetReader) -> Hold:
    return Hold(
        tasks=_tasks(value, "tasks", sets),
        since_ms=value.integer("since_ms"),
        deadline_ms=value.integer("deadline_ms"),
        not_before_ms=value.integer("not_before_ms", 0),
        incarnation=value.text("incarnation", ""),
        reason=value.choice("reason", HoldReason, HoldReason.DEPARTED),
        cause=value.text("cause", ""),
    )


def _kip415_fields(memory: Kip415Memory, sets: TaskSetWriter) -> dict[str, Any]:
    return {
        "previous_generation": memory.previous_generation,
        "previous_members": list(memory.previous_members),
        "previous_assignment": sets.write(memory.previous_assignment),
        "previous_revocation": sets.write(memory.previous_revocation),
        "scheduled_rebalance_ms": memory.scheduled_rebalance_ms,
        "delay_ms": memory.delay_ms,
        "candidates": list(memory.candidates),
        "revoked_in_previous": memory.revoked_in_previous,
        "successive_revoking_rebalances": memory.successive_revoking_rebalances,
    }


def _kip415(value: Fields, sets: TaskSetReader) -> Kip415Memory:
    return Kip415Memory(
        previous_generation=value.integer("previous_generation", -1),
        previous_members=tuple(value.array_of("previous_members", str)),
        previous_assignment=_tasks(value, "previous_assignment", sets),
        previous_revocation=_tasks(value, "previous_revocation", sets),
        scheduled_rebalance_ms=value.integer("scheduled_rebalance_ms", 0),
        delay_ms=value.integer("delay_ms", 0),
        candidates=tuple(value.array_of("candidates", str)),
        revoked_in_previous=value.boolean("revoked_in_previous", False),
        successive_revoking_rebalances=value.integer("successive_revoking_rebalances", 0),
    )


def _tasks(value: Fields, name: str, sets: TaskSetReader) -> frozenset[TaskId]:
    return sets.read(value.array(name), name)
