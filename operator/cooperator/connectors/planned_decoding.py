"""Decoding in Spark's plan, of records whose types are settled (``json-schema``, ``avro``).

The readers are Java's (``DecodedRows``). They read exactly what Python's read, in the same way, or refuse it:
then the batch is converted row by row.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cooperator.connectors.decoder import SettledColumn
from cooperator.connectors.parts import as_relation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """``type`` is Spark's, as JSON; ``schemas`` are those of avro, by id: texts, the schema's own last."""

    name: str
    converter: str
    type: str
    schemas: tuple[tuple[int, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Decoding:
    """The columns of a batch's records that Spark's plan decodes. It refuses bytes of other types."""

    columns: tuple[PlannedColumn, ...] = ()

    def applied(self, records: "DataFrame") -> "DataFrame":
        """Returns the records with these columns decoded, as a relation of its own for the optimizer."""
        from pyspark.sql import DataFrame

        if not self.columns:
            return records
        untyped: Any = records
        columns = [
            {"name": one.name, "converter": one.converter, "type": one.type, "schemas": dict(one.schemas)}
            for one in self.columns
        ]
        decoded = _java(records.sparkSession).DecodedRows.of(untyped._jdf, json.dumps(columns))
        return DataFrame(decoded, untyped.sparkSession)


def failing_once(rows: "DataFrame") -> "DataFrame":
    """Returns the same rows, for a job that is left when they fail: its tasks are not computed again."""
    from pyspark.sql import DataFrame

    untyped: Any = rows
    return DataFrame(_java(rows.sparkSession).FailingOnce.of(untyped._jdf), untyped.sparkSession)


class DecodingPlanner:
    """Finds the decoding of settled types, for the units of one task."""

    def __init__(self, session: "SparkSession") -> None:
        self._session = session
        self._types: dict[pa.DataType, str] = {}
        self._is_read: dict[tuple[tuple[str, ...], str], bool] = {}

    def decoding(self, settled: Sequence[SettledColumn]) -> Decoding | None:
        """Returns the decoding of columns of these types; None if the plan cannot read one of them."""
        import pyarrow as pa

        found = []
        for column in settled:
            kind = self._spark_type(column.kind)
            schemas = tuple(
                (number, texts)
                for number, texts in sorted(column.schemas.items())
                if self._reads(number, texts, kind)
            )
            if column.converter == "avro" and not schemas and not pa.types.is_null(column.kind):
                return None
            found.append(PlannedColumn(column.name, column.converter, kind, schemas))
        return Decoding(tuple(found))

    def _spark_type(self, kind: "pa.DataType") -> str:
        """Returns the type that a column has when it is converted row by row, as JSON."""
        import pyarrow as pa

        if kind not in self._types:
            no_rows = pa.table({"column": pa.array([], kind)})
            self._types[kind] = as_relation(no_rows, self._session).schema["column"].dataType.json()
        return self._types[kind]

    def _reads(self, number: int, texts: tuple[str, ...], kind: str) -> bool:
        if (texts, kind) not in self._is_read:
            problem = _java(self._session).DecodedRows.avroProblem(json.dumps(texts), kind)
            if problem:
                log.info("records of schema %d are converted row by row: %s", number, problem)
            self._is_read[texts, kind] = not problem
        return self._is_read[texts, kind]


def _java(session: "SparkSession") -> Any:
    untyped: Any = session
    return untyped.sparkContext._jvm.dev.cooperator.spark
