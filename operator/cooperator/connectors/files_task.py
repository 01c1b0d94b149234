"""A task that writes partitions of topics into files: the conversion of its batches, and its loop."""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cooperator.connectors.access import of_java
from cooperator.connectors.base import UnitContext
from cooperator.connectors.conversion import COORDINATES, Conversion, converted
from cooperator.connectors.dead_letters import Letter
from cooperator.connectors.decoding import fields_of_value
from cooperator.connectors.files_position_offsets import directory
from cooperator.connectors.files_target import KafkaToFilesOptions
from cooperator.connectors.formats import defaults
from cooperator.connectors.intents.batches import FileBatches, FilePlan
from cooperator.connectors.intents.collected_stager import CollectedStager
from cooperator.connectors.intents.directory import Directory
from cooperator.connectors.intents.moves import newest_claim
from cooperator.connectors.intents.rotation import RotatedEnds, Rotation, Rotator
from cooperator.connectors.intents.s3_store import S3Store
from cooperator.connectors.intents.spark_stager import FileFormat, RowsMoved, SparkStager
from cooperator.connectors.intents.stores import FileStore, LocalStore
from cooperator.connectors.intents.units import FileUnits
from cooperator.connectors.kafka_partitions import first_offsets, last_offsets
from cooperator.connectors.kafka_source import consumer_settings
from cooperator.connectors.memory import UnitMemory
from cooperator.connectors.microbatch.batches import Batches
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.left_out import LeavingOut
from cooperator.connectors.microbatch.letters import UnitLetters
from cooperator.connectors.microbatch.planned_first import PlannedFirst
from cooperator.connectors.microbatch.plans import Plans
from cooperator.connectors.microbatch.ranges import Limits, OffsetRange, Partition
from cooperator.connectors.microbatch.spark_batches import LEAST_SLOTS, BatchSource, read, session_of_task
from cooperator.connectors.microbatch.task import LoopParts, LoopTask, SourceSettings, open_loop, slots_for
from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.output_record import OutputRecord
from cooperator.connectors.parts import as_one_table
from cooperator.connectors.places import hadoop_settings
from cooperator.connectors.planned_decoding import Decoding
from cooperator.connectors.registry import AvroReader, reader_of
from cooperator.connectors.spark import check_partition_by
from cooperator.connectors.tasks import TaskContext
from cooperator.connectors.topics import client_config
from cooperator.connectors.transform import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_MAX_OFFSETS: Final = 1_000_000
"""The maximum number of records in a batch of a task, where Spark's tasks write them."""
_HADOOP: Final = "spark.hadoop."
_OF_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_MOST_OF_A_NAME: Final = 255
_ESCAPED: Final = r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]"""
"""Characters that take three bytes in the name of a directory."""
_DATASOURCES: Final = "org.apache.spark.sql.execution.datasources"
_FORMATS: Final = {
    "parquet": "parquet.ParquetFileFormat",
    "json": "json.JsonFileFormat",
    "csv": "csv.CSVFileFormat",
}


def open_files_task(options: KafkaToFilesOptions, context: TaskContext) -> LoopTask:
    """Claims the units, and returns the task once it runs. Raises what it fails with, and ``Cancelled``."""
    member = context.session()
    stopped = threading.Event()
    parts = _parts(options, context, stopped, session_of_task(member))
    source = SourceSettings(
        client=client_config(options),
        java={**of_java(options), "isolation.level": options.isolation_level},
        limits=_limits(options, len(context.units)),
        interval_ms=options.trigger_interval_ms,
        starts_at_latest=options.starting_offsets == "latest",
        fail_on_data_loss=options.fail_on_data_loss,
        earliest=lambda partitions: first_offsets(options, partitions),
        latest=lambda partitions: last_offsets(options, partitions),
    )
    return open_loop(context, member, source, parts, stopped)


def _limits(options: KafkaToFilesOptions, units: int) -> Limits:
    per_task = max(options.max_offsets, min(_MAX_OFFSETS, options.max_offsets * units))
    return Limits(options.max_offsets, per_task)


def _parts(
    options: KafkaToFilesOptions, context: TaskContext, stopped: threading.Event, spark: "SparkSession"
) -> LoopParts:
    units = {Partition.of_unit(unit): unit for unit in context.units}
    place = directory(options, context.group_id, context.task.connector, context.conf)
    store = _store(place, context, spark)
    owned = FileUnits(lambda: _claim(place, store, context), units, lambda partition: store, stopped)
    source = BatchSource(
        consumer_settings(options),
        pool=str(context.task),
        headers=options.is_collected,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    file_format = FileFormat(
        options.format,
        options.partition_by,
        {**defaults(options.format, "sink"), **({"header": "true"} if options.format == "csv" else {})},
        options.flush_size,
    )
    avro = reader_of(options)
    by_unit = {
        partition: _Unit(unit, options, context, place, owned, stopped, avro)
        for partition, unit in units.items()
    }
    some = next(iter(by_unit.values()))
    if not options.by_record:
        # Rows that files cannot have are reported now.
        rows = some.conversion.relation(read(spark, source, slots=LEAST_SLOTS))
        some.accept(rows)
        _refuse_empty_lines(rows, options)
    full = min(options.flush_size, options.max_offsets)
    rotator = Rotator(Rotation(full, options.rotate_interval_ms, options.max_file_bytes))

    def in_plan(decoding: Decoding) -> FilePlan:
        def rows(records: "DataFrame") -> "DataFrame":
            return converted(decoding.applied(records), options, COORDINATES, _finish(options))

        try:
            stager = SparkStager(spark, source, rows, file_format, can_fail=options.is_collected)
        except RowsMoved as error:
            remedy = "use a SELECT that treats each record by itself, or the class spark"
            raise OptionError([Problem(options.select_option, options.select, str(error), remedy)]) from error
        return FilePlan(owned, stager, rotator.wrote)

    def convert(range_: OffsetRange, raw: "pa.Table") -> "pa.Table | None":
        return by_unit[range_.partition].rows(range_, raw, spark)

    def close() -> None:
        for unit in by_unit.values():
            unit.letters.close()

    batches: Batches
    if options.is_collected:
        stager = CollectedStager(spark, source, convert, file_format)
        plans = Plans(spark, lambda partition: by_unit[partition].conversion, in_plan)
        by_row = FileBatches(owned, stager, rotator.wrote, close)
        leaving_out = LeavingOut(
            spark,
            lambda partition: by_unit[partition].conversion,
            lambda range_, found: by_unit[range_.partition].put(range_, found),
            context.say,
        )
        batches = PlannedFirst(plans.of, by_row, options.max_offsets, leaving_out)
    else:
        batches = in_plan(Decoding())
    return LoopParts(
        ownership=owned,
        batches=batches,
        layout=place.layout,
        store="its directory",
        slots=slots_for(len(units), spark),
        ends=lambda ends: RotatedEnds(ends, rotator),
    )


def _store(place: Directory, context: TaskContext, spark: "SparkSession") -> FileStore:
    if isinstance(place.place, Path):
        return LocalStore(place.place)
    for name, value in hadoop_settings(context.conf, os.environ).items():
        # A session's own settings are those of its Hadoop clients, too.
        spark.conf.set(name.removeprefix(_HADOOP), value)
    return S3Store(spark, place.place)


def _claim(place: Directory, store: FileStore, context: TaskContext) -> Claim:
    """Makes the connector the directory's owner, and returns the claim of this attempt.

    It is newer than all others if no leader has ordered attempts.
    """
    place.settle()
    if context.epoch is not None:
        return Claim.of(context.epoch, context.attempt, context.owner)
    newest = newest_claim(store, context.units)
    return Claim.of(newest.epoch, newest.attempt + 1, context.owner)


class _Unit:
    """Converts the records of one unit."""

    def __init__(
        self,
        unit: str,
        options: KafkaToFilesOptions,
        context: TaskContext,
        place: Directory,
        owned: FileUnits,
        stopped: threading.Event,
        avro: AvroReader | None,
    ) -> None:
        self._options = options
        self._context = context.of_unit(unit)
        self._place = place
        self._owned = owned
        self._avro = avro
        self._conversion: Conversion | None = None
        self.letters = UnitLetters(options, self._context, stopped, lambda: owned.attempt)

    @property
    def conversion(self) -> Conversion:
        if self._conversion is None:
            memory = self._place.memory(self._context.unit)
            self._conversion = conversion(self._options, self._context, memory, self._avro)
        return self._conversion

    def accept(self, rows: "DataFrame") -> None:
        accept(rows, self._options)

    def rows(self, range_: OffsetRange, raw: "pa.Table", spark: "SparkSession") -> "pa.Table | None":
        """Returns the rows; the records that are left out are in the dead-letter topic then."""
        parts, left_out = self.conversion.table(raw, spark)
        self.put(range_, left_out)
        return as_one_table(parts)

    def put(self, range_: OffsetRange, left_out: Sequence[Letter]) -> Sequence[OutputRecord]:
        """Writes the letters; none is left to be written with the rows."""
        if self._options.dead_letters:
            self.letters.put(self.letters.of(left_out), self._owned.line(range_.partition), range_.end)
        return ()


def conversion(
    options: KafkaToFilesOptions,
    context: UnitContext,
    memory: UnitMemory | None = None,
    avro: AvroReader | None = None,
) -> Conversion:
    """Returns the conversion of one unit's records to the rows of files."""
    return Conversion(
        options,
        context,
        _finish(options),
        memory=memory,
        accept=lambda rows: accept(rows, options),
        one_table=True,
        avro=avro,
    )


