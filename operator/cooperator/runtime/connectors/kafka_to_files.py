"""``kafka-to-files``: topics become files of a directory, exactly once.

A unit is a partition of a topic and writes to a directory of its own, ``<path>/<topic>-<partition>``.
What is committed there is told by the directory's ``_spark_metadata``: read it with
``cooperator.runtime.output.read_units``, or with Spark unit by unit; never the parent directory, where
what a crash left over would count.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from cooperator.runtime.connectors.base import UnitContext
from cooperator.runtime.connectors.spark import SparkConnector
from cooperator.runtime.connectors.topics import KafkaOptions, client_config, partition_counts, reaching
from cooperator.runtime.options import FullPath, Names, Options, TopicNames, option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class KafkaToFilesOptions(KafkaOptions):
    topics: TopicNames = option("topics", expected="topics to read, with commas")
    path: FullPath = option(
        "path", expected="a directory that every member sees", fixed=True, local_path=True
    )
    format: Literal["parquet", "json", "csv"] = option(
        "format", "parquet", expected="parquet, json or csv", fixed=True
    )
    partition_by: Names = option(
        "partition.by", (), expected="columns to make directories of, with commas", fixed=True
    )
    sql: str = option(
        "sql",
        "",
        expected="a SELECT from the view input (key, value, topic, partition, offset, timestamp)",
    )
    starting_offsets: Literal["earliest", "latest"] = option(
        "starting.offsets",
        "earliest",
        expected="earliest, or latest (skips what is in the topics when the connector is created)",
    )
    max_offsets: int = option(
        "max.offsets.per.trigger", 100_000, expected="the number of records that make a batch", ge=1
    )
    isolation_level: Literal["read_committed", "read_uncommitted"] = option(
        "isolation.level", "read_committed", expected="read_committed or read_uncommitted"
    )
    fetch_max_wait_ms: int = option(
        "fetch.max.wait.ms",
        50,
        expected="milliseconds that the broker waits for records, 1 to 500",
        ge=1,
        le=500,
    )
    fail_on_data_loss: bool = option(
        "fail.on.data.loss",
        True,
        expected="true, or false (goes on when records were deleted before they were read)",
    )


class KafkaToFiles(SparkConnector[KafkaToFilesOptions]):
    options: ClassVar[type[Options]] = KafkaToFilesOptions

    def units(self, options: KafkaToFilesOptions, say: Callable[[str], None]) -> Sequence[str]:
        with reaching(options):
            counts = partition_counts(client_config(options), options.topics)
        missing = [topic for topic in options.topics if not counts[topic]]
        say(f"waiting for the topics {', '.join(missing)}" if missing else "")
        return [f"{topic}-{number}" for topic in options.topics for number in range(counts[topic])]

    def reader(
        self, spark: "SparkSession", options: KafkaToFilesOptions, context: UnitContext
    ) -> "DataFrame":
        topic, _, partition = context.unit.rpartition("-")
        # Partitions that were added later are read from their beginning, or records would be missed.
        starting = options.starting_offsets if context.is_first else "earliest"
        # Views belong to a session: each unit has its own "input".
        session = spark.newSession()
        records = (
            session.readStream.format("kafka")
            .option("kafka.bootstrap.servers", options.bootstrap_servers)
            .option("kafka.isolation.level", options.isolation_level)
            .option("kafka.fetch.max.wait.ms", options.fetch_max_wait_ms)
            # With eight tries of a read (see session.py) a broker may be away for 160 s.
            .option("kafkaConsumer.pollTimeoutMs", 20_000)
            .option("assign", f'{{"{topic}": [{partition}]}}')
            .option("startingOffsets", starting)
            .option("maxOffsetsPerTrigger", options.max_offsets)
            .option("failOnDataLoss", options.fail_on_data_loss)
            .load()
            .selectExpr(
                "CAST(key AS STRING) AS key",
                "CAST(value AS STRING) AS value",
                "topic",
                "partition",
                "offset",
                "timestamp",
            )
        )
        if not options.sql:
            return records
        records.createOrReplaceTempView("input")
        return session.sql(re.sub(r";\s*\Z", "", options.sql))

    def writer(
        self, stream: "DataFrame", options: KafkaToFilesOptions, context: UnitContext
    ) -> "DataStreamWriter":
        writer = stream.writeStream.format(options.format).option("path", f"{options.path}/{context.unit}")
        if options.format == "csv":
            writer = writer.option("header", True)
        return writer.partitionBy(*options.partition_by) if options.partition_by else writer
