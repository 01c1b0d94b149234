"""The options of ``kafka-to-files``."""

from typing import Literal, Self

from pydantic import model_validator

from cooperator.connectors.conversion import ConversionOptions
from cooperator.connectors.options import FullPath, Names, option, refuse
from cooperator.connectors.transform import Select


class KafkaToFilesOptions(ConversionOptions):
    path: FullPath = option(
        "path",
        expected="a directory that every member sees, or s3a://bucket/path",
        fixed=True,
        local_path=True,
    )
    format: Literal["parquet", "json", "csv"] = option(
        "format", "parquet", expected="parquet, json or csv", fixed=True
    )
    partition_by: Names = option(
        "partition.by", (), expected="columns to partition directories by, separated by commas", fixed=True
    )
    flush_size: int = option(
        "flush.size",
        100_000,
        expected="the maximum number of rows in a file; a unit with as many new records is written at once",
        ge=1,
    )
    # Old defaults wrote a file per unit and second. Ten seconds are a tenth of the files, and still soon.
    rotate_interval_ms: int = option(
        "rotate.interval.ms",
        10_000,
        expected="milliseconds until new records are written, also if they fill no file; 0 or more",
        ge=0,
    )
    max_file_bytes: int = option(
        "max.file.bytes",
        128 << 20,
        expected="the approximate maximum size of a file, in bytes; 1 or more",
        ge=1,
    )
    sql: Select = option("sql", "", expected="the older name of transform.sql")

    @property
    def select(self) -> str:
        return self.sql or self.transform_sql

    @property
    def select_option(self) -> str:
        return "sql" if self.sql else "transform.sql"

    @model_validator(mode="after")
    def _one_select(self) -> Self:
        if self.sql and self.transform_sql:
            raise refuse("cannot be combined with transform.sql", "use one of them", "sql")
        return self
