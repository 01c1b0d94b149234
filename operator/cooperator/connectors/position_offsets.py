"""Offsets of connectors whose positions are in Kafka: they are changed by an attempt at the units.

The attempt claims the units and fences all others, as a task does (``microbatch.ownership``), and commits the
new positions in a transaction. Then it removes its claims. Its positions have the least claim, so that later
attempts are newer in any case, also if epochs have begun anew.
"""

import logging
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ClassVar, Final, TypeVar

from confluent_kafka import Producer

from cooperator.connectors import fence
from cooperator.connectors.base import Cancelled
from cooperator.connectors.exactly_once import LogLost, Replaced, TransactionAborted
from cooperator.connectors.kafka_log import Patience
from cooperator.connectors.kafka_offsets import KafkaOffsets, offset_of
from cooperator.connectors.kafka_sink import KafkaSinkOptions, is_delivered, refuse_behind
from cooperator.connectors.kafka_source import KafkaSourceOptions
from cooperator.connectors.memory import FileMemory
from cooperator.connectors.microbatch import notes
from cooperator.connectors.microbatch.claims import (
    Claim,
    ClaimKey,
    Position,
    PositionKey,
    TransactionalIds,
    UnitKey,
)
from cooperator.connectors.microbatch.kafka_positions import OwnedUnits, partition_of
from cooperator.connectors.microbatch.members import positions_of
from cooperator.connectors.microbatch.ownership import Attempt, Ownership
from cooperator.connectors.microbatch.ranges import end_of
from cooperator.connectors.microbatch.task import MIGRATED
from cooperator.connectors.offsets.entries import Change, OffsetsError, changes
from cooperator.connectors.offsets.sinks import Sink
from cooperator.connectors.offsets.sources import About, UnitPlace
from cooperator.connectors.output_record import OutputRecord
from cooperator.connectors.places import put
from cooperator.connectors.stored_offsets import StoredOffsets, listed
from cooperator.connectors.topics import client_config
from cooperator.connectors.units import read_layout
from cooperator.log_lines import LibrdkafkaLog
from cooperator.model import Epoch

log = logging.getLogger(__name__)

_LIMIT_S: Final = 30.0
_LOOK_S: Final = 5.0
_AT_ONCE: Final = 8
_OWNER: Final = "offsets"
_LEAST: Final = Claim(Epoch(0, 0), 0, _OWNER)


class KafkaCopyOptions(KafkaSourceOptions, KafkaSinkOptions):
    """Options of connectors that read topics and write to topics."""


K = TypeVar("K", bound=KafkaCopyOptions)


def stored_ends(
    client: Mapping[str, Any], group_id: str, connector: str, units: Sequence[str]
) -> Mapping[str, str]:
    """Returns where units stand, as JSON; empty for those without a position. Raises ``OffsetsError``."""
    with PositionTopic(client, group_id, connector, _LOOK_S) as topic:
        found = topic.positions.positions([topic.key(unit) for unit in units], topic.patience)
        reached = {unit: found.get(topic.key(unit)) for unit in units}
        return {unit: end_of(unit, None if at is None else at.next) for unit, at in reached.items()}


class PositionOffsets(StoredOffsets[K]):
    place: ClassVar[str] = "in Kafka"

    def opened(self, options: K, about: About) -> "PositionTopic":
        return PositionTopic(client_config(options), about.group_id, about.connector, _LIMIT_S)

    def migrate(self, options: K, about: About, *, dry_run: bool) -> list[Change]:
        checkpoints: KafkaOffsets[K] = KafkaOffsets(Sink(is_delivered))
        with self.opened(options, about) as topic:
            current, known = listed(topic), topic.positioned()
            missing = [place for place in about.places if place.unit not in known]
            if missing and not dry_run:
                # Writers of earlier releases must not commit another batch after it was looked for.
                topic.end_earlier(missing)
            with ThreadPoolExecutor(_AT_ONCE, "markers") as pool:
                list(pool.map(lambda place: refuse_behind(options, place), missing))
            taken = {place.unit: checkpoints.current(options, place) for place in missing}
            after = [*current, *(entry for entries in taken.values() for entry in entries)]
            found = changes(current, after)
            if not dry_run:
                # A unit with a position is not looked at again, so the notes come first.
                layout = read_layout(about.checkpoints, about.connector)
                if layout is not None:
                    notes.settle_layout(topic.positions, about.connector, layout, topic.patience)
                for place in missing:
                    known_types = FileMemory(place.checkpoint / "types.arrow").read()
                    if known_types is not None:
                        topic.memory(place.unit).write(known_types)
                topic.move({unit: offset_of(entry) for unit, entries in taken.items() for entry in entries})
                for place in about.places:
                    put(place.checkpoint / MIGRATED, b"its position is in Kafka\n")
            return found


