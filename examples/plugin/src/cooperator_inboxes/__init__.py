"""Connectors of class ``inboxes``: each sender has a folder, and puts files of JSON lines into it.

A unit is a folder. Its rows go to a directory of the same name below ``target``, as parquet, exactly once.
A folder that is made later is a new unit. Files appear whole: they are written elsewhere, then moved in.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import model_validator

from cooperator.connectors.plugin import (
    Delivered,
    Delivery,
    FullPath,
    Options,
    SparkConnector,
    SparkOptions,
    UnitContext,
    option,
    refuse,
    selected,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# Units' ids name directories; what begins with a dot or an underscore Spark does not see.
_SENDER = re.compile(r"[A-Za-z0-9-][A-Za-z0-9._-]*")


class InboxesOptions(SparkOptions):
    path: FullPath = option(
        "path", expected="a directory with a folder for each sender", fixed=True, local_path=True
    )
    target: FullPath = option("target", expected="a directory to write to", fixed=True, local_path=True)
    columns: str = option(
        "columns", expected="the columns of the JSON lines, such as id LONG, name STRING", min_length=1
    )
    max_files: int = option(
        "max.files.per.trigger", 100, expected="the maximum number of files in a batch", ge=1
    )

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if f"{self.target}/".startswith(f"{self.path}/"):
            raise refuse("is inside of path, and would be read again", "name another directory", "target")
        return self


class Inboxes(SparkConnector[InboxesOptions]):
    options: ClassVar[type[Options]] = InboxesOptions

    def delivery(self, options: InboxesOptions) -> Delivered:
        return Delivered(
            Delivery.EXACTLY_ONCE, "Readers of the files must honour _spark_metadata, unit by unit."
        )

    def units(self, options: InboxesOptions, say: Callable[[str], None]) -> Sequence[str]:
        root = Path(options.path)
        folders = sorted(folder.name for folder in root.iterdir() if folder.is_dir()) if root.is_dir() else []
        found = [name for name in folders if _SENDER.fullmatch(name)]
        strange = sorted(set(folders) - set(found))
        say(f"folders that cannot be units are left out: {', '.join(strange)}" if strange else "")
        if not found:
            say(f"waiting for a folder in {options.path}")
        return found

    def reader(self, spark: "SparkSession", options: InboxesOptions, context: UnitContext) -> "DataFrame":
        rows = (
            spark.readStream.format("json")
            .schema(options.columns)
            .option("maxFilesPerTrigger", options.max_files)
            # Without it, files much older than the newest one would be passed over.
            .option("maxFileAge", "36500d")
            .load(f"{options.path}/{context.unit}")
        )
        return selected(rows, options.transform_sql) if options.transform_sql else rows

    def writer(
        self, stream: "DataFrame", options: InboxesOptions, context: UnitContext
    ) -> "DataStreamWriter":
        return stream.writeStream.format("parquet").option("path", f"{options.target}/{context.unit}")
