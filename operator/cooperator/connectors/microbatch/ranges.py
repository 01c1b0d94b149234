"""Planning a batch: which offsets of which partitions, and in which slot each is read. Pure functions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cooperator.connectors.output_record import OutputRecord

_WAY_OUT = (
    "stop the connector and reset or alter its offsets, or set fail.on.data.loss to false, to go on "
    "with what "
    "there is"
)
_BALANCED = 1.25
"""Partitions stay in their slots while the largest slot has at most this multiple of the least possible."""


class Partition(NamedTuple):
    """A partition of a topic; its unit has the same name."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"

    @classmethod
    def of_unit(cls, unit: str) -> "Partition":
        """Returns the partition of a unit ``TOPIC-NUMBER``. Raises ValueError."""
        topic, dash, number = unit.rpartition("-")
        if not (topic and dash and number.isdecimal()):
            raise ValueError(f"unit {unit!r} is no partition; use TOPIC-NUMBER")
        return cls(topic, int(number))


def end_of(unit: str, at: int | None) -> str:
    """Returns a position as ``UnitProgress.end`` has it, in JSON; empty: there is none."""
    partition = Partition.of_unit(unit)
    return "" if at is None else json.dumps({partition.topic: {str(partition.number): at}})


class LeftOut(NamedTuple):
    """The record at ``offset`` is not converted; ``letter`` is written with the rows in its place, if any."""

    offset: int
    letter: OutputRecord | None = None


class OffsetRange(NamedTuple):
    """The offsets from ``start`` up to, and without, ``end``."""

    partition: Partition
    start: int
    end: int
    left_out: tuple[LeftOut, ...] = ()

    @property
    def size(self) -> int:
        return self.end - self.start

    def encoded(self) -> list[Any]:
        """Returns it as ``OffsetRange`` in Java reads it."""
        left_out = [one.offset for one in self.left_out]
        return [*self.partition, self.start, [self.end, *left_out] if left_out else self.end]