class PositionTopic:
    """The positions of one connector, for one operation in a limited time."""

    def __init__(self, client: Mapping[str, Any], group_id: str, connector: str, limit_s: float) -> None:
        self._client = dict(client)
        self._group_id = group_id
        self._connector = connector
        self._too_late = threading.Event()
        self._timer = threading.Timer(limit_s, self._too_late.set)
        self._timer.daemon = True
        self._said = ""
        self.positions = positions_of(group_id, client)
        self.patience: Patience = self.positions.patience(self._too_late, self._say)

    def __enter__(self) -> "PositionTopic":
        self._timer.start()
        with self._readable():
            self.positions.ensure(self.patience)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._timer.cancel()
        if isinstance(error, Cancelled):
            raise OffsetsError(self._unanswered()) from None
        if isinstance(error, Replaced):
            raise OffsetsError(f"{error}; stop the connector, and try again") from None
        if isinstance(error, LogLost | TransactionAborted):
            raise OffsetsError(f"the positions were not changed: {error}; try again") from None

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except Cancelled:
            raise OffsetsError(self._unanswered()) from None

    def _say(self, text: str) -> None:
        self._said = text or self._said

    def _unanswered(self) -> str:
        return f"the positions cannot be read or changed in time: {self._said or 'Kafka does not answer'}"

    def key(self, unit: str) -> UnitKey:
        return UnitKey(self._connector, unit)

    def units(self) -> list[str]:
        """Returns the units that have a position or a claim."""
        return [key.unit for key in self.positions.units(self._connector, self.patience)]

    def stands(self) -> Mapping[str, Position]:
        """Returns the positions of all units that have one."""
        keys = [self.key(unit) for unit in self.units()]
        found = self.positions.positions(keys, self.patience)
        return {key.unit: found[key] for key in keys if key in found}

    def positioned(self) -> Mapping[str, int]:
        return {unit: position.next for unit, position in self.stands().items()}

    def end_earlier(self, places: Sequence[UnitPlace]) -> None:
        """Ends writers of earlier releases for good: they open their log again as long as they hold the
        unit."""
        for place in places:
            fence.close(place.checkpoint, _OWNER)
        ids = [f"{self._group_id}-units/{self._connector}/{place.unit}" for place in places]
        self.positions.fence(ids, self.patience)

    def forget(self, earlier: Sequence[UnitPlace]) -> None:
        self.end_earlier(earlier)
        self.move(dict.fromkeys(self.units()))
        notes.forget(self.positions, self._connector, self.patience)

    def memory(self, unit: str) -> notes.NoteMemory:
        return notes.NoteMemory(self.positions, self._connector, unit, self.patience)

    def move(
        self,
        offsets: Mapping[str, int | None],
        ids: Mapping[str, str] = {},
        seen: Mapping[str, Position] | None = None,
        beside: Iterable[OutputRecord] = (),
    ) -> None:
        """Claims the units, fences all other attempts, and commits these positions (None: none).

        ``ids`` are those of the positions, and ``beside`` is committed with them. Raises ``Replaced`` unless
        the positions are those ``seen`` before (None: any).
        """
        if not offsets:
            return
        keys = tuple(self.key(unit) for unit in offsets)
        claims = self.positions.claims(keys, self.patience)
        stands = self.positions.positions(keys, self.patience)
        known = [each for of_unit in claims.values() for each in of_unit]
        newest = max([*known, *(stand.claim for stand in stands.values())], default=_LEAST)
        claim = Claim(newest.epoch, newest.attempt + 1, f"{_OWNER}-{uuid.uuid4().hex[:8]}")
        slots = TransactionalIds.of_units(self._group_id, self._connector, list(offsets), 1)
        producer = Producer({**self._client, "transactional.id": slots.ids[0]}, logger=LibrdkafkaLog(log))
        machine = Ownership(Attempt(claim, keys, slots))

        def initialise(session: str) -> None:
            self.patience.until_done(producer.init_transactions)

        found = OwnedUnits(machine, self.positions, self.patience, initialise).claim().positions
        for key in keys if seen is not None else ():
            if seen is not None and found.get(key) != seen.get(key.unit):
                raise Replaced(f"an attempt has moved unit {key.unit} meanwhile")
        producer.begin_transaction()
        for unit, offset in offsets.items():
            value = None if offset is None else Position(offset, _LEAST, ids.get(unit, "")).encode()
            key = self.key(unit)
            producer.produce(self.positions.topic, value, PositionKey(key).encode(), partition_of(key))
        for record in beside:
            producer.produce(record.topic, record.value, record.key, record.partition)
        self.patience.until_done(producer.commit_transaction)
        mine: list[tuple[bytes, bytes | None]] = [(ClaimKey(key, claim).encode(), None) for key in keys]
        self.positions.write_claims(mine, self.patience)
