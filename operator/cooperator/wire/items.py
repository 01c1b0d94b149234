"""ARRAY<ConnectorAssignment>: connector instances and tasks, as in every Connect message.

One entry per connector: its name, then its task numbers, with -1 for the instance itself (docs/protocol.md,
section 7). Bytes are reproduced as Java writes them, entry for entry.
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import filterfalse, repeat
from operator import itemgetter
from typing import Final, NamedTuple, cast

from cooperator.model import INSTANCE, TaskId
from cooperator.model.java import KnownNames, hash_set_order
from cooperator.wire import primitives
from cooperator.wire.primitives import ByteReader, DecodeError

_LEAST_ENTRY_BYTES: Final = 6  # An empty name, an empty task list.
_NOTHING: Final = b"\0\0\0\0"
_LENGTH: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")
_TWO_NUMBERS: Final = struct.Struct(">ii")
_ONLY_INSTANCE: Final = _TWO_NUMBERS.pack(1, INSTANCE)
_WITH_INSTANCE: Final = _TWO_NUMBERS.pack(2, INSTANCE)

_InOrder = Callable[[Sequence[str]], Iterable[str]]

# TaskId's own constructor is Python code, and a leader makes 100,000 of them in one round.
_new_task_id = cast(Callable[[type[TaskId], tuple[str, int]], TaskId], tuple.__new__)


def read_items(reader: ByteReader, field: str, *, nullable: bool = True) -> tuple[TaskId, ...]:
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

    A leader reads 100,000 entries in one round, most of which have a single number.
    """
    items: list[TaskId] = []
    add, length_at, count_at = items.append, _LENGTH.unpack_from, _COUNT.unpack_from
    for _ in range(count):
        start = position + 2
        end = start + length_at(data, position)[0]
        (numbers,) = count_at(data, end)
        position = end + 4 + 4 * numbers
        if end < start or numbers < 1:
            return None
        connector = data[start:end].decode()
        if numbers == 1:
            (number,) = count_at(data, end + 4)
            if number < INSTANCE:
                return None
            add(_new_task_id(TaskId, (connector, number)))
            continue
        several = struct.unpack_from(f">{numbers}i", data, end + 4)
        if min(several) < INSTANCE:
            return None
        items.extend(map(_new_task_id, repeat(TaskId), zip(repeat(connector), several)))
    return tuple(items), position


def _read_with_care(reader: ByteReader, count: int, field: str) -> tuple[TaskId, ...]:
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
    """A report that is expected next. ``own_order``: the items in their owner's order; None: as in
    ``written``."""

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

    def foresee(self, owned: tuple[TaskId, ...], gone: frozenset[TaskId], new: bytes) -> None:
        """Expect the items read last without ``gone``, followed by those of ``new``, an encoded array.

        This is how an owner writes that keeps its items in order of arrival. ``owned`` has all these items in
        any order: those expected are the same objects, as identical objects compare at once.
        """
        same = dict(zip(owned, owned, strict=True)).get
        if self._own_order is None:
            decoded = read_items(ByteReader(self._bytes), "items")
            self._own_order = tuple(map(same, decoded, decoded))
        items = tuple(filterfalse(gone.__contains__, self._own_order))
        if new != _NOTHING:
            decoded = read_items(ByteReader(new), "items")
            items = tuple(dict.fromkeys((*items, *map(same, decoded, decoded))))
        self._expected = _Expected(items, write_items_hashed(items, "items"), items)

    def read(self, reader: ByteReader, field: str) -> tuple[TaskId, ...]:
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
        self._items = items if len(set(items)) == len(items) else tuple(dict.fromkeys(items))
        self._bytes, self._own_order = reader.since(start), self._items
        return self._items


class _Names:
    """Encoded connector names, made on first use."""

    __slots__ = ("_encoded",)

    def __init__(self, known: Mapping[str, bytes]) -> None:
        self._encoded = dict(known)

    def of(self, connectors: Collection[str]) -> Sequence[bytes]:
        """The names of ``connectors``, in order. Raises EncodeError."""
        if len(connectors) < 2:
            return [self._encode(connector) for connector in connectors]
        try:
            found: tuple[bytes, ...] = itemgetter(*connectors)(self._encoded)
        except KeyError:
            return [self._encode(connector) for connector in connectors]
        return found

    def _encode(self, connector: str) -> bytes:
        found = self._encoded.get(connector)
        if found is None:
            found = self._encoded[connector] = primitives.string(connector, "connector name")
        return found


