"""From records of Kafka to the rows of a sink: converters, then the SELECT, then what is left out.

Spark does it all as part of the stream where it can. Where types come with each record, or rows may be
left out, a batch is collected and converted here; then the sink gets the result.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

from pydantic import model_validator

from cooperator.runtime.connectors.base import UnitContext
from cooperator.runtime.connectors.dead_letters import (
    DeadLetterOptions,
    Failed,
    Letter,
    letters,
    reason,
    sift,
)
from cooperator.runtime.connectors.decoding import Decoder, DecodingOptions, decoded_columns
from cooperator.runtime.connectors.exactly_once import UnitWriter
from cooperator.runtime.connectors.kafka_sink import unit_writer
from cooperator.runtime.connectors.kafka_source import KafkaSourceOptions, read_partition, reads
from cooperator.runtime.connectors.topics import client_config, ensure_topic, reaching
from cooperator.runtime.connectors.transform import selected
from cooperator.runtime.options import option, refuse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_COORDINATES = ("topic", "partition", "offset", "timestamp")
_LETTERS_OPTION = "errors.deadletterqueue.topic.name"
_MAX_LETTER = 1_000_000
_LETTERS_TIMEOUT_MS = 10_000


class ConversionOptions(KafkaSourceOptions, DecodingOptions, DeadLetterOptions):
    """Of connectors that read topics and write somewhere else."""

    letters_replication: int = option(
        "errors.deadletterqueue.topic.replication.factor",
        -1,
        expected="the replication factor to create that topic with (-1: the broker's default)",
        instance_only=True,
        ge=-1,
    )

    @model_validator(mode="after")
    def _letters_are_not_read_again(self) -> Self:
        if self.dead_letters and reads(self, self.dead_letters):
            remedy = "name a topic that topics and topics.regex leave out"
            raise refuse("would be read again by this connector", remedy, _LETTERS_OPTION)
        return self


class ConversionFailed(ValueError):
    """A record that the converters refuse; the message says which, where, and why."""


class Part(NamedTuple):
    """Rows of one type. ``types``: columns with the names of Spark's types."""

    types: tuple[tuple[str, str], ...]
    rows: "pa.Table"


class Conversion:
    """Of one unit. ``finish``: what is made of the rows that the SELECT gives, or of the records where there
    is none. ``columns``: of the view ``input``, besides ``key`` and ``value``."""

    def __init__(
        self,
        options: ConversionOptions,
        context: UnitContext,
        finish: "Callable[[DataFrame], DataFrame]",
        columns: Sequence[str] = _COORDINATES,
    ) -> None:
        self._options = options
        self._context = context
        self._finish = finish
        self._columns = columns
        self._decoder = Decoder(options, context.checkpoint / "types.arrow") if options.by_record else None

    @property
    def by_batch(self) -> bool:
        """Whether the stream has to be converted batch by batch, by ``batch``."""
        return self._options.by_record or self._options.tolerance == "all"

    def stream(self, spark: "SparkSession") -> "DataFrame":
        """The unit's stream, converted; or as it is read, when that is to be done batch by batch. OptionError
        when the SELECT cannot work, as far as it is known now."""
        headers = ("headers",) if self.by_batch or "headers" in self._columns else ()
        records = read_partition(spark, self._options, self._context, headers=bool(headers))
        records = records.select("key", "value", *_COORDINATES, *headers)
        if self._options.by_record:
            return records
        converted = self._converted(records)
        return records if self.by_batch else converted

    def types(self, stream: "DataFrame") -> tuple[tuple[str, str], ...] | None:
        """The columns that ``stream`` leads to, with their types; None: those come with the records."""
        if self._options.by_record:
            return None
        return tuple((self._converted(stream) if self.by_batch else stream).dtypes)

    def batch(self, batch: "DataFrame") -> tuple[list[Part], list[Letter]]:
        """The rows of a batch in order, and what is left out. ConversionFailed where nothing may be."""
        raw = batch.toArrow()
        everything = [(list(range(raw.num_rows)), raw)]
        tables, undecoded = self._decoder.tables(raw) if self._decoder else (everything, [])
        found = [self._letter(raw, *one) for one in undecoded]
        if found and self._options.tolerance == "none":
            self._refuse(found[0])
        parts = []
        for numbers, table in tables:
            converted, failed = self._part(table, batch.sparkSession)
            parts += converted
            stage = "TRANSFORMATION" if self._options.select else "VALUE_CONVERTER"
            found += [self._letter(raw, numbers[row], stage, error) for row, error in failed]
        if found:
            log.warning(
                "%s: %d records are left out: %s", self._context.unit, len(found), reason(found[0].error)
            )
        return parts, sorted(found, key=lambda one: int(one.row["offset"]))

    def _part(self, table: "pa.Table", session: "SparkSession") -> "tuple[list[Part], list[Failed]]":
        types: tuple[tuple[str, str], ...] = ()

        def convert(frame: "DataFrame") -> "DataFrame":
            nonlocal types
            converted = self._converted(frame)
            types = tuple(converted.dtypes)
            return converted

        failed: list[Failed] = []
        if self._options.tolerance == "none":
            good = [convert(session.createDataFrame(table)).toArrow()]
        else:
            good, failed = sift(table, session, convert, self._context)
        return [Part(types, rows) for rows in good], failed

    def _converted(self, records: "DataFrame") -> "DataFrame":
        decoded = decoded_columns(records, self._options, self._columns)
        options = self._options
        chosen = selected(decoded, options.select, options.select_option) if options.select else decoded
        return self._finish(chosen)

    def _letter(self, raw: "pa.Table", row: int, stage: str, error: Exception) -> Letter:
        [whole] = raw.slice(row, 1).to_pylist()
        return Letter(whole, stage, error)

    def _refuse(self, letter: Letter) -> None:
        row, part = letter.row, letter.stage.partition("_")[0].lower()
        where = f"{row['topic']}-{row['partition']}, offset {row['offset']}"
        converter = self._options.key_converter if part == "key" else self._options.value_converter
        raise ConversionFailed(
            f"{where}: option '{part}.converter' = '{converter}': cannot read the {part}: {letter.error}; "
            "set the converter that wrote it, or errors.tolerance to all"
        ) from letter.error


class LetterBox:
    """Where records that are left out go, if anywhere: once, by a marker of their own for each batch."""

    def __init__(self, options: ConversionOptions, context: UnitContext) -> None:
        self._topic = options.dead_letters
        self._context = context
        self._writer: UnitWriter | None = None
        if self._topic:
            self._writer = unit_writer(options, context, self._topic, _MAX_LETTER, _LETTERS_TIMEOUT_MS)

    def put(self, query: str, batch: int, found: Sequence[Letter]) -> None:
        """To be called before the batch is in the sink: one that is tried again leaves out the same."""
        if self._writer is not None and found:
            self._writer.write(query, batch, lambda: letters(found, self._topic, self._context))


def ensure_letters(options: ConversionOptions) -> None:
    """Creates the topic of what is left out, where it is wanted and missing."""
    if options.dead_letters:
        with reaching(options):
            ensure_topic(client_config(options), options.dead_letters, 1, options.letters_replication)
