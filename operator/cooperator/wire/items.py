"""ARRAY<ConnectorAssignment>: which connector instances and tasks, as in every Connect message.

One entry a connector: its name, then its task numbers, with -1 for the instance itself
(protocol notes, section 7). Bytes are reproduced as Java writes them, entry for entry.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Final, cast

from cooperator.model import INSTANCE, TaskId
from cooperator.model.java import hash_set_order
from cooperator.wire import primitives
from cooperator.wire.errors import DecodeError
from cooperator.wire.primitives import Reader

_LEAST_ENTRY_BYTES: Final = 6  # an empty name, an empty task list

# TaskId's own constructor is Python code; a leader makes 100,000 of them in one round.
_new_task_id = cast(Callable[[type[TaskId], tuple[str, int]], TaskId], tuple.__new__)


def read_items(reader: Reader, field: str, *, nullable: bool = True) -> tuple[TaskId, ...]:
    """The items in the order of the bytes; a null array (where allowed) is an empty one."""
    count = reader.count(field, _LEAST_ENTRY_BYTES)
    if count is None:
        if not nullable:
            raise DecodeError(f"{field}: the array is null")
        return ()
    items: list[TaskId] = []
    for _ in range(count):
        connector = reader.string(field)
        numbers = reader.int32_array(field)
        if numbers and min(numbers) < INSTANCE:
            raise DecodeError(f"{field}: {connector!r} has a task number {min(numbers)}")
        items.extend(map(_new_task_id, repeat(TaskId), zip(repeat(connector), numbers)))
    return tuple(items)


def write_items(items: Sequence[TaskId], field: str) -> bytes:
    """Entries of connector instances first, in the order given, then those that have tasks only."""
    return _write(items, dict.fromkeys(c for c, task in items if task == INSTANCE), field)


def write_items_hashed(items: Sequence[TaskId], field: str) -> bytes:
    """As ``write_items``, with the instances in the order in which a Java HashSet iterates."""
    return _write(items, hash_set_order([c for c, task in items if task == INSTANCE]), field)


def _write(items: Sequence[TaskId], instances: Iterable[str], field: str) -> bytes:
    entries: dict[str, list[int]] = {connector: [INSTANCE] for connector in instances}
    for connector, task in items:
        if task == INSTANCE:
            continue
        numbers = entries.get(connector)
        if numbers is None:
            entries[connector] = [task]
        else:
            numbers.append(task)
    parts = [primitives.int32(len(entries), field)]
    for connector, numbers in entries.items():
        parts.append(_name(connector))
        parts.append(primitives.int32_array(numbers, field))
    return b"".join(parts)


@lru_cache(maxsize=4096)
def _name(connector: str) -> bytes:
    return primitives.string(connector, "connector name")
