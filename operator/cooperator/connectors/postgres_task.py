"""A task that writes partitions of topics to PostgreSQL: the conversion of its batches, and its loop."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from cooperator.connectors.access import of_java
from cooperator.connectors.conversion import Conversion
from cooperator.connectors.dead_letters import Letter
from cooperator.connectors.decoding import fields_of_value
from cooperator.connectors.kafka_partitions import first_offsets, last_offsets
from cooperator.connectors.kafka_source import consumer_settings
from cooperator.connectors.microbatch.batches import Batches
from cooperator.connectors.microbatch.copy_batches import CopyBatches, CopyQuery
from cooperator.connectors.microbatch.left_out import LeavingOut
from cooperator.connectors.microbatch.letters import UnitLetters
from cooperator.connectors.microbatch.planned_first import PlannedFirst
from cooperator.connectors.microbatch.plans import Plans
from cooperator.connectors.microbatch.postgres_batches import PostgresBatches, RowConverter
from cooperator.connectors.microbatch.postgres_positions import PostgresPositions
from cooperator.connectors.microbatch.postgres_units import PostgresUnits, UnitNote
from cooperator.connectors.microbatch.ranges import LeftOut, Limits, Partition
from cooperator.connectors.microbatch.spark_batches import LEAST_SLOTS, BatchSource, read, session_of_task
from cooperator.connectors.microbatch.task import LoopParts, LoopTask, SourceSettings, open_loop, slots_for
from cooperator.connectors.options import OptionError
from cooperator.connectors.parts import Part, in_order
from cooperator.connectors.planned_decoding import Decoding
from cooperator.connectors.postgres import Database
from cooperator.connectors.postgres_checks import storable
from cooperator.connectors.postgres_jdbc import jdbc_settings
from cooperator.connectors.postgres_lines import Texts, can_be_lines, texts
from cooperator.connectors.postgres_position_offsets import positions_of
from cooperator.connectors.postgres_sink import Chunk
from cooperator.connectors.postgres_table import Table
from cooperator.connectors.postgres_target import (
    SOURCE,
    KafkaToPostgresOptions,
    Targets,
    Types,
    key_of,
    refuse_shared_tables,
)
from cooperator.connectors.registry import AvroReader, reader_of
from cooperator.connectors.tasks import TaskContext
from cooperator.connectors.topics import client_config

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_MAX_OFFSETS: Final = 200_000
"""The maximum number of records in a batch of a task, unless the option for one partition is greater."""
_MAX_CONVERTED: Final = 10_000
"""The default of a batch that is converted row by row."""


def open_postgres_task(options: KafkaToPostgresOptions, context: TaskContext) -> LoopTask:
    """Checks the tables, claims the units, and returns the task once it runs.

    Raises what it fails with, and ``Cancelled``.
    """
    member = context.session()
    stopped = threading.Event()
    database = Database(
        options, str(context.task), context.cancelled, context.say, options.transaction_timeout_ms
    )
    parts: LoopParts | None = None
    try:
        parts = _parts(options, context, database, stopped, session_of_task(member))
    finally:
        if parts is None:
            database.close()
    # From here on the loop uses the database, and closes it.
    database.cancelled_by(stopped)
    source = SourceSettings(
        client=client_config(options),
        java={**of_java(options), "isolation.level": options.isolation_level},
        limits=_limits(options, len(context.units), is_converted=isinstance(parts.batches, PostgresBatches)),
        interval_ms=options.trigger_interval_ms,
        starts_at_latest=options.starting_offsets == "latest",
        fail_on_data_loss=options.fail_on_data_loss,
        earliest=lambda partitions: first_offsets(options, partitions),
        latest=lambda partitions: last_offsets(options, partitions),
    )
    return open_loop(context, member, source, parts, stopped)


def _limits(options: KafkaToPostgresOptions, units: int, *, is_converted: bool) -> Limits:
    """A batch that is converted row by row is held in memory, so the limit is that of all units then."""
    if is_converted:
        is_set = "max_offsets" in options.model_fields_set
        at_most = options.max_offsets if is_set else _MAX_CONVERTED
        return Limits(at_most, at_most)
    per_task = max(options.max_offsets, min(_MAX_OFFSETS, options.max_offsets * units))
    return Limits(options.max_offsets, per_task)


def _parts(
    options: KafkaToPostgresOptions,
    context: TaskContext,
    database: Database,
    stopped: threading.Event,
    spark: "SparkSession",
) -> LoopParts:
    # A connection that Spark's tasks cannot have is reported now.
    database.run(jdbc_settings)
    units = {Partition.of_unit(unit): unit for unit in context.units}
    targets = Targets(database, options)
    topics = sorted({partition.topic for partition in units})
    refuse_shared_tables(database, options, sorted({*topics, *options.topics}))
    positions = positions_of(options, context.group_id, context.task.connector)

    def deliver(unit: str, letters: str) -> None:
        by_record[Partition.of_unit(unit)].letters.deliver(letters)

    owned = PostgresUnits(database, positions, units, context.epoch, context.attempt, context.owner, deliver)
    source = BatchSource(
        consumer_settings(options),
        pool=str(context.task),
        headers=options.is_collected,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    avro = reader_of(options)
    by_topic = SOURCE in options.table and len(topics) > 1
    is_shared = by_topic and not options.is_collected
    by_record = {
        partition: _Unit(
            *(unit, options, context, database, positions, owned, targets, stopped, avro), is_shared=is_shared
        )
        for partition, unit in units.items()
    }
    slots = slots_for(len(units), spark)
    no_records = read(spark, source, slots=LEAST_SLOTS)

    def queries_of(decoding: Decoding) -> dict[str, CopyQuery | OptionError]:
        """Returns the query of each topic, or why its rows do not fit; empty if Spark cannot make lines of
        some. Raises ``OptionError`` if no rows fit."""
        used = {partition.topic: unit.conversion for partition, unit in by_record.items()}
        shared: dict[object, Conversion] = {}
        types: dict[Conversion, Types] = {}
        records = decoding.applied(no_records)
        found: dict[str, CopyQuery | OptionError] = {}
        for topic in topics:
            conversion = used[topic]
            try:
                if not options.is_collected:
                    # Where no row is left out, a conversion depends on the table alone, and is analysed once.
                    table = targets.described(topic)
                    held = (
                        (tuple(table.columns.items()), key_of(table, options)) if table is not None else None
                    )
                    conversion = shared.setdefault(held, conversion)
                if conversion not in types:
                    types[conversion] = tuple(conversion.relation(records).dtypes)
                query = _query(conversion, decoding, topic, types[conversion], targets)
            except OptionError as error:
                found[topic] = error
                continue
            if query is None:
                return {}
            found[topic] = query
        if refused := [each for each in found.values() if isinstance(each, OptionError)]:
            if len(refused) == len(found):
                raise refused[0]
            log.warning("%s: the other topics go on: %s", context.task, "; ".join(map(str, refused)))
        return found

    copies: list[CopyBatches] = []

    def have_changed() -> bool:
        if not targets.have_changed():
            return False
        for unit in by_record.values():
            unit.forget()
        for each in copies:
            each.forget()
        plans.forget()
        return True

    def planned(decoding: Decoding) -> CopyBatches | None:
        queries = queries_of(decoding)
        if not queries:
            return None

        def query_of(topic: str) -> CopyQuery:
            known = queries[topic]
            if not isinstance(known, OptionError):
                return known
            # Its table may be there by now; the other topics keep their queries.
            targets.forget(topic)
            of_topic = [unit for partition, unit in by_record.items() if partition.topic == topic]
            for unit in of_topic:
                unit.forget()
            conversion = of_topic[0].conversion
            types = tuple(conversion.relation(decoding.applied(no_records)).dtypes)
            query = _query(conversion, decoding, topic, types, targets)
            if query is None:
                raise known
            queries[topic] = query
            return query

        made = CopyBatches(
            spark,
            source,
            database,
            positions,
            owned,
            query_of,
            slots,
            by_topic=by_topic,
            have_changed=have_changed,
        )
        copies.append(made)
        return made

    # Rows that do not fit are reported now.
    has_lines = not options.by_record and bool(queries_of(Decoding()))

    def convert(partition: Partition, raw: "pa.Table") -> tuple[list[Chunk], list[Letter]]:
        return by_record[partition].chunks(raw, spark)

    def left_out(partition: Partition, found: Sequence[Letter]) -> list[LeftOut]:
        return by_record[partition].letters.of(found)

    def close() -> None:
        for unit in by_record.values():
            unit.letters.close()

    tolerates = left_out if options.tolerance == "all" else None
    converter = RowConverter(convert, tolerates, close)
    batches: Batches
    batches = by_row = PostgresBatches(
        spark, source, database, positions, owned, converter, context.say, have_changed
    )
    plans = Plans(spark, lambda partition: by_record[partition].conversion, planned)
    if options.is_collected:
        leaving_out = LeavingOut(
            spark,
            lambda partition: by_record[partition].conversion,
            lambda range_, found: [one.letter for one in left_out(range_.partition, found) if one.letter],
            context.say,
        )
        batches = PlannedFirst(
            plans.of, by_row, options.max_offsets, leaving_out, reads_topics_apart=by_topic
        )
    elif has_lines:
        # The conversion row by row only names the record that the database refuses.
        batches = PlannedFirst(plans.of, by_row, options.max_offsets, reads_topics_apart=by_topic)
    return LoopParts(
        ownership=owned,
        batches=batches,
        layout=lambda: database.run(positions.layout),
        store="PostgreSQL",
        slots=slots,
    )


def _query(
    conversion: Conversion,
    decoding: Decoding,
    topic: str,
    types: tuple[tuple[str, str], ...],
    targets: Targets,
) -> CopyQuery | None:
    """Returns the query that copies the records of a topic; None if Spark cannot make lines of its rows.

    ``types`` are those of the rows. Raises ``OptionError`` for rows that do not fit.
    """
    table, rows = targets.of(types, topic)
    held = tuple((name, table.columns.get(name, "")) for name, _ in types)
    if not can_be_lines(types, dict(held)):
        return None

    def make(records: "DataFrame") -> Texts:
        return texts(conversion.relation(decoding.applied(records)), dict(held))

    return CopyQuery((held, conversion), make, rows)


def as_rows(rows: "DataFrame", options: KafkaToPostgresOptions, table: Table | None) -> "DataFrame":
    """Returns the rows of a conversion."""
    found = rows if options.select else fields_of_value(rows)
    return storable(found, key_of(table, options), table)


def chunks_of(parts: Sequence[Part], targets: Targets, topic: str) -> list[Chunk]:
    """Returns the rows in order; a chunk ends where the target changes."""
    rows = ((targets.of(part.types, topic).rows, number, row) for part, number, row in in_order(parts))
    runs = groupby(rows, key=itemgetter(0))
    return [Chunk(into, [(number, row) for _, number, row in run]) for into, run in runs]


class _Unit:
    """Converts the records of one unit."""

    def __init__(
        self,
        unit: str,
        options: KafkaToPostgresOptions,
        context: TaskContext,
        database: Database,
        positions: PostgresPositions,
        owned: PostgresUnits,
        targets: Targets,
        stopped: threading.Event,
        avro: AvroReader | None,
        *,
        is_shared: bool,
    ) -> None:
        """``is_shared``: units of other topics may use its conversion."""
        self._unit = unit
        self._topic = Partition.of_unit(unit).topic
        self._options = options
        self._context = context.of_unit(unit)
        self._database = database
        self._positions = positions
        self._targets = targets
        self._avro = avro
        self._is_shared = is_shared
        self._conversion: Conversion | None = None
        self.letters = UnitLetters(options, self._context, stopped, lambda: owned.claimed)

    def forget(self) -> None:
        """Lets the next batch be converted for the table as it is then."""
        self._conversion = None

    @property
    def conversion(self) -> Conversion:
        if self._conversion is None:
            self._conversion = Conversion(
                self._options,
                self._context,
                self._finish,
                memory=UnitNote(self._database, self._positions, self._unit),
                accept=lambda rows: self._targets.of(tuple(rows.dtypes), self._topic),
                avro=self._avro,
                write=self._written,
                is_numbered=True,
            )
        return self._conversion

    def chunks(self, raw: "pa.Table", spark: "SparkSession") -> tuple[list[Chunk], list[Letter]]:
        """Returns the rows, and the records that are left out."""
        parts, left_out = self.conversion.table(raw, spark)
        return chunks_of(parts, self._targets, self._topic), left_out

    def _written(self, rows: "DataFrame") -> "DataFrame":
        """Returns the rows as text, as Spark's tasks write them, but for columns that Spark cannot write."""
        types = tuple(rows.dtypes)
        columns = self._targets.of(types, self._topic).table.columns
        return texts(rows, columns).rows

    def _finish(self, rows: "DataFrame") -> "DataFrame":
        table = self._targets.described(self._topic)
        if table is not None and self._is_shared:
            # The tables of its topics have the same columns, so messages have the pattern of their names.
            table = replace(table, name=self._options.table)
        return as_rows(rows, self._options, table)
