"""Offsets of connectors whose units keep their positions in the markers of their sink.

A change ends the unit's writers, as a start does, and commits the new position with a marker of another
query: no checkpoint agrees with it, so the next attempt builds its own anew. A unit whose marker has no
position yet (it last ran in an earlier release) has that of its checkpoint.
"""

import logging
import threading
import uuid
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from cooperator.connectors.base import Cancelled
from cooperator.connectors.exactly_once import (
    LogLost,
    Marker,
    Replaced,
    TransactionAborted,
    UnitWriter,
)
from cooperator.connectors.kafka_log import KafkaLogs, Patience, latest_markers
from cooperator.connectors.kafka_sink import KafkaSinkOptions
from cooperator.connectors.offsets.entries import Change, Entry, Json, OffsetsError, altered, changes
from cooperator.connectors.offsets.sources import About, ConnectorOffsets, UnitPlace, Where
from cooperator.connectors.offsets.unit_log import unfence
from cooperator.connectors.topics import client_config
from cooperator.connectors.unit_position import (
    Stated,
    check_fixed,
    fixed_options,
    move,
    read_known,
)
from cooperator.connectors.units import directory

log = logging.getLogger(__name__)

_LIMIT_S: Final = 30.0
_AT_ONCE: Final = 8

K = TypeVar("K", bound=KafkaSinkOptions)


@dataclass(frozen=True, slots=True)
class MarkedUnit:
    """A unit during an operation: its place, and its marker (None: it has none)."""

    place: UnitPlace
    marker: Marker | None
    patience: Patience


@dataclass(frozen=True, slots=True)
class _Move:
    """The positions of a unit before a change, and those after it."""

    unit: MarkedUnit
    before: list[Entry]
    after: list[Entry]


