"""``files-to-kafka``: writes the lines of the files below a directory to a topic, exactly once.

Units are hash buckets of file paths, so that each file is read by one unit wherever that runs; the number of
units is fixed when the connector is created. A task is one loop of batches over its units (``filelogs``). If
the SELECT has state, each unit is a query of Structured Streaming with a checkpoint.

A file is read once, when it is first seen: files must appear whole (written elsewhere, then moved in) and
must not change. Files and directories whose names begin with ``.`` or ``_`` are hidden, as everywhere in
Spark. Text is UTF-8; bytes that are not are kept, but in JSON, where they are refused.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cooperator.connectors.base import Delivered, UnitContext
from cooperator.connectors.exactly_once import Row
from cooperator.connectors.file_positions import FilesRead, names_in_kafka
from cooperator.connectors.file_records import file_records
from cooperator.connectors.files_source import MAX_BYTES_STATE, FilesToKafkaOptions
from cooperator.connectors.kafka_log import Patience
from cooperator.connectors.kafka_sink import DELIVERED, deliver
from cooperator.connectors.offsets.sources import ConnectorOffsets
from cooperator.connectors.options import Options
from cooperator.connectors.spark import SparkConnector, local_rows
from cooperator.connectors.tasks import (
    InstanceContext,
    LoopingConnector,
    RunningTask,
    TaskConnector,
    TaskContext,
)
from cooperator.connectors.topics import client_config, ensure_topic, reaching
from cooperator.connectors.units import Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class FilesToKafka(SparkConnector[FilesToKafkaOptions], LoopingConnector[FilesToKafkaOptions]):
    options: ClassVar[type[Options]] = FilesToKafkaOptions

    def loop(self, options: FilesToKafkaOptions) -> "FilesInLoops | None":
        return None if options.has_state else FilesInLoops()

    def delivery(self, options: FilesToKafkaOptions) -> Delivered:
        return DELIVERED

    def needs_checkpoints(self, options: FilesToKafkaOptions) -> bool:
        return options.has_state

    def offsets(self) -> ConnectorOffsets[FilesToKafkaOptions]:
        # A command that only checks options does not load all that a task needs.
        from cooperator.connectors.file_loop_offsets import FileOffsets

        return FileOffsets()

    def units(self, options: FilesToKafkaOptions, say: Callable[[str], None]) -> Sequence[str]:
        if options.path.startswith("/") and not Path(options.path).is_dir():
            say(f"waiting for the directory {options.path}")
            return []
        with reaching(options):
            ensure_topic(client_config(options), options.topic, options.partitions, options.replication)
        say("")
        return [f"bucket-{index}-of-{options.units}" for index in range(options.units)]

    def reader(
        self, spark: "SparkSession", options: FilesToKafkaOptions, context: UnitContext
    ) -> "DataFrame":
        import pyspark.sql.functions as F  # noqa: N812

        root, encoded_root = _root(spark, options.path)
        _, index, _, count = context.unit.split("-")
        source = (
            spark.readStream.format("text")
            .option("wholetext", options.format == "wholetext")
            .option("recursiveFileLookup", options.recursive)
            .option("cooperator.bucket.root", root)
            .option("cooperator.bucket.count", count)
            .option("cooperator.bucket.index", index)
            # Spark ignores files that are older than the newest one by more than this.
            .option("maxFileAge", "36500d")
        )
        if options.max_files is not None:
            source = source.option("maxFilesPerTrigger", options.max_files)
        else:
            source = source.option("maxBytesPerTrigger", options.max_bytes or MAX_BYTES_STATE)
        if options.glob:
            source = source.option("pathGlobFilter", options.glob)
        encoded = F.parse_url(F.col("_metadata.file_path"), F.lit("PATH"))
        below = F.substring(encoded, len(encoded_root) + 1, 1 << 20)
        # A plus in a URI's path is a plus; url_decode is made for forms.
        path = F.url_decode(F.replace(below, F.lit("+"), F.lit("%2B")))
        return file_records(options, source.load(options.path), path, F.col("value"))

    def writer(
        self, stream: "DataFrame", options: FilesToKafkaOptions, context: UnitContext
    ) -> "DataStreamWriter":
        patience = Patience(context.cancelled, context.say, options.bootstrap_servers)
        names = names_in_kafka(options, context.group_id, context.task.connector, context.unit, patience)
        return deliver(stream, options, context, options.topic, _rows, FilesRead(names))


class FilesInLoops(FilesToKafka, TaskConnector[FilesToKafkaOptions]):
    """The same class where the SELECT treats each row by itself: a task is one loop over its buckets."""

    def open_task(self, options: FilesToKafkaOptions, context: TaskContext) -> RunningTask:
        if context.server is not None:
            raise context.server.refusal(context.task.connector)
        from cooperator.connectors.filelogs.task import open_files_task

        return open_files_task(options, context)

    def settle_layout(self, options: FilesToKafkaOptions, context: InstanceContext, layout: Layout) -> None:
        from cooperator.connectors.microbatch.members import settle_layout

        settle_layout(client_config(options), context, layout)

    def ends(
        self, options: FilesToKafkaOptions, context: InstanceContext, units: Sequence[str]
    ) -> Mapping[str, str]:
        return dict.fromkeys(units, "")  # Nothing counts the records of files.


def _rows(batch: "DataFrame") -> Iterator[Row]:
    return ((key, value) for key, value in local_rows(batch))


def _root(spark: "SparkSession", path: str) -> tuple[str, str]:
    """Returns the directory's path in Spark's listings, plain and URI-encoded, both with a trailing slash."""
    jvm: Any = spark._jvm
    configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()
    directory = jvm.org.apache.hadoop.fs.Path(path)
    uri = directory.getFileSystem(configuration).makeQualified(directory).toUri()
    return f"{uri.getPath().rstrip('/')}/", f"{uri.getRawPath().rstrip('/')}/"
