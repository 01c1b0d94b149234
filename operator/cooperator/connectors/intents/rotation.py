"""Rotation of files: which units have enough records, or have waited long enough, for their next file.

No file stays open: records of a unit that is not due stay in Kafka, and are read when it is.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cooperator.connectors.microbatch.ends import Subscription
from cooperator.connectors.microbatch.ranges import Partition


@dataclass(frozen=True, slots=True)
class Rotation:
    """Limits of a file, as Connect's sinks name them. None: no limit.

    ``flush_size`` is the number of records of a full file (``flush.size``). A file that is not full is
    written once its unit has had news for ``interval_ms`` (``rotate.interval.ms``; 0: at once). ``max_bytes``
    (``max.file.bytes``) lowers ``flush_size`` by what records of the unit took in its last files.
    """

    flush_size: int | None = None
    interval_ms: int = 0
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        limits = (("flush.size", self.flush_size), ("max.file.bytes", self.max_bytes))
        for name, number in limits:
            if number is not None and number < 1:
                raise ValueError(f"{name} = {number}; use 1 or more")
        if self.interval_ms < 0:
            raise ValueError(f"rotate.interval.ms = {self.interval_ms}; use 0 or more")


@dataclass(slots=True)
class Rotator:
    """The rotation of a task's units. ``now_ms`` is any clock's time in milliseconds.

    After a restart units wait anew: the interval counts from when this process has first seen their news.
    """

    rotation: Rotation
    _since_ms: dict[Partition, int] = field(default_factory=dict)
    _cuts: dict[Partition, tuple[int, int]] = field(default_factory=dict)
    """The ends of cuts that were due, and when."""
    _bytes_per_record: dict[Partition, float] = field(default_factory=dict)

    def records(self, partition: Partition) -> int | None:
        """Returns the number of records of a full file of the unit; None: any."""
        limits = [self.rotation.flush_size, self._within_bytes(partition)]
        return min((limit for limit in limits if limit is not None), default=None)

    def _within_bytes(self, partition: Partition) -> int | None:
        size = self._bytes_per_record.get(partition)
        if self.rotation.max_bytes is None or not size:
            return None
        return max(1, int(self.rotation.max_bytes / size))

    def wrote(self, partition: Partition, records: int, size_bytes: int) -> None:
        """Learns from a cut. It weighs as much as all before."""
        if records > 0 and size_bytes > 0:
            size = size_bytes / records
            self._bytes_per_record[partition] = (self._bytes_per_record.get(partition, size) + size) / 2

    def due(
        self, positions: Mapping[Partition, int], ends: Mapping[Partition, int], now_ms: int
    ) -> dict[Partition, int]:
        """Returns the units whose next cut is due, and its end: at whole files unless the interval is over.

        A cut is one file where ``max.file.bytes`` bounds it. An end before its position is returned as it is:
        it tells a loss.
        """
        found: dict[Partition, int] = {}
        for partition, end in ends.items():
            at = positions.get(partition, end)
            if end == at:
                self._since_ms.pop(partition, None)
                continue
            cut = self._cuts.pop(partition, None)
            # A batch may end before the cut: the rest has waited since then.
            first_ms = cut[1] if cut is not None and at < cut[0] else now_ms
            since_ms = self._since_ms.setdefault(partition, first_ms)
            full = self.records(partition)
            if end < at or now_ms - since_ms >= self.rotation.interval_ms:
                found[partition] = end
            elif full is not None and end - at >= full:
                found[partition] = at + (end - at) // full * full
            if partition in found:
                limit = self._within_bytes(partition)
                if limit is not None and end > at:
                    found[partition] = min(found[partition], at + limit)
                self._since_ms.pop(partition)
                self._cuts[partition] = (found[partition], now_ms)
                if found[partition] < end:
                    self._since_ms[partition] = now_ms
        return found


class RotatedEnds(Subscription):
    """The ends of a task's partitions as its loop sees them: a unit has news when its next file is due."""

    def __init__(
        self,
        inner: Subscription,
        rotator: Rotator,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock`` returns seconds."""
        self._inner = inner
        self._rotator = rotator
        self._clock = clock
        self.partitions = inner.partitions
        self.interval_ms = inner.interval_ms

    def restart(self) -> None:
        self._inner.restart()

    def wait(
        self,
        positions: Mapping[Partition, int],
        ids: Mapping[Partition, str] = {},
        until_s: float = math.inf,
    ) -> Mapping[Partition, int]:
        while ends := self._inner.wait(positions, ids, until_s):
            due = self._rotator.due(positions, ends, int(self._clock() * 1000))
            if due or self._inner.are_others(ids) or time.monotonic() >= until_s:
                return due or positions or ends
        return {}

    @property
    def unknown(self) -> Mapping[Partition, str]:
        return self._inner.unknown

    @property
    def held(self) -> Mapping[Partition, int]:
        return self._inner.held

    @property
    def topic_ids(self) -> Mapping[str, str]:
        return self._inner.topic_ids

    @property
    def ends(self) -> Mapping[Partition, int]:
        return self._inner.ends

    def close(self) -> None:
        self._inner.close()