class MarkedOffsets(ConnectorOffsets[K], Generic[K]):
    """A subclass knows the source, and the form of its positions."""

    @abstractmethod
    def unit_of(self, options: K, partition: Json) -> str:
        """Returns the unit of a partition; raises ``OffsetsError`` if the connector has none for it."""

    @abstractmethod
    def at(self, options: K, place: UnitPlace, where: Where) -> list[Entry]:
        """Returns all positions of a unit at the beginning or at the end of its source's current contents."""

    @abstractmethod
    def check(self, options: K, entries: Sequence[Entry]) -> None:
        """Raises ``OffsetsError`` when the source has no such positions."""

    @abstractmethod
    def in_checkpoint(self, options: K, place: UnitPlace, batch: int, ends: Sequence[str]) -> list[Entry]:
        """Returns the positions at the end of a finished batch by the checkpoint."""

    @abstractmethod
    def in_sink(self, options: K, unit: MarkedUnit, position: str) -> list[Entry]:
        """Returns the positions that a marker's position means."""

    @abstractmethod
    def stated(self, options: K, unit: MarkedUnit, entries: Sequence[Entry]) -> Stated:
        """Returns the marker's position for exactly these positions."""

    def listed(self, options: K, about: About) -> list[Entry]:
        with _Limit(options) as limit:
            units = self._units(options, about, limit)
            return [entry for unit in units.values() for entry in self.current(options, unit)]

    def alter(self, options: K, about: About, wanted: Sequence[Entry], *, dry_run: bool) -> list[Change]:
        by_unit: dict[str, list[Entry]] = {}
        for entry in wanted:
            by_unit.setdefault(self.unit_of(options, entry.partition), []).append(entry)
        self.check(options, [entry for entry in wanted if entry.offset is not None])
        with _Limit(options) as limit:
            units = self._units(options, about, limit)
            plan = []
            for name, entries in by_unit.items():
                unit = units.get(name) or MarkedUnit(_place(about, name), None, limit.patience)
                current = self.current(options, unit)
                plan.append(_Move(unit, current, altered(current, entries)))
            return self._carry_out(options, plan, fixed_options(options), limit, dry_run)

    def reset(self, options: K, about: About, where: Where | None, *, dry_run: bool) -> list[Change]:
        with _Limit(options) as limit:
            plan = []
            for unit in self._units(options, about, limit).values():
                after = [] if where is None else self.at(options, unit.place, where)
                plan.append(_Move(unit, self._current_or_nothing(options, unit), after))
                limit.renew()
            # A connector that starts over may do so with other options.
            fixed = "" if where is None else fixed_options(options)
            return self._carry_out(options, plan, fixed, limit, dry_run)

    def migrate(self, options: K, about: About, *, dry_run: bool) -> list[Change]:
        raise OffsetsError(
            f"{about.connector}: the next start takes over the positions of its checkpoints, so that there "
            "is nothing to migrate"
        )

    def _units(self, options: K, about: About, limit: "_Limit") -> dict[str, MarkedUnit]:
        """Returns the units that have a marker or a checkpoint."""
        patience = limit.patience
        places = {place.unit: place for place in about.places}
        markers = latest_markers(client_config(options), about.group_id, about.connector, patience)
        return {
            name: MarkedUnit(places.get(name) or _place(about, name), markers.get(name), patience)
            for name in sorted({*places, *markers})
        }

    def current(self, options: K, unit: MarkedUnit) -> list[Entry]:
        """Returns the positions of a unit. Raises ``OffsetsError``."""
        marker = unit.marker
        if marker is not None and marker.position is not None:
            return self.in_sink(options, unit, marker.position)
        found = read_known(unit.place.unit, marker, unit.place.checkpoint)
        return self.in_checkpoint(options, unit.place, found.committed, found.ends)

    def _current_or_nothing(self, options: K, unit: MarkedUnit) -> list[Entry]:
        """Returns the positions to forget, which need not be readable."""
        try:
            return self.current(options, unit)
        except OffsetsError as error:
            log.info("unit %s: %s", unit.place.unit, error)
            return []

    def _carry_out(
        self, options: K, plan: Sequence["_Move"], fixed: str, limit: "_Limit", dry_run: bool
    ) -> list[Change]:
        for each in plan:
            if fixed and each.unit.marker is not None:
                check_fixed(each.unit.marker, options)

        def carry_out(each: _Move) -> None:
            # This also runs when nothing differs: an attempt that still runs loses the unit.
            unfence(each.unit.place.checkpoint)
            self._move(options, each.unit, self.stated(options, each.unit, each.after), fixed)
            limit.renew()

        if not dry_run:
            with ThreadPoolExecutor(_AT_ONCE, "offsets") as pool:
                list(pool.map(carry_out, plan))
        return [change for each in plan for change in changes(each.before, each.after)]

    def _move(self, options: K, unit: MarkedUnit, stated: Stated, fixed: str) -> None:
        place = unit.place
        logs = KafkaLogs(
            group_id=place.group_id,
            connector=place.connector,
            unit=place.unit,
            topic="",
            client=client_config(options),
            producer={"compression.type": "lz4"},
            transaction_timeout_ms=options.transaction_timeout_ms,
            cancelled=unit.patience.cancelled,
            say=unit.patience.say,
        )
        owner, cancelled = f"offsets-{uuid.uuid4().hex[:8]}", unit.patience.cancelled
        writer = UnitWriter(logs, owner, cancelled, fixed=fixed)
        try:
            move(writer, unit.marker or Marker(""), place.checkpoint, stated)
        finally:
            writer.close()


def _place(about: About, unit: str) -> UnitPlace:
    checkpoint = directory(about.checkpoints, about.connector) / unit
    return UnitPlace(about.group_id, about.connector, unit, checkpoint, about.conf)


class _Limit:
    """Limits the wait for Kafka, for one operation; raises ``OffsetsError`` when that takes too long."""

    def __init__(self, options: KafkaSinkOptions) -> None:
        self._too_late = threading.Event()
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self._said = ""
        self.patience = Patience(self._too_late, self._say, options.bootstrap_servers)

    def renew(self) -> None:
        """Begins the time anew: one of several units is done."""
        with self._lock:
            self._cancel()
            self._timer = threading.Timer(_LIMIT_S, self._too_late.set)
            self._timer.daemon = True
            self._timer.start()

    def __enter__(self) -> "_Limit":
        self.renew()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with self._lock:
            self._cancel()
        if isinstance(error, Cancelled):
            reason = self._said or "Kafka does not answer"
            raise OffsetsError(f"the positions cannot be read or changed in time: {reason}") from None
        if isinstance(error, Replaced):
            raise OffsetsError(f"{error}; stop the connector, and try again") from None
        if isinstance(error, LogLost | TransactionAborted):
            raise OffsetsError(f"the positions were not changed: {error}; try again") from None

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _say(self, text: str) -> None:
        self._said = text or self._said
