"""``files-to-kafka``: writes the lines of the files below a directory to a topic, exactly once.

Units are hash buckets of file paths, so that each file is read by one unit wherever that runs; the number of
units is fixed when the connector is created. A file is read once, when it is first seen: files must appear
whole (written elsewhere, then moved in) and must not change. Files and directories whose names begin with
``.`` or ``_`` are hidden, as everywhere in Spark. Text is UTF-8; invalid bytes become U+FFFD.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import model_validator

from cooperator.connectors.base import Delivered, UnitContext
from cooperator.connectors.exactly_once import Row
from cooperator.connectors.file_offsets import BucketOptions, FileOffsets
from cooperator.connectors.file_positions import FilesRead, names_in_kafka
from cooperator.connectors.kafka_log import Patience
from cooperator.connectors.kafka_sink import DELIVERED, deliver
from cooperator.connectors.offsets.sources import ConnectorOffsets
from cooperator.connectors.options import Options, TopicName, option, refuse
from cooperator.connectors.records import as_records
from cooperator.connectors.spark import SparkConnector, local_rows
from cooperator.connectors.sql_rules import treats_rows_alone
from cooperator.connectors.topics import client_config, ensure_topic, reaching
from cooperator.connectors.transform import selected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_MAX_BYTES = 4 << 20


class FilesToKafkaOptions(BucketOptions):
    topic: TopicName = option("topic", expected="the topic to write to", fixed=True)
    format: Literal["text", "wholetext"] = option(
        "format", "text", expected="text (one record per line) or wholetext (one per file)", fixed=True
    )
    glob: str = option("glob", "", expected="a pattern of file names, such as *.txt")
    recursive: bool = option("recursive", True, expected="true or false")
    trigger_interval_ms: int = option(
        "trigger.interval.ms",
        2_000,
        expected="milliseconds between two listings of the directory, 0 or more",
        ge=0,
    )
    max_files: int | None = option(
        "max.files.per.trigger", None, expected="the maximum number of files in a batch", ge=1
    )
    max_bytes: int | None = option(
        "max.bytes.per.trigger",
        None,
        expected=f"the maximum size of a batch's files, in bytes (default: {_MAX_BYTES})",
        ge=1,
    )
    record_key: Literal["path", "none"] = option("record.key", "path", expected="path or none")
    record_value: Literal["json", "line"] = option(
        "record.value", "json", expected='json ({"path": …, "line": …}) or line (the text alone)'
    )
    partitions: int = option(
        "topic.partitions",
        4,
        expected="the number of partitions to create the topic with, 1 or more",
        instance_only=True,
        ge=1,
    )

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if self.max_files is not None and self.max_bytes is not None:
            raise refuse(
                "cannot be combined with max.files.per.trigger", "use one of them", "max.bytes.per.trigger"
            )
        return self


class FilesToKafka(SparkConnector[FilesToKafkaOptions]):
    options: ClassVar[type[Options]] = FilesToKafkaOptions

    def delivery(self, options: FilesToKafkaOptions) -> Delivered:
        return DELIVERED

    def needs_checkpoints(self, options: FilesToKafkaOptions) -> bool:
        # The position is in the sink, the state of a SELECT is not.
        return bool(options.transform_sql) and not treats_rows_alone(options.transform_sql)

    def offsets(self) -> ConnectorOffsets[FilesToKafkaOptions]:
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
            source = source.option("maxBytesPerTrigger", options.max_bytes or _MAX_BYTES)
        if options.glob:
            source = source.option("pathGlobFilter", options.glob)
        encoded = F.parse_url(F.col("_metadata.file_path"), F.lit("PATH"))
        below = F.substring(encoded, len(encoded_root) + 1, 1 << 20)
        # A plus in a URI's path is a plus; url_decode is made for forms.
        path = F.url_decode(F.replace(below, F.lit("+"), F.lit("%2B")))
        line = F.col("value")
        as_json = options.record_value == "json"
        value = F.to_json(F.struct(path.alias("path"), line.alias("line"))) if as_json else line
        key = path if options.record_key == "path" else F.lit(None).cast("string")
        rows = source.load(options.path).select(
            key.alias("key"), value.alias("value"), path.alias("path"), line.alias("line")
        )
        chosen = selected(rows, options.transform_sql) if options.transform_sql else rows
        return as_records(chosen, ("key", "value"))

    def writer(
        self, stream: "DataFrame", options: FilesToKafkaOptions, context: UnitContext
    ) -> "DataStreamWriter":
        patience = Patience(context.cancelled, context.say, options.bootstrap_servers)
        names = names_in_kafka(options, context.group_id, context.task.connector, context.unit, patience)
        return deliver(stream, options, context, options.topic, _rows, FilesRead(names))


def _rows(batch: "DataFrame") -> Iterator[Row]:
    return ((key, value) for key, value in local_rows(batch))


def _root(spark: "SparkSession", path: str) -> tuple[str, str]:
    """Returns the directory's path in Spark's listings, plain and URI-encoded, both with a trailing slash."""
    jvm: Any = spark._jvm
    configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()
    directory = jvm.org.apache.hadoop.fs.Path(path)
    uri = directory.getFileSystem(configuration).makeQualified(directory).toUri()
    return f"{uri.getPath().rstrip('/')}/", f"{uri.getRawPath().rstrip('/')}/"