def encoded(slots: Sequence[Sequence[OffsetRange]]) -> str:
    """Returns the JSON that ``KafkaRanges`` reads: the ranges of each slot."""
    return json.dumps([[each.encoded() for each in slot] for slot in slots])


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum number of offsets in a batch, of each partition and of all of a task."""

    per_unit: int
    per_task: int

    def __post_init__(self) -> None:
        for field, number in (("per_unit", self.per_unit), ("per_task", self.per_task)):
            if number < 1:
                raise ValueError(f"{field} = {number}; use 1 or more")


@dataclass(frozen=True, slots=True)
class Grouping:
    """The distribution of ranges over slots: up to ``slots``, each with at least ``slot_size`` offsets if
    there are two.

    A slot costs a Spark task and a transaction, so a small batch uses one.
    """

    slots: int
    slot_size: int = 5_000

    def __post_init__(self) -> None:
        for field, number in (("slots", self.slots), ("slot_size", self.slot_size)):
            if number < 1:
                raise ValueError(f"{field} = {number}; use 1 or more")


class EndBehind(Exception):
    """A partition ends before the position of its unit: the topic has lost records."""

    def __init__(self, partition: Partition, position: int, end: int) -> None:
        super().__init__(
            f"{partition} ends at offset {end}, before the position {position} of its unit, so the topic has "
            f"lost records: {_WAY_OUT}"
        )
        self.partition = partition


class TopicRecreated(Exception):
    """A topic was deleted and created again: the offsets of its units are those of other records."""

    def __init__(self, partition: Partition, position: int) -> None:
        super().__init__(
            f"topic {partition.topic} was deleted and created again, and the position {position} of "
            f"{partition} is one of the old topic: {_WAY_OUT}"
        )
        self.partition = partition


def halved(limits: Limits, times: int) -> Limits:
    """Returns the limits after so many halvings; at least 1."""
    return Limits(max(1, limits.per_unit >> times), max(1, limits.per_task >> times))


def by_turn(ranges: Sequence[OffsetRange], slots: int, turn: int) -> tuple[tuple[OffsetRange, ...], ...]:
    """Returns the ranges of each slot if no slot may read two topics.

    If there are more topics than slots, ``turn`` decides which are left out, so that all of them get theirs.
    """
    topics = sorted({each.partition.topic for each in ranges})
    first = turn * slots % len(topics) if len(topics) > slots else 0
    chosen = (topics + topics)[first : first + min(slots, len(topics))]
    return tuple(tuple(each for each in ranges if each.partition.topic == topic) for topic in chosen)


def plan_ranges(
    positions: Mapping[Partition, int], ends: Mapping[Partition, int], limits: Limits, turn: int
) -> tuple[OffsetRange, ...]:
    """Returns the ranges of the next batch, sorted; none is empty.

    No partition gets more than ``per_unit``. If all of it would exceed ``per_task``, partitions get equal
    parts; the part that some do not need goes to the others. If there are fewer offsets than partitions,
    ``turn`` (a number that grows by one with each batch) decides which get any, so that all of them do in
    turn.

    Partitions without an end are left out. Raises ``EndBehind``.
    """
    wanted = {
        partition: min(size, limits.per_unit)
        for partition in sorted(positions)
        if (size := _news(partition, positions[partition], ends)) > 0
    }
    given = _divide(wanted, limits.per_task, turn)
    return tuple(
        OffsetRange(partition, positions[partition], positions[partition] + size)
        for partition, size in given.items()
        if size
    )


def has_news(positions: Mapping[Partition, int], ends: Mapping[Partition, int]) -> bool:
    """Whether some partition ends elsewhere than at its position."""
    return any(ends.get(partition, position) != position for partition, position in positions.items())


def group(
    ranges: Sequence[OffsetRange], grouping: Grouping, homes: Mapping[Partition, int]
) -> tuple[tuple[OffsetRange, ...], ...]:
    """Returns the ranges of each slot; no slot is empty, and there is one if there are no ranges.

    ``homes`` are the slots of an earlier batch: while the slots are balanced, partitions stay there, where
    the consumer has them assigned, and often has fetched what comes next. Otherwise the largest range goes to
    the smallest slot first, by which the largest slot has at most 4/3 of the least possible (Graham 1969).
    """
    total = sum(each.size for each in ranges)
    count = max(1, min(grouping.slots, len(ranges), -(-total // grouping.slot_size)))
    kept = _at_home(ranges, count, homes)
    if kept is not None:
        return kept
    slots: list[list[OffsetRange]] = [[] for _ in range(count)]
    sizes = [0] * count
    for each in sorted(ranges, key=lambda each: (-each.size, each)):
        # Of equal slots the emptiest: a range of no offsets has to be somewhere, too.
        slot = min(range(count), key=lambda slot: (sizes[slot], len(slots[slot]), slot))
        slots[slot].append(each)
        sizes[slot] += each.size
    return tuple(map(tuple, slots))


def _news(partition: Partition, position: int, ends: Mapping[Partition, int]) -> int:
    end = ends.get(partition, position)
    if end < position:
        raise EndBehind(partition, position, end)
    return end - position


def _divide(wanted: Mapping[Partition, int], total: int, turn: int) -> dict[Partition, int]:
    """Divides ``total`` max-min fairly: nobody gets more unless those with less have all that they want."""
    given = dict(wanted)
    left = total
    hungry = sorted(wanted, key=lambda partition: (wanted[partition], partition))
    while hungry:
        part, rest = divmod(left, len(hungry))
        if wanted[hungry[0]] <= part:
            left -= wanted[hungry.pop(0)]
            continue
        hungry.sort()
        first = turn * rest % len(hungry)
        for index, partition in enumerate(hungry[first:] + hungry[:first]):
            given[partition] = part + (index < rest)
        break
    return given


def _at_home(
    ranges: Sequence[OffsetRange], count: int, homes: Mapping[Partition, int]
) -> tuple[tuple[OffsetRange, ...], ...] | None:
    slots: list[list[OffsetRange]] = [[] for _ in range(count)]
    for each in ranges:
        home = homes.get(each.partition, count) if count > 1 else 0
        if home >= count:
            return None
        slots[home].append(each)
    sizes = [sum(each.size for each in slot) for slot in slots]
    least = max(sum(sizes) / count, max((each.size for each in ranges), default=0))
    if count > 1 and (not all(slots) or max(sizes) > _BALANCED * least):
        return None
    return tuple(map(tuple, slots))
