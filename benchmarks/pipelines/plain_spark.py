"""One Structured Streaming query, as Spark's documentation shows it, without a limit of batches.

It is at least once into Kafka, exactly once into files. As a program, this is the query itself.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.pipelines.job import Job, Processes, Running, module
from benchmarks.pipelines.records import VALUE_DDL
from cooperator.artifacts import find_java, java_home, resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COORDINATES: Final = ("topic", "partition", "offset", "timestamp")


class PlainSpark:
    name = "Spark"
    guarantee = "at least once into Kafka, exactly once into files"

    def start(self, job: Job) -> Running:
        return Processes(module("benchmarks.pipelines.plain_spark", job), job.directory / "spark.log")


def query(job: Job) -> Any:
    """Start the query; returns it."""
    from pyspark.sql import SparkSession

    jars = os.pathsep.join(map(str, resolve("spark-kafka")))
    spark = (
        SparkSession.builder.master("local[*]")
        .appName("plain")
        .config("spark.driver.extraClassPath", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(job.directory / "spark"))
        .config("spark.sql.warehouse.dir", str(job.directory / "warehouse"))
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("WARN")
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job.bootstrap_servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", job.topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    writer = rows(records, job).writeStream.trigger(processingTime=f"{job.trigger_ms} milliseconds")
    writer = writer.option("checkpointLocation", str(job.directory / "checkpoint"))
    if job.sink == "files":
        return writer.format("parquet").option("path", str(job.output)).start()
    writer = writer.format("kafka").option("kafka.bootstrap.servers", job.bootstrap_servers)
    return writer.option("topic", job.target).start()


def rows(records: "DataFrame", job: Job) -> "DataFrame":
    """The rows for the sink: the same as those that a connector with that converter writes."""
    if job.converter == "bytes":
        columns = ("key", "value") if job.sink == "kafka" else ("key", "value", *_COORDINATES)
        return records.select(*columns)
    if job.converter != "json":
        raise ValueError(f"plain Spark has no converter {job.converter}")
    decoded = records.selectExpr(
        "key", f"from_json(CAST(value AS STRING), '{VALUE_DDL}', map('mode', 'FAILFAST')) AS value"
    )
    if job.sink == "kafka":
        return decoded.selectExpr("key", "to_json(value) AS value")
    return decoded.select("value.*")


def main(arguments: list[str]) -> int:
    job = Job.read(Path(arguments[0]))
    os.environ["JAVA_HOME"] = str(java_home(find_java()))
    os.chdir(job.directory)
    query(job).awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
