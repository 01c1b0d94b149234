"""Claims and positions on a real cluster: the topic ``<group>-positions``, and the units of an attempt.

The topic is compacted. Its first ``POSITION_PARTITIONS`` partitions hold positions, which are written in the
transactions of rows. One more holds all claims. They are written outside of transactions, so readers of
claims never wait for one, not even for the open transaction of the attempt that they are about to fence.
"""

import logging
import threading
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cooperator.connectors.exactly_once import LogLost, Replaced
from cooperator.connectors.kafka_log import MARKER_CONFIG, Patience
from cooperator.connectors.microbatch.claims import NoteKey, Position, PositionKey, UnitKey
from cooperator.connectors.microbatch.ownership import (
    Action,
    BatchFailed,
    Begin,
    Done,
    Fence,
    Initialise,
    Look,
    Ownership,
    Read,
    Run,
    Seen,
    Stop,
    Write,
)
from cooperator.connectors.microbatch.positions import Claims, Positions
from cooperator.connectors.microbatch.topic_reader import TopicReader
from cooperator.connectors.topics import TopicMisconfigured, ensure_topic, partition_counts
from cooperator.log_lines import LibrdkafkaLog
from cooperator.model.text import counted

log = logging.getLogger(__name__)

POSITION_PARTITIONS: Final = 8
"""It must never change: a unit's partition depends on it."""
CLAIMS: Final = POSITION_PARTITIONS
"""The partition of all claims."""
PARTITIONS: Final = POSITION_PARTITIONS + 1

_WRITE_S: Final = 10.0
_AT_ONCE: Final = 8
"""Ids that are initialised at the same time: each needs a connection or two for that long."""
_TRIES: Final = 5


def topic_of(group_id: str) -> str:
    """Returns the name of the topic of positions of a Worker's group."""
    return f"{group_id}-positions"


def partition_of(unit: UnitKey) -> int:
    """Returns the partition of a unit's position."""
    return zlib.crc32(str(unit).encode()) % POSITION_PARTITIONS


class KafkaPositions:
    """The topic of positions on one cluster. Thread-safe: the tasks of a member share it.

    ``client`` holds properties for every client. Waits end by the ``Patience`` of the caller.
    """

    def __init__(self, group_id: str, client: Mapping[str, Any]) -> None:
        self._client = dict(client)
        self._topic = topic_of(group_id)
        self._claims = TopicReader(client, self._topic, [CLAIMS])
        self._positions = TopicReader(client, self._topic, range(POSITION_PARTITIONS))
        self._producer: Producer | None = None
        self._ensured = False
        self._lock = threading.Lock()

    @property
    def topic(self) -> str:
        return self._topic

    def patience(self, cancelled: threading.Event, say: Callable[[str], None]) -> Patience:
        return Patience(cancelled, say, str(self._client["bootstrap.servers"]))

    def ensure(self, patience: Patience) -> None:
        """Creates the topic unless it exists. Raises TopicMisconfigured if it cannot serve."""
        if self._ensured:
            return
        name = self._topic
        patience.until_done(lambda s: ensure_topic(self._client, name, PARTITIONS, -1, MARKER_CONFIG, s))

        def count(timeout_s: float) -> int:
            found = partition_counts(self._client, [name])[name]
            if found == 0:
                raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
            return found

        found = patience.until_done(count)
        if found < PARTITIONS:
            raise TopicMisconfigured(
                f"topic {name} has {counted(found, 'partition')} instead of {PARTITIONS}, so it was not "
                "created by cooperator: delete it while no connector of the Worker runs, or use another group"
            )
        self._ensured = True

    def claims(self, units: Collection[UnitKey], patience: Patience) -> Claims:
        """Returns the claims that were written before the call, and maybe later ones."""
        return self._claims.read(lambda ledger: ledger.claims(units), patience)

    def positions(self, units: Collection[UnitKey], patience: Patience) -> Positions:
        """Returns the positions that were committed before the call, and maybe later ones."""
        return self._positions.read(lambda ledger: ledger.positions(units), patience)

    def units(self, connector: str, patience: Patience) -> Sequence[UnitKey]:
        """Returns the units of a connector that have a position or a claim, sorted."""
        readers = (self._claims, self._positions)
        return sorted(
            {unit for each in readers for unit in each.read(lambda ledger: ledger.units(connector), patience)}
        )

    def note(self, key: NoteKey, patience: Patience) -> bytes | None:
        """Returns a connector's note; None: there is none."""
        return self._claims.read(lambda ledger: ledger.note(key), patience)

    def notes(self, connector: str, patience: Patience) -> Sequence[NoteKey]:
        """Returns the keys of a connector's notes."""
        return list(self._claims.read(lambda ledger: ledger.notes(connector), patience))

    def write_claims(self, records: Sequence[tuple[bytes, bytes | None]], patience: Patience) -> None:
        """Writes records of claims, or notes, and waits until all of them are acknowledged."""
        self._write([(key, value, CLAIMS) for key, value in records], patience)

    def _write(self, records: Sequence[tuple[bytes, bytes | None, int]], patience: Patience) -> None:
        try:
            patience.until_done(lambda s: self._put(records, s, patience))
        except LogLost:
            # The client has failed for good; the next attempt gets another one.
            with self._lock:
                self._producer = None
            raise

    def _put(
        self, records: Sequence[tuple[bytes, bytes | None, int]], timeout_s: float, patience: Patience
    ) -> None:
        outcomes: list[KafkaError | None] = []

        def note(error: KafkaError | None, _: Message) -> None:
            outcomes.append(error)

        producer = self._writer(timeout_s)
        for key, value, partition in records:
            # Bounded by the number of units, which fits into the client's queue.
            producer.produce(self._topic, value, key, partition, on_delivery=note)
        while len(outcomes) < len(records):
            patience.check()
            producer.poll(0.05)
        for error in outcomes:
            if error is not None:
                raise KafkaException(error)

    def _writer(self, timeout_s: float) -> Producer:
        with self._lock:
            if self._producer is None:
                settings = {
                    "acks": "all",
                    "enable.idempotence": True,
                    "message.timeout.ms": int(_WRITE_S * 1_000),
                }
                producer = Producer({**self._client, **settings}, logger=LibrdkafkaLog(log))
                # Otherwise the client asks for the topic's leaders only after a second.
                producer.list_topics(self._topic, timeout_s)
                self._producer = producer
            return self._producer

    def fence(self, ids: Sequence[str], patience: Patience) -> None:
        """Initialises transactional ids: ends their transactions and fences their producers (KIP-98)."""
        with ThreadPoolExecutor(_AT_ONCE, "fence") as pool:
            fencing = [pool.submit(self._fence, name, patience) for name in ids]
        for each in fencing:
            each.result(0)

    def _fence(self, name: str, patience: Patience) -> None:
        for attempt in range(1, _TRIES + 1):
            producer = Producer({**self._client, "transactional.id": name}, logger=LibrdkafkaLog(log))
            try:
                patience.until_done(producer.init_transactions)
            except LogLost as error:
                # Another attempt initialises it at the same time. Only an answer to this one is proof.
                log.info("initialising %s, attempt %d: %s", name, attempt, error)
                if attempt == _TRIES:
                    raise
            except KafkaException as error:
                if error.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                    raise PermissionError(
                        f"transactional id {name!r} of an older attempt stays open: {error.args[0].str()}; "
                        "allow the Worker's user to write the transactional ids of its group"
                    ) from error
                raise
            else:
                return


