"""Spark's file sink, for batches that were made on the driver.

The class that writes here is the one that writes when a stream goes into files: it puts the files in place,
then commits the batch by one entry of ``_spark_metadata``, skips a batch that the log has, and checks the
unit's fence. So readers see no difference, and a unit may change from one way to the other.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cooperator.connectors.spark import check_partition_by

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_SINKS = "org.apache.spark.sql.execution.streaming.sinks"
_DATASOURCES = "org.apache.spark.sql.execution.datasources"
_FORMATS = {"parquet": "parquet.ParquetFileFormat", "json": "json.JsonFileFormat", "csv": "csv.CSVFileFormat"}


class FileSink:
    """The sink of one unit. ``spark`` is the batch's session, which has the unit's fence in its settings."""

    def __init__(
        self,
        spark: "SparkSession",
        file_format: str,
        path: str,
        partition_by: Sequence[str],
        options: Mapping[str, str],
    ) -> None:
        self._spark: Any = spark
        self._path = path
        self._partition_by = partition_by
        self._jvm: Any = spark.sparkContext._jvm
        jvm: Any = self._jvm
        format_class = self._java(f"{_DATASOURCES}.{_FORMATS[file_format]}")
        self._format = format_class()
        self._sink = self._java(f"{_SINKS}.FileStreamSink")(
            self._spark._jsparkSession,
            path,
            self._format,
            jvm.PythonUtils.toSeq(list(partition_by)),
            jvm.PythonUtils.toScalaMap(dict(options)),
        )

    def accept(self, rows: "DataFrame") -> None:
        """Raises ``OptionError`` or ``AnalysisException`` if files cannot have the columns of these rows."""
        check_partition_by(self._partition_by, rows)
        untyped: Any = rows
        in_files = [column for column in rows.columns if column not in self._partition_by]
        schema = untyped.select([f"`{name.replace('`', '``')}`" for name in in_files])._jdf.schema()
        self._java(f"{_DATASOURCES}.DataSourceUtils").verifySchema(self._format, schema, False)

    def add(self, batch_id: int, rows: "pa.Table | None") -> None:
        """Commits a batch unless it is committed already.

        A batch without rows is recorded, too: the log must not have gaps.
        """
        if rows is not None and rows.num_rows:
            self._sink.addBatch(batch_id, self._spark.createDataFrame(rows)._jdf)
            return
        log_class = self._java(f"{_SINKS}.FileStreamSinkLog")
        none = self._jvm.scala.Option.empty()
        log = log_class(
            log_class.VERSION(), self._spark._jsparkSession, f"{self._path}/_spark_metadata", none
        )
        gateway = self._spark.sparkContext._gateway
        log.add(batch_id, gateway.new_array(self._java(f"{_SINKS}.SinkFileStatus"), 0))

    def _java(self, name: str) -> Any:
        found = self._jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found
