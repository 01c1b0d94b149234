"""Dead letters of batches whose rows go elsewhere than to Kafka.

Letters are written before the rows. If the rows then fail, the next batch may have another end, so a marker
counts offsets: it says up to where the unit's letters were written on a line of offsets (see
``postgres_positions``), in the transaction of these letters. Later attempts write only those after it. The
records are left out for the same reasons by every attempt.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cooperator.connectors.base import UnitContext
from cooperator.connectors.conversion import ConversionOptions
from cooperator.connectors.dead_letters import Letter, letters
from cooperator.connectors.exactly_once import UnitWriter
from cooperator.connectors.kafka_log import KafkaLogs
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.topics import client_config

log = logging.getLogger(__name__)

_MAX_LETTER = 64 << 20
"""Bytes. A letter is larger than its record by its headers; the topic's own settings limit its size."""
_TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class LetterClaim:
    """An attempt's claim, for the marker of its letters: newer claims are greater.

    The claim itself is elsewhere, so there is nothing to check: the marker refuses attempts that are older.
    """

    claim: str

    @classmethod
    def of(cls, claim: Claim) -> "LetterClaim":
        epoch = claim.epoch
        return cls(f"{epoch.term:012}-{epoch.generation:012}-{claim.attempt:012}-{claim.owner}")

    def check(self) -> None:
        return


class UnitLetters:
    """Writes the letters of one unit, each once. The topic's producer is opened when there are some."""

    def __init__(
        self,
        options: ConversionOptions,
        context: UnitContext,
        stopped: threading.Event,
        claim: Callable[[], Claim],
    ) -> None:
        """``stopped`` ends waits with ``Cancelled``; ``claim`` returns that of this attempt."""
        self._options = options
        self._context = replace(context, cancelled=stopped)
        self._claim = claim
        self._writer: UnitWriter | None = None
        self._line, self._end = "", 0

    def put(self, found: Sequence[Letter], line: str, end: int) -> None:
        """Writes the letters of a range that ends at the offset ``end``.

        Raises ``Replaced`` when a newer attempt has written letters of the unit.
        """
        if not found:
            return
        writer = self._writer or self._opened()
        first = self._end if line == self._line else 0
        new = [letter for letter in found if letter.row["offset"] >= first]
        if new:
            topic, context = self._options.dead_letters, self._context
            writer.write(line, end, lambda: letters(new, topic, context))
            self._line, self._end = line, end

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _opened(self) -> UnitWriter:
        context = self._context
        logs = KafkaLogs(
            group_id=context.group_id,
            connector=context.task.connector,
            unit=context.unit,
            topic=self._options.dead_letters,
            client=client_config(self._options),
            producer={
                "compression.type": "lz4",
                "message.max.bytes": _MAX_LETTER,
                "queue.buffering.max.kbytes": 2 * _MAX_LETTER >> 10,
            },
            transaction_timeout_ms=_TIMEOUT_MS,
            cancelled=context.cancelled,
            say=context.say,
        )
        writer = UnitWriter(logs, context.owner, context.cancelled, LetterClaim.of(self._claim()))
        self._writer = writer
        found = writer.claim()
        self._line, self._end = found.query, found.batch
        return writer
