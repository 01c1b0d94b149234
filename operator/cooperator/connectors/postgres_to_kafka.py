"""``postgres-to-kafka``: writes rows of tables in PostgreSQL to topics, exactly once.

A unit is a table. Its rows are read in batches whose bounds are fixed beforehand (see ``postgres_source``),
and each batch is one transaction of the unit's producer with the batch's marker (see ``exactly_once``):
readers need ``read_committed``. Each row becomes a record: the key is the table's primary key, the value the
columns.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator

from cooperator.connectors.base import Connector, Delivered, UnitContext
from cooperator.connectors.encoding import EncodingOptions, encoder
from cooperator.connectors.exactly_once import OutputRecord, Row, UnitWriter
from cooperator.connectors.fence import claim
from cooperator.connectors.kafka_sink import DELIVERED, deliver_batch, unit_writer
from cooperator.connectors.offsets.sources import ConnectorOffsets
from cooperator.connectors.options import OptionError, Options, Problem, is_topic_name, option, refuse
from cooperator.connectors.polled import Batch, BatchLog, PolledSource, PolledUnit
from cooperator.connectors.postgres import Database
from cooperator.connectors.postgres_offsets import TableOffsets, TablePosition, TableToKafkaOptions
from cooperator.connectors.postgres_source import TableReader, source_tables
from cooperator.connectors.records import as_records
from cooperator.connectors.spark import spread
from cooperator.connectors.topics import client_config, ensure_topic, reaching
from cooperator.connectors.transform import selected
from cooperator.connectors.unit_position import KeptPosition

if TYPE_CHECKING:
    import pyarrow as pa

_TABLE = "{table}"
_SCHEMA = "{schema}"


def _pattern(value: str) -> str:
    if not is_topic_name(value.replace(_TABLE, "t").replace(_SCHEMA, "s")):
        remedy = (
            "use letters, digits, dots, underscores and dashes; {schema} and {table} stand for the source's"
        )
        raise refuse("is not a valid topic name", remedy)
    return value


class PostgresToKafkaOptions(TableToKafkaOptions, EncodingOptions):
    topic: Annotated[str, AfterValidator(_pattern)] = option(
        "topic",
        _TABLE,
        expected="the topic to write to; {schema} and {table} stand for the source's, as in shop.{table}",
        fixed=True,
    )
    partitions: int = option(
        "topic.partitions",
        4,
        expected="the number of partitions to create a topic with, 1 or more",
        instance_only=True,
        ge=1,
    )

    def target(self, table: str) -> str:
        """Returns the topic that rows of ``table`` go to."""
        schema, _, name = table.rpartition(".")
        return self.topic.replace(_TABLE, name).replace(_SCHEMA, schema or "public")


class PostgresToKafka(Connector[PostgresToKafkaOptions]):
    options: ClassVar[type[Options]] = PostgresToKafkaOptions

    def delivery(self, options: PostgresToKafkaOptions) -> Delivered:
        return DELIVERED

    def offsets(self) -> ConnectorOffsets[PostgresToKafkaOptions]:
        return TableOffsets()

    def units(self, options: PostgresToKafkaOptions, say: Callable[[str], None]) -> Sequence[str]:
        with closing(Database(options, "units", threading.Event(), say)) as database:
            tables = source_tables(database, options, say)
        with reaching(options):
            for topic in dict.fromkeys(map(options.target, tables)):
                if not is_topic_name(topic):
                    remedy = "write another name, or one without {schema}"
                    raise OptionError(
                        [Problem("topic", options.topic, f"{topic} is not a valid topic name", remedy)]
                    )
                ensure_topic(client_config(options), topic, options.partitions, options.replication)
        return tables

    def open(self, options: PostgresToKafkaOptions, context: UnitContext) -> PolledUnit:
        name = f"{context.task.connector}/{context.unit}"
        fence = claim(context.checkpoint, context.epoch, context.attempt, context.owner)
        context = replace(context, fence=fence)
        try:
            database = Database(options, name, context.cancelled, context.say)
            context.closing.callback(database.close)
            reader = TableReader(database, options, context.unit)
            records = _records_of(reader, options, context)
            kept = TablePosition()
            writer = unit_writer(options, context, options.target(context.unit), kept)
            source = _Rows(reader, writer, kept, records, context)
            pause_s = spread(options.trigger_interval_ms, name) / 1000
            return PolledUnit(source, BatchLog(context.checkpoint, fence.check), context, pause_s)
        except BaseException:
            context.closing.close()
            raise


Records = Callable[[list[dict[str, Any]]], Iterable[Row]]


class _Rows(PolledSource):
    def __init__(
        self,
        reader: TableReader,
        writer: UnitWriter,
        kept: KeptPosition,
        records: Records,
        context: UnitContext,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._kept = kept
        self._records = records
        self._context = context

    def next_end(self, position: str) -> str | None:
        return self._reader.next_end(position, self._context.cancelled.wait, self._context.say)

    def deliver(self, batch: Batch, query: str) -> int:
        read = 0

        def rows() -> Iterable[Row]:
            nonlocal read
            found = self._reader.read(batch.start, batch.end)
            read = len(found)
            return self._records(found)

        deliver_batch(self._writer, self._kept, self._context, query, batch.number, rows)
        return read


def _records_of(reader: TableReader, options: PostgresToKafkaOptions, context: UnitContext) -> Records:
    """Returns the function that makes records of rows: the converters alone, or after the SELECT."""
    import pyarrow as pa

    schema = pa.schema([(column.name, column.arrow) for column in reader.columns])
    if not options.transform_sql:
        target = options.target(context.unit)
        encode = encoder(options, schema, reader.key, target, context.unit)
        return lambda rows: map(encode, rows)
    session = context.session().newSession()

    def converted(rows: list[dict[str, Any]]) -> "pa.Table":
        frame = session.createDataFrame(pa.Table.from_pylist(rows, schema))
        return as_records(selected(frame, options.transform_sql)).toArrow()

    converted([])  # problems of the SELECT are reported now

    def records(rows: list[dict[str, Any]]) -> Iterator[Row]:
        for row in converted(rows).to_pylist():
            headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
            partition = -1 if row["partition"] is None else row["partition"]
            yield OutputRecord(row["key"], row["value"], "", partition, row["timestamp"] or 0, headers)

    return records
