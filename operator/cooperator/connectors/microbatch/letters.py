"""Dead letters of batches whose rows go elsewhere than to Kafka.

A marker counts offsets: it says up to where the unit's letters were written on a line of offsets (see
``postgres_positions``), in the transaction of these letters. Later attempts write only those after it.

In front of files, letters are written before the rows. If the rows then fail, the next batch may have another
end, but its records are left out for the same reasons. A database may refuse a record now and accept it
later (a key, a reference), so the letters of a batch are committed there, with its rows and its position
(``KeptLetters``), and written afterwards: at once, or by the next attempt.
"""

import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cooperator.connectors.base import UnitContext
from cooperator.connectors.conversion import ConversionOptions
from cooperator.connectors.dead_letters import Letter, letters
from cooperator.connectors.exactly_once import UnitWriter
from cooperator.connectors.kafka_log import KafkaLogs
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.ranges import LeftOut
from cooperator.connectors.output_record import OutputRecord
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


class KeptLetters(NamedTuple):
    """The letters of a range that ends at the offset ``end`` of a line, which are kept until written."""

    line: str
    end: int
    letters: Sequence[LeftOut]

    def encode(self) -> str:
        """Returns it as a text; an empty one if there are no letters."""
        kept = [[one.offset, one.letter.encoded()] for one in self.letters if one.letter is not None]
        return json.dumps([self.line, self.end, kept]) if kept else ""

    @classmethod
    def decode(cls, text: str) -> "KeptLetters":
        line, end, kept = json.loads(text)
        return cls(line, end, [LeftOut(offset, OutputRecord.decoded(letter)) for offset, letter in kept])


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

    def of(self, found: Sequence[Letter]) -> list[LeftOut]:
        """Returns the records that are left out, with their letters if there is a topic for them."""
        records = letters(found, self._options.dead_letters, self._context)
        pairs = zip(found, records, strict=True)
        has_topic = bool(self._options.dead_letters)
        return [LeftOut(one.row["offset"], record if has_topic else None) for one, record in pairs]

    def deliver(self, kept: str) -> None:
        """Writes letters that were kept (``KeptLetters``), unless they were written already."""
        if self._options.dead_letters:
            line, end, found = KeptLetters.decode(kept)
            self.put(found, line, end)
        else:
            name = "errors.deadletterqueue.topic.name"
            log.warning("%s: letters are dropped, since %s is not set any more", self._context.unit, name)

    def put(self, found: Sequence[LeftOut], line: str, end: int) -> None:
        """Writes the letters of a range that ends at the offset ``end``.

        Raises ``Replaced`` when a newer attempt has written letters of the unit.
        """
        if not found:
            return
        writer = self._writer or self._opened()
        first = self._end if line == self._line else 0
        new = [one.letter for one in found if one.letter is not None and one.offset >= first]
        if new:
            topic = self._options.dead_letters
            writer.write(line, end, lambda: [letter._replace(topic=topic) for letter in new])
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
