"""ARRAY<ConnectorAssignment>: connector instances and tasks, as in every Connect message.

One entry per connector: its name, then its task numbers, with -1 for the instance itself (docs/protocol.md,
section 7). Bytes are reproduced as Java writes them, entry for entry.
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import repeat
from operator import itemgetter
from typing import Final, NamedTuple, cast

from cooperator.model import INSTANCE, TaskId
from cooperator.model.ids import same_object
from cooperator.model.java import hash_set_order
from cooperator.model.recent import remaining, set_of
from cooperator.wire import primitives
from cooperator.wire.errors import DecodeError
from cooperator.wire.primitives import Reader

_LEAST_ENTRY_BYTES: Final = 6  # An empty name, an empty task list.
_MOST_NAMES: Final = 65_536
_MOST_SINGLES: Final = 262_144
_FEW: Final = 16
"""Maximum count of numbers in an entry that is cached."""
_SINGLE_BYTES: Final = 10  # Size of an entry with one number, besides its name.
_NOTHING: Final = b"\0\0\0\0"
_LENGTH: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")
_COUNT_AND_FIRST: Final = struct.Struct(">ii")
_SMALL: Final = {number: primitives.int32(number, "number") for number in range(INSTANCE, 4096)}
_ONE: Final = _SMALL[1]
_WITH_INSTANCE: Final = _COUNT_AND_FIRST.pack(2, INSTANCE)

# TaskId's own constructor is Python code, and a leader makes 100,000 of them in one round.
_new_task_id = cast(Callable[[type[TaskId], tuple[str, int]], TaskId], tuple.__new__)


def read_items(reader: Reader, field: str, *, nullable: bool = True) -> tuple[TaskId, ...]:
    """The items in the order of the bytes; a null array, where allowed, is empty."""
    count = reader.count(field, _LEAST_ENTRY_BYTES)
    if count is None:
        if not nullable:
            raise DecodeError(f"{field}: the array is null")
        return ()
    items = reader.fast(count, _read_fast)
    return _read_with_care(reader, count, field) if items is None else items


def _read_fast(data: bytes, position: int, count: int) -> tuple[tuple[TaskId, ...], int] | None:
    """The items and the position after them; None if anything is unusual.

    Entries are looked up by their bytes: a leader reads 100,000 in one round, nearly all of which it has read
    before, and most of which have a single number.
    """
    items: list[TaskId] = []
    add, single_of = items.append, _singles.get
    for _ in range(count):
        # For a name of 256 bytes or more this slice is shorter than the entry, which is then not found.
        end = position + _SINGLE_BYTES + data[position + 1]
        single = single_of(data[position:end])
        if single is not None:
            add(single)
            position = end
            continue
        (length,) = _LENGTH.unpack_from(data, position)
        (numbers,) = _COUNT.unpack_from(data, position + 2 + length)
        if length < 0 or numbers < 1:
            return None
        end = position + 6 + length + 4 * numbers
        several = _several.get(data[position:end])
        if several is None:
            several = _read_entry(data, position, length, numbers)
            if several is None:
                return None
            _learn(data[position:end], several)
        items.extend(several)
        position = end
    return tuple(items), position


def _read_entry(data: bytes, position: int, length: int, count: int) -> tuple[TaskId, ...] | None:
    numbers = struct.unpack_from(f">{count}i", data, position + 6 + length)
    if min(numbers) < INSTANCE:
        return None
    raw = data[position + 2 : position + 2 + length]
    connector = _names.get(raw) or _learn_name(raw)
    made = map(_new_task_id, repeat(TaskId), zip(repeat(connector), numbers))
    return tuple(map(same_object, made) if count <= _FEW else made)


_names: dict[bytes, str] = {}
_singles: dict[bytes, TaskId] = {}
_several: dict[bytes, tuple[TaskId, ...]] = {}


def _learn(entry: bytes, items: tuple[TaskId, ...]) -> None:
    if len(items) == 1:
        if len(_singles) >= _MOST_SINGLES:
            _singles.clear()
        _singles[entry] = items[0]
    elif len(items) <= _FEW:
        if len(_several) >= _MOST_NAMES:
            _several.clear()
        _several[entry] = items


def _learn_name(raw: bytes) -> str:
    """``raw`` as text, the same object every time, so that it is hashed and stored only once."""
    if len(_names) >= _MOST_NAMES:
        _names.clear()
    return _names.setdefault(raw, raw.decode())


def _read_with_care(reader: Reader, count: int, field: str) -> tuple[TaskId, ...]:
    """Read entry by entry, so that an error names what is wrong."""
    items: list[TaskId] = []
    for _ in range(count):
        connector = reader.string(field)
        numbers = reader.int32_array(field)
        if numbers and min(numbers) < INSTANCE:
            raise DecodeError(f"{field}: {connector!r} has a task number {min(numbers)}")
        items.extend(map(_new_task_id, repeat(TaskId), zip(repeat(connector), numbers)))
    return tuple(items)


class _Expected(NamedTuple):
    """What may be read next. ``own_order``: the items in their owner's order; None: as in ``written``."""

    items: tuple[TaskId, ...]
    written: bytes
    own_order: tuple[TaskId, ...] | None


