"""Batches of rows of tables, written by Spark's tasks as those of topics (``microbatch.spark_batches``).

Spark's tasks read the rows by the driver of JDBC. Without a SELECT they make the records of them, of all
tables in one plan. With a SELECT there is a plan for each set of columns. A SELECT that does not treat each
row by itself is planned anew for each batch, of which it sees the rows of one table after the other.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from cooperator.connectors.microbatch.batches import FailureKind, Outcome, PositionRecord, SlotFailure
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition
from cooperator.connectors.microbatch.spark_batches import (
    BatchSource,
    BatchTarget,
    SparkBatches,
    read_failure,
    run_batch,
)
from cooperator.connectors.options import OptionError
from cooperator.connectors.output_record import OutputRecord
from cooperator.connectors.postgres import Database
from cooperator.connectors.postgres_jdbc import JdbcSettings, jdbc_settings
from cooperator.connectors.postgres_source import SourceTable, offset_of
from cooperator.connectors.records import as_records
from cooperator.connectors.tablelogs.forms import RecordForms
from cooperator.connectors.tablelogs.options import TableToKafkaOptions
from cooperator.connectors.tablelogs.table_log import TableLogs
from cooperator.connectors.transform import selected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

SOURCE: Final = "dev.cooperator.spark.TableRows"

Slots = Sequence[Sequence[OffsetRange]]
Records = Mapping[Partition, PositionRecord]


@dataclass(frozen=True, slots=True)
class TableSource:
    """The tables of a task, as they are described before each batch. ``pool`` names it.

    ``beside`` returns the records that a unit's first batch commits besides.
    """

    options: TableToKafkaOptions
    tables: Mapping[Partition, SourceTable]
    database: Database
    pool: str
    beside: Callable[[Partition], Sequence[OutputRecord]]


class TableBatches(SparkBatches):
    """Runs the batches of one task; see ``SparkBatches``. Raises ``OptionError`` for rows that do not fit."""

    def __init__(
        self, spark: "SparkSession", source: TableSource, logs: TableLogs, target: BatchTarget
    ) -> None:
        super().__init__(spark, BatchSource({}), lambda rows: rows, target)
        self._tables = source
        self._logs = logs
        self._options = source.options
        self._forms: dict[Partition, tuple[SourceTable, RecordForms]] = {}
        self._server: dict[str, Any] | None = None
        self._plans: dict[str, Any] = {}
        # Problems of all tables and of the SELECT are reported now, those of some tables by their batches.
        problems = [error for partition in source.tables if (error := self._problem_of(partition))]
        if problems and len(problems) == len(source.tables):
            raise problems[0]
        if self._options.transform_sql:
            for columns in dict.fromkeys(map(self._columns, source.tables)):
                self._selected(self._rows(columns, slots=self._slots))

    def rows(self) -> "DataFrame":
        return self._spark.read.format(SOURCE).option("slots", self._slots).load()

    def open(self, session: str) -> None:
        self._server = None  # Another one may have the database now.
        super().open(session)

    def run(self, session: str, slots: Slots, records: Records) -> Outcome:
        outcome = self._run(session, slots, records)
        return replace(outcome, failures=[self._with_rows(each, slots) for each in outcome.failures])

    def _with_rows(self, failure: SlotFailure, slots: Slots) -> SlotFailure:
        """Returns the failure; where memory does not suffice, it names the last row of the batch."""
        read = [each for each in slots[failure.slot] if each.size]
        if failure.kind is not FailureKind.MEMORY or not read:
            return failure
        rows = [
            f"table {self._tables.tables[each.partition].name} up to the row {self._shown(each)}"
            for each in read[:3]
        ]
        return replace(failure, error=f"{', '.join(rows)}: {failure.error}")

    def _shown(self, each: OffsetRange) -> str:
        """Returns the position of the last row of a range, as users see it."""
        return json.dumps(offset_of(self._logs[each.partition].at(each.end)))

    def _run(self, session: str, slots: Slots, records: Records) -> Outcome:
        self._group.enter()
        if not any(each.size for slot in slots for each in slot):
            return run_batch(self._planned(), self._batch(session, slots, records), slots)
        if self._options.has_state:
            return self._run_given(session, slots, records)
        if self._options.transform_sql:
            return self._run_selected(session, slots, records)
        return run_batch(self._planned(), self._batch(session, slots, records), slots)

    def close(self) -> None:
        try:
            untyped: Any = self._spark
            untyped._jvm.dev.cooperator.spark.TableRows.close(self._tables.pool, self._slots)
        except Exception as error:
            log.info("closing the connections of the %s: %s", self._group.name, error)
        super().close()
        self._tables.database.close()

    def _run_selected(self, session: str, slots: Slots, records: Records) -> Outcome:
        """Runs a plan for each set of columns, one after the other, until one fails."""
        by_columns: dict[str, dict[int, list[OffsetRange]]] = {}
        for number, slot in enumerate(slots):
            for each in slot:
                by_columns.setdefault(self._columns(each.partition), {}).setdefault(number, []).append(each)
        rows, counts = 0, dict[Partition, int]()
        for columns, some in by_columns.items():
            numbers, parts = list(some), list(some.values())
            plan = self._plans.get(columns)
            if plan is None or not plan.isReusable():
                untyped: Any = self._selected(self._rows(columns, slots=self._slots))
                plan = self._plans[columns] = self._java.plan(untyped._jdf.queryExecution(), self._target)
            outcome = run_batch(plan, self._batch(session, parts, records), parts)
            rows, counts = rows + outcome.rows, {**counts, **outcome.counts}
            if outcome.failures:
                failures = [
                    SlotFailure(numbers[each.slot], each.kind, each.error) for each in outcome.failures
                ]
                return Outcome(rows, failures, counts)
        return Outcome(rows, (), counts)

    def _run_given(self, session: str, slots: Slots, records: Records) -> Outcome:
        """Collects the records in the JVM of the session, and writes them in one transaction."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        ranges = [each for slot in slots for each in slot]
        try:
            frames = [self._frame(each) for each in ranges if each.size]
            untyped: Any = reduce(lambda one, other: one.unionByName(other), frames)
            plan = self._java.given(untyped._jdf.queryExecution(), self._target)
        except (PySparkException, Py4JJavaError) as error:
            kind, text = read_failure(self._java, error)
            return Outcome(0, [SlotFailure(0, kind, text)])
        try:
            batch = {**self._batch(session, [ranges], records, is_read=True), "given": True}
            return run_batch(plan, batch, [ranges])
        finally:
            plan.free()

    def _frame(self, each: OffsetRange) -> "DataFrame":
        """Returns the records of a range, with their topic."""
        import pyspark.sql.functions as F  # noqa: N812

        read = {**self._read(each), "server": self._server_settings()}
        rows = self._rows(self._columns(each.partition), read=json.dumps(read))
        return self._selected(rows).withColumn("topic", F.lit(self._topic(each.partition)))

    def _rows(self, columns: str, **what: str | int) -> "DataFrame":
        return self._spark.read.format(SOURCE).options(columns=columns, **what).load()

    def _selected(self, rows: "DataFrame") -> "DataFrame":
        """Returns the records of a SELECT as ``SparkBatches`` writes them. Raises ``OptionError``."""
        return as_records(selected(rows, self._options.transform_sql))

    def _columns(self, partition: Partition) -> str:
        return json.dumps([column.spec for column in self._tables.tables[partition].columns])

    def _topic(self, partition: Partition) -> str:
        return self._options.target(self._tables.tables[partition].name)

    def _batch(
        self, session: str, slots: Slots, records: Records, *, is_read: bool = False
    ) -> dict[str, Any]:
        """Returns a batch as ``KafkaTransactions`` reads it; ``is_read``: its rows are given."""
        units = [
            [
                [
                    *(*each.partition, each.start, each.end, *records[each.partition]),
                    *([], self._beside(each)),
                    self._read(each) if each.size and not is_read else None,
                ]
                for each in slot
            ]
            for slot in slots
        ]
        has_reads = any(unit[-1] for slot in units for unit in slot)
        server = {"server": self._server_settings()} if has_reads else {}
        return {"session": session, "slots": units, **server}

    def _beside(self, each: OffsetRange) -> list[list[Any]]:
        return [
            [record.topic, record.partition, (record.key or b"").decode(), (record.value or b"").decode()]
            for record in (self._tables.beside(each.partition) if each.start == 0 else ())
        ]

    def _read(self, each: OffsetRange) -> dict[str, Any]:
        table, unit = self._tables.tables[each.partition], self._logs[each.partition]
        forms = self._form_of(each.partition)
        return {
            "table": table.name,
            "sql": table.texts(unit.at(each.start), unit.at(each.end)),
            "digest": table.digest,
            "digest_sql": table.digest_query,
            "columns": [column.spec for column in table.columns],
            "row": [
                number for number, column in enumerate(table.columns) if column.name in table.names_of_row
            ],
            "topic": self._topic(each.partition),
            **(forms.specs() if forms is not None else {}),
        }

    def _problem_of(self, partition: Partition) -> OptionError | None:
        try:
            self._form_of(partition)
        except OptionError as error:
            return error
        return None

    def _form_of(self, partition: Partition) -> RecordForms | None:
        """Returns the forms of a table's records as it is described now; None: a SELECT makes the records."""
        if self._options.transform_sql:
            return None
        table = self._tables.tables[partition]
        if partition not in self._forms or self._forms[partition][0] is not table:
            self._forms[partition] = table, RecordForms(self._options, table, self._topic(partition))
        return self._forms[partition][1]

    def _server_settings(self) -> dict[str, Any]:
        if self._server is None:
            found: JdbcSettings = self._tables.database.run(jdbc_settings)
            self._server = {
                "url": found.url,
                "address": found.address,
                "port": found.port,
                "settings": dict(found.properties),
                "pool": self._tables.pool,
            }
        return self._server