@dataclass(frozen=True, slots=True)
class Owned:
    """The units that an attempt may write: from these positions, with the producers of this session.

    Units that never had a position are left out.
    """

    positions: Positions
    session: str


class OwnedUnits:
    """Carries out what ``Ownership`` says for one attempt. It is for one thread.

    ``initialise(session)`` initialises the attempt's own transactional ids where their producers live. An
    exception ends the call, and the next one goes on with that step.
    """

    def __init__(
        self,
        machine: Ownership,
        positions: KafkaPositions,
        patience: Patience,
        initialise: Callable[[str], None],
    ) -> None:
        self._machine = machine
        self._topic = positions
        self._patience = patience
        self._initialise = initialise

    def claim(self) -> Owned:
        """Claims the units and fences older attempts.

        Raises ``Replaced`` when a newer attempt has claimed a unit, ``Cancelled``, and what ``initialise``
        raises.
        """
        if self._machine.action is None:
            self._topic.ensure(self._patience)
            self._machine.on(Begin())
        return self._own()

    def recover(self) -> Owned:
        """Finds out, after a failed batch, what is committed. Raises as ``claim`` does."""
        if isinstance(self._machine.action, Run):
            self._machine.on(BatchFailed())
        return self._own()

    def record(self, unit: UnitKey, position: int, topic_id: str) -> tuple[bytes, bytes, int]:
        """Returns key, value and partition of the record that commits a position."""
        value = Position(position, self._machine.attempt.claim, topic_id).encode()
        return PositionKey(unit).encode(), value, partition_of(unit)

    def _own(self) -> Owned:
        action = self._machine.action
        while action is not None and not isinstance(action, Run | Stop):
            log.info("%s: %s", self._machine.attempt.claim, type(action).__name__.lower())
            action = self._machine.on(self._carry_out(action))
        if isinstance(action, Run):
            return Owned(action.positions, action.session)
        raise Replaced(action.reason if isinstance(action, Stop) else "the attempt has not begun")

    def _carry_out(self, action: Action) -> Done | Seen:
        units, patience = self._machine.attempt.units, self._patience
        match action:
            case Write(records):
                self._topic.write_claims(records, patience)
            case Look():
                return Seen(self._topic.claims(units, patience))
            case Fence(ids):
                self._topic.fence(ids, patience)
            case Initialise(_, session):
                self._initialise(session)
            case Read():
                return Seen(self._topic.claims(units, patience), self._topic.positions(units, patience))
        return Done()