class KnownItems:
    """The items read last from one field, and those expected next.

    Equal bytes are not decoded again and yield the same object. An item that is listed twice counts once.
    """

    __slots__ = ("_bytes", "_expected", "_items", "_own_order")

    def __init__(self) -> None:
        self._bytes = b""
        self._items: tuple[TaskId, ...] = ()
        self._own_order: tuple[TaskId, ...] | None = ()
        self._expected: _Expected | None = None

    def expect(self, items: tuple[TaskId, ...], written: bytes) -> None:
        """Expect ``written``, the bytes by which ``write_items_hashed`` encodes ``items``.

        If they come next they are read as ``items``, in this order.
        """
        self._expected = _Expected(items, written, None)

    def foresee(self, gone: frozenset[TaskId], new: bytes) -> None:
        """Expect the items read last without ``gone``, followed by those of ``new``, an encoded array.

        This is how an owner writes that keeps its items in order of arrival.
        """
        if self._own_order is None:
            self._own_order = read_items(Reader(self._bytes), "items")
        items = remaining(self._own_order, gone)
        if new != _NOTHING:
            items = tuple(dict.fromkeys((*items, *read_items(Reader(new), "items"))))
        self._expected = _Expected(items, write_items_hashed(items, "items"), items)

    def read(self, reader: Reader, field: str) -> tuple[TaskId, ...]:
        """As ``read_items``. An encoded array ends where its counts say, so equal bytes are all of it."""
        if self._bytes and reader.skip(self._bytes):
            return self._items
        if self._expected is not None:
            (items, written, own_order), self._expected = self._expected, None
            if reader.skip(written):
                self._bytes, self._items, self._own_order = written, items, own_order
                return items
        start = reader.position
        items = read_items(reader, field)
        self._items = items if len(set_of(items)) == len(items) else tuple(dict.fromkeys(items))
        self._bytes, self._own_order = reader.since(start), self._items
        return self._items


def write_items(items: Sequence[TaskId], field: str) -> bytes:
    """Write the entries of connector instances, in the order given, then those that have tasks only."""
    return _write(items, dict.fromkeys, field)


def write_items_hashed(items: Sequence[TaskId], field: str) -> bytes:
    """As ``write_items``, with the instances in the iteration order of a Java HashSet."""
    return _write(items, hash_set_order, field)


def _write(items: Sequence[TaskId], in_order: Callable[[Sequence[str]], Iterable[str]], field: str) -> bytes:
    if not items:
        return _NOTHING
    singles = _write_singles(items, in_order)
    return _write_groups(items, in_order, field) if singles is None else singles


def _write_groups(
    items: Sequence[TaskId], in_order: Callable[[Sequence[str]], Iterable[str]], field: str
) -> bytes:
    entries: defaultdict[str, list[int]] = defaultdict(list)
    for connector in in_order([connector for connector, task in items if task == INSTANCE]):
        entries[connector].append(INSTANCE)
    for connector, task in items:
        if task != INSTANCE:
            entries[connector].append(task)
    parts = [primitives.int32(len(entries), field)]
    for connector, of_connector in entries.items():
        few = len(of_connector) <= _FEW
        numbers = (
            _few_numbers(tuple(of_connector), field) if few else primitives.int32_array(of_connector, field)
        )
        parts += (_name(connector), numbers)
    return b"".join(parts)


@lru_cache(maxsize=_MOST_NAMES)
def _few_numbers(numbers: tuple[int, ...], field: str) -> bytes:
    return primitives.int32_array(list(numbers), field)


def _write_singles(
    items: Sequence[TaskId], in_order: Callable[[Sequence[str]], Iterable[str]]
) -> bytes | None:
    """As ``_write_groups``, but without grouping and without Python code per item.

    None if instances do not come first, a connector has two tasks, or a number is large. Where tasks are
    spread nearly every entry has one number, and a leader writes 100,000 of them in one round.
    """
    count = next((n for n, item in enumerate(items) if item[1] != INSTANCE), len(items))
    instances, tasks = [connector for connector, _ in items[:count]], items[count:]
    connectors = set(map(itemgetter(0), tasks))
    if len(connectors) < len(tasks):
        return None
    shared = connectors.intersection(instances)
    with suppress(KeyError):
        own: dict[str, bytes] = {}
        if shared:
            own = {connector: _SMALL[number] for connector, number in tasks if connector in shared}
            tasks = [task for task in tasks if task[0] not in shared]
        entries = [
            _name(name) + _WITH_INSTANCE + own[name] if name in own else _entries_of_instances[name, INSTANCE]
            for name in in_order(instances)
        ]
        parts = map(_entries_of_tasks.__getitem__, tasks)
        return b"".join((_COUNT.pack(len(entries) + len(tasks)), *entries, *parts))
    return None


@lru_cache(maxsize=_MOST_NAMES)
def _name(connector: str) -> bytes:
    return primitives.string(connector, "connector name")


class _Entries(dict[tuple[str, int], bytes]):
    """Encoded entries with one number, made on first use. Raises KeyError for any other number."""

    def __init__(self, numbers: Mapping[int, bytes]) -> None:
        self._numbers = numbers

    def __missing__(self, item: tuple[str, int]) -> bytes:
        if len(self) >= _MOST_SINGLES:
            self.clear()
        connector, number = item
        self[item] = _name(connector) + _ONE + self._numbers[number]
        return self[item]


_entries_of_instances = _Entries({INSTANCE: _SMALL[INSTANCE]})
_entries_of_tasks = _Entries({number: data for number, data in _SMALL.items() if number != INSTANCE})