def _finish(options: KafkaToFilesOptions) -> "Callable[[DataFrame], DataFrame]":
    def finish(rows: "DataFrame") -> "DataFrame":
        found = rows if options.select or not options.can_fail else fields_of_value(rows)
        found = with_names_of_directories(found, options.partition_by)
        return _with_bytes_as_text(found) if options.format == "csv" else found

    return finish


def with_names_of_directories(rows: "DataFrame", names: Sequence[str]) -> "DataFrame":
    """Returns the rows; those fail whose texts in these columns no name of a directory can hold.

    Spark gives an empty text the directory of null, and file systems refuse a name that is too long.
    """
    import pyspark.sql.functions as F  # noqa: N812

    kinds = dict(rows.dtypes)
    checked = {}
    for name in names:
        if kinds.get(name) != "string":
            continue
        text = F.col(quoted(name))
        escaped = F.regexp_replace(text, _ESCAPED, "%00")
        room = _MOST_OF_A_NAME - len(name.encode()) - 1
        problem = (
            F.when(text == "", "is empty, which the name of its directory does not tell from null")
            .when(text == _OF_NULL, f"is {_OF_NULL}, which stands for null in names of directories")
            .when(F.octet_length(escaped) > room, f"has more than the {room} bytes that its directory holds")
        )
        told = F.concat(F.lit(f"column {name} of partition.by "), problem)
        remedy = F.lit("; change the value in transform.sql, or remove the column from partition.by")
        failed = F.raise_error(F.concat(told, remedy)).cast("string")
        checked[name] = F.when(problem.isNotNull(), failed).otherwise(text)
    return rows.withColumns(checked) if checked else rows