class _OnlyNumbers(dict[int, bytes]):
    """The bytes after the name in an entry with one number, made on first use. Raises struct.error."""

    def __missing__(self, number: int) -> bytes:
        self[number] = encoded = _TWO_NUMBERS.pack(1, number)
        return encoded


class ItemsWriter:
    """Writes the items of many members: their common parts are encoded once.

    ``names``: those of connectors that are known already.
    """

    __slots__ = ("_hashes", "_names", "_only", "_several")

    def __init__(self, names: KnownNames | None = None) -> None:
        self._hashes, strings = KnownNames.of(()) if names is None else names
        self._names = _Names(strings)
        self._several: dict[tuple[int, ...], bytes] = {}
        self._only = _OnlyNumbers()

    def write(self, items: Sequence[TaskId], field: str) -> bytes:
        """Write the entries of connector instances, in the order given, then those that have tasks only."""
        return self._write(items, dict.fromkeys, field)

    def write_hashed(self, items: Sequence[TaskId], field: str) -> bytes:
        """As ``write``, with the instances in the iteration order of a Java HashSet."""
        return self._write(items, self._hashed, field)

    def _hashed(self, connectors: Iterable[str]) -> list[str]:
        return hash_set_order(connectors, self._hashes)

    def _write(self, items: Sequence[TaskId], in_order: _InOrder, field: str) -> bytes:
        if not items:
            return _NOTHING
        try:
            return self._write_singles(items, in_order) or self._write_groups(items, in_order, field)
        except struct.error:
            return self._write_groups(items, in_order, field)  # The error names the number that is too large.

    def _write_groups(self, items: Sequence[TaskId], in_order: _InOrder, field: str) -> bytes:
        entries: defaultdict[str, list[int]] = defaultdict(list)
        for connector in in_order([connector for connector, task in items if task == INSTANCE]):
            entries[connector].append(INSTANCE)
        for connector, task in items:
            if task != INSTANCE:
                entries[connector].append(task)
        parts = [primitives.int32(len(entries), field)]
        for name, numbers in zip(self._names.of(entries), entries.values(), strict=True):
            # Where tasks are dealt in turn, many connectors have the same numbers.
            written = self._several.get(same := tuple(numbers))
            if written is None:
                written = self._several[same] = primitives.int32_array(numbers, field)
            parts += (name, written)
        return b"".join(parts)

    def _write_singles(self, items: Sequence[TaskId], in_order: _InOrder) -> bytes:
        """As ``_write_groups``, without grouping; empty if that is not possible.

        It is possible if instances come first, and no connector has two tasks. Where tasks are
        spread nearly every entry has one number, and a leader writes 100,000 of them in one round.
        """
        connectors, numbers = zip(*items, strict=True)
        first = numbers.count(INSTANCE)
        if numbers[:first].count(INSTANCE) < first:
            return b""  # One follows a task.
        instances, singles, numbers = connectors[:first], connectors[first:], numbers[first:]
        # Where connectors of the same size are dealt in turn, often all tasks have the same number, and are
        # then of as many connectors, as no item is listed twice.
        same = numbers[0] if numbers and numbers.count(numbers[0]) == len(numbers) else None
        if same is None and len(set(singles)) < len(singles):
            return b""
        names, ordered = self._names, list(in_order(instances))
        if same is not None and set(ordered).isdisjoint(singles):
            alone = _ONLY_INSTANCE.join((*names.of(ordered), b""))
            others = self._only[same].join((*names.of(singles), b""))
            return b"".join((_COUNT.pack(len(ordered) + len(singles)), alone, others))
        tasks, entries = dict(zip(singles, numbers, strict=True)), [b""]
        for connector, name in zip(ordered, names.of(ordered), strict=True):
            number = tasks.pop(connector, None)
            entries.append(name)
            entries.append(_ONLY_INSTANCE if number is None else _WITH_INSTANCE + _COUNT.pack(number))
        entries[0] = _COUNT.pack(len(entries) // 2 + len(tasks))
        pairs = [b""] * (2 * len(tasks))
        pairs[::2] = names.of(tasks)
        pairs[1::2] = map(self._only.__getitem__, tasks.values())
        return b"".join((*entries, *pairs))


def write_items(items: Sequence[TaskId], field: str) -> bytes:
    """As ``ItemsWriter.write``, for one member."""
    return ItemsWriter().write(items, field)


def write_items_hashed(items: Sequence[TaskId], field: str) -> bytes:
    """As ``ItemsWriter.write_hashed``, for one member."""
    return ItemsWriter().write_hashed(items, field)
