"""The records of ``files-to-kafka``, made of the rows of a source of lines."""

from typing import TYPE_CHECKING

from cooperator.connectors.files_source import FilesToKafkaOptions
from cooperator.connectors.records import as_records
from cooperator.connectors.transform import selected

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SHOWN = 80
"""Characters of a line in a message."""


def file_records(
    options: FilesToKafkaOptions, source: "DataFrame", path: "Column", line: "Column"
) -> "DataFrame":
    """Returns the columns key and value; ``path`` is below the source's directory."""
    import pyspark.sql.functions as F  # noqa: N812

    as_json = options.record_value == "json"
    value = F.to_json(F.struct(path.alias("path"), _in_utf8(line, path).alias("line"))) if as_json else line
    key = path if options.record_key == "path" else F.lit(None).cast("string")
    rows = source.select(key.alias("key"), value.alias("value"), path.alias("path"), line.alias("line"))
    chosen = selected(rows, options.transform_sql) if options.transform_sql else rows
    return as_records(chosen, ("key", "value"))


def _in_utf8(line: "Column", path: "Column") -> "Column":
    """Returns the line; fails if it is not UTF-8, as JSON would have other characters in silence."""
    import pyspark.sql.functions as F  # noqa: N812

    problem = F.concat(
        F.lit("the file "),
        path,
        F.lit(" has a line that is not UTF-8: "),
        F.make_valid_utf8(F.substr(line, F.lit(1), F.lit(_SHOWN))),
        F.lit("; set record.value to line, which keeps all bytes, or select make_valid_utf8(line)"),
    )
    return F.when(F.is_valid_utf8(line), line).otherwise(F.raise_error(problem))