def _with_bytes_as_text(rows: "DataFrame") -> "DataFrame":
    """Returns the rows with bytes as base64, as JSON has them; Spark writes them as Java shows a list."""
    import pyspark.sql.functions as F  # noqa: N812

    in_bytes = [name for name, kind in rows.dtypes if kind == "binary"]
    return rows.withColumns({name: F.base64(F.col(quoted(name))) for name in in_bytes}) if in_bytes else rows


def _refuse_empty_lines(rows: "DataFrame", options: KafkaToFilesOptions) -> None:
    in_files = [column for column in rows.columns if column not in options.partition_by]
    if options.format == "csv" and len(in_files) == 1 and rows.schema[in_files[0]].nullable:
        problem = f"cannot have {in_files[0]} as its only column: its null is an empty line, which is no row"
        remedy = f"select another column as well, or coalesce({in_files[0]}, '')"
        raise OptionError([Problem("format", options.format, problem, remedy)])


def accept(rows: "DataFrame", options: KafkaToFilesOptions) -> None:
    """Raises ``OptionError`` or ``AnalysisException`` if files cannot have the columns of these rows."""
    check_partition_by(options.partition_by, rows)
    untyped: Any = rows
    in_files = [column for column in rows.columns if column not in options.partition_by]
    schema = untyped.select([quoted(name) for name in in_files])._jdf.schema()
    file_format = _java(rows, f"{_DATASOURCES}.{_FORMATS[options.format]}")()
    _java(rows, f"{_DATASOURCES}.DataSourceUtils").verifySchema(file_format, schema, False)


def _java(rows: "DataFrame", name: str) -> Any:
    found: Any = rows.sparkSession.sparkContext._jvm
    for part in name.split("."):
        found = getattr(found, part)
    return found
