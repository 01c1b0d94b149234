"""Converts Kafka records to the rows of a sink: converters first, then the SELECT, then error tolerance.

Spark does all of it as part of a batch's plan where it can (``relation``). Where records have other types
than those that are settled, or rows are left out, the batch is collected and converted here (``table``), and
the sink gets the result.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

from pydantic import model_validator

from cooperator.connectors.base import UnitContext
from cooperator.connectors.dead_letters import (
    DeadLetterOptions,
    Letter,
    reason,
    treats_rows_alone,
)
from cooperator.connectors.decoder import Decoder, Types
from cooperator.connectors.decoding import DecodingOptions, decoded_columns
from cooperator.connectors.failing_rows import Failed, frame_of, sift
from cooperator.connectors.kafka_source import KafkaSourceOptions, reads
from cooperator.connectors.memory import FileMemory, UnitMemory
from cooperator.connectors.options import option, refuse
from cooperator.connectors.outcomes import Outcomes, TypeOutcome, is_known
from cooperator.connectors.parts import (
    NUMBER,
    Part,
    as_relation,
    numbered,
    with_column_of_numbers,
    with_numbers,
)
from cooperator.connectors.planned_decoding import Decoding, DecodingPlanner
from cooperator.connectors.registry import AvroReader
from cooperator.connectors.topics import client_config, ensure_topic, reaching
from cooperator.connectors.transform import selected

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

COORDINATES = ("topic", "partition", "offset", "timestamp")
_LETTERS_OPTION = "errors.deadletterqueue.topic.name"


class ConversionOptions(KafkaSourceOptions, DecodingOptions, DeadLetterOptions):
    """Options of connectors that read topics and write elsewhere."""

    letters_replication: int = option(
        "errors.deadletterqueue.topic.replication.factor",
        -1,
        expected="the replication factor to create that topic with (-1: the broker's default)",
        instance_only=True,
        ge=-1,
    )

    @property
    def is_collected(self) -> bool:
        """Whether batches may have to be converted on the driver, row by row."""
        return self.by_record or self.tolerance == "all"

    @model_validator(mode="after")
    def _letters_are_not_read_again(self) -> Self:
        if self.dead_letters and reads(self, self.dead_letters):
            remedy = "name a topic that topics and topics.regex do not match"
            raise refuse("would be read by this connector again", remedy, _LETTERS_OPTION)
        return self


class ConversionFailed(ValueError):
    """The converters refuse a record; the message names the record, its position and the reason."""


class _LeftOut(NamedTuple):
    """A row (by its number in the batch) that is left out, and the stage (one of Connect's) that failed."""

    row: int
    stage: str
    error: Exception


class Conversion:
    """The conversion of one unit's records.

    ``finish`` is applied to the rows that the SELECT returns, or to the records where there is no SELECT.
    ``columns`` are those of the view ``input``, besides ``key`` and ``value``. ``memory`` is what converters
    remember; without it that is in the unit's checkpoint. ``accept`` raises ``OptionError`` for rows that the
    sink cannot take because of their columns. With ``one_table`` all rows go into one table, whose columns
    have one type each. Units of a task may share ``avro``. ``write`` is applied to rows last, in ``table``
    alone: their types are told as they were before. ``is_numbered``: all rows have the numbers of their
    records.
    """

    def __init__(
        self,
        options: ConversionOptions,
        context: UnitContext,
        finish: "Callable[[DataFrame], DataFrame]",
        columns: Sequence[str] = COORDINATES,
        memory: UnitMemory | None = None,
        accept: "Callable[[DataFrame], object]" = lambda rows: None,
        one_table: bool = False,
        avro: AvroReader | None = None,
        write: "Callable[[DataFrame], DataFrame]" = lambda rows: rows,
        *,
        is_numbered: bool = False,
    ) -> None:
        self._options = options
        self._context = context
        self._finish = finish
        self._columns = columns
        self._accept = accept
        self._write = write
        self._is_numbered = is_numbered
        memory = memory or FileMemory(context.checkpoint / "types.arrow")
        self._decoder = Decoder(options, memory, avro) if options.by_record else None
        self._is_planned = not options.select or treats_rows_alone(options.select)
        self._outcomes = Outcomes(self._outcome, one_table)
        self._newest: Types = ()

    def relation(self, records: "DataFrame") -> "DataFrame":
        """Returns converted records, whose types are given or decoded already (``decoding``)."""
        return converted(records, self._options, self._columns, self._finish)

    def decoding(self, planner: DecodingPlanner) -> Decoding | None:
        """Returns how a plan decodes the next batch; None if it has to be converted row by row.

        The plan gives the rows of ``table``, unless it fails for a row: where all records have the types of
        the last one that ``table`` has converted, or those that earlier batches have settled.
        """
        if self._decoder is None:
            return Decoding()
        for types in (self._newest, self._decoder.known) if self._is_planned else ():
            if is_known(types) and self._outcomes.accepts(types):
                return planner.decoding(self._decoder.settled(types))
        return None

    def refused(self, raw: "pa.Table", session: "SparkSession") -> list[Letter] | None:
        """Returns these records as those that are left out; None if one of them can be converted.

        Their types are settled as those of a batch are. Raises what ``table`` raises.
        """
        parts, left_out = self._table(raw, session, are_suspects=True)
        return None if any(part.rows.num_rows for part in parts) else left_out

    def note(self, left_out: Sequence[Letter]) -> None:
        """Writes into the log how many records of a batch are left out."""
        if left_out:
            why = reason(left_out[0].error)
            log.warning("%s: skipped %d records: %s", self._context.unit, len(left_out), why)

    def table(self, raw: "pa.Table", session: "SparkSession") -> tuple[list[Part], list[Letter]]:
        """Returns the rows of a batch's records, and the records left out.

        Raises ``ConversionFailed`` when no record may be left out, and ``OptionError`` when the SELECT, or
        the sink, refuses all records because of their types.
        """
        parts, left_out = self._table(raw, session)
        self.note(left_out)
        return parts, left_out

    def _table(
        self, raw: "pa.Table", session: "SparkSession", *, are_suspects: bool = False
    ) -> tuple[list[Part], list[Letter]]:
        import pyarrow as pa

        if self._decoder is None:
            rows = with_column_of_numbers(raw, range(raw.num_rows)) if self._is_numbered else raw
            parts, found = self._part(rows, session, are_suspects=are_suspects)
        else:
            parts, found = self._decoded(self._decoder, raw, session)
        found.sort(key=lambda one: one.row)
        left_out = raw.take(pa.array([one.row for one in found], pa.int64())).to_pylist()
        return parts, [Letter(row, one.stage, one.error) for row, one in zip(left_out, found, strict=True)]

    def _part(
        self, rows: "pa.Table", session: "SparkSession", *, are_suspects: bool = False
    ) -> tuple[list[Part], list[_LeftOut]]:
        """Converts rows of the same types. A column ``NUMBER``, if there is one, numbers them."""
        types: tuple[tuple[str, str], ...] = ()
        is_numbered = NUMBER in rows.column_names

        def convert(frame: "DataFrame") -> "DataFrame":
            nonlocal types
            rows = self.relation(frame)
            types = tuple(rows.dtypes)
            written = self._write(rows)
            return with_numbers(written) if is_numbered else written

        failed: list[Failed] = []
        if self._options.tolerance == "none":
            good = [convert(frame_of(rows, session)).toArrow()]
        else:
            good, failed = sift(rows, session, convert, self._context, are_suspects=are_suspects)
        stage = "TRANSFORMATION" if self._options.select else "VALUE_CONVERTER"
        left_out = [_LeftOut(row, stage, error) for row, error in failed]
        return [numbered(types, one) if is_numbered else Part(types, one) for one in good], left_out

    def _decoded(
        self, decoder: Decoder, raw: "pa.Table", session: "SparkSession"
    ) -> tuple[list[Part], list[_LeftOut]]:
        """Converts records that have types of their own."""

        def outcome(types: Types) -> TypeOutcome:
            return self._outcomes.of(types, decoder.no_rows(raw, types), session)

        self._outcomes.ask_again()
        kinds, undecoded = decoder.tables(
            raw, lambda kinds: self._outcomes.usable(kinds, decoder.known, outcome)
        )
        left_out = [_LeftOut(*one) for one in undecoded]
        if left_out and self._options.tolerance == "none":
            self._refuse(raw, left_out[0])
        select = self._options.select
        by_count = sorted(kinds, key=lambda kind: len(kind.numbers), reverse=True)
        settled = [kind.types for kind in by_count]
        remembered, refusals = self._outcomes.settle(settled, decoder.known, outcome)
        parts: list[Part] = []
        in_order = self._is_numbered or (len(kinds) > 1 and (not select or treats_rows_alone(select)))
        for types, numbers, rows in kinds:
            if (refusal := refusals.get(types)) is not None:
                if self._options.tolerance == "none":
                    raise refusal
                left_out += [_LeftOut(row, "TRANSFORMATION", refusal) for row in numbers]
                continue
            if in_order:
                rows = with_column_of_numbers(rows, numbers)
            more, failed = self._part(rows, session)
            left_out += [_LeftOut(numbers[one.row], one.stage, one.error) for one in failed]
            parts += more
        decoder.remember(remembered)
        usable = [kind for kind in kinds if kind.types not in refusals and is_known(kind.types)]
        if usable:
            self._newest = max(usable, key=lambda kind: kind.numbers[-1]).types
        return parts, left_out

    def _outcome(self, no_rows: "pa.Table", session: "SparkSession") -> "DataFrame":
        """Returns the rows that records of these types become, without converting any.

        Raises ``OptionError`` when the SELECT, or the sink, refuses them.
        """
        rows = self.relation(as_relation(no_rows, session))
        self._accept(rows)
        return rows

    def _refuse(self, raw: "pa.Table", left_out: _LeftOut) -> None:
        [row] = raw.slice(left_out.row, 1).to_pylist()
        part = left_out.stage.partition("_")[0].lower()
        where = f"{row['topic']}-{row['partition']}, offset {row['offset']}"
        converter = self._options.key_converter if part == "key" else self._options.value_converter
        raise ConversionFailed(
            f"{where}: option '{part}.converter' = '{converter}': cannot read the {part}: {left_out.error}; "
            "set the converter that wrote it, or set errors.tolerance to all"
        ) from left_out.error


def converted(
    records: "DataFrame",
    options: ConversionOptions,
    columns: Sequence[str],
    finish: "Callable[[DataFrame], DataFrame]",
) -> "DataFrame":
    """Returns the rows of records whose types are given, or decoded already."""
    decoded = decoded_columns(records, options, columns)
    return finish(selected(decoded, options.select, options.select_option) if options.select else decoded)


def ensure_letters(options: ConversionOptions) -> None:
    """Creates the dead-letter topic if it is configured and missing."""
    if options.dead_letters:
        with reaching(options):
            ensure_topic(client_config(options), options.dead_letters, 1, options.letters_replication)
