"""Batches that Spark's tasks copy into PostgreSQL, each slot in a transaction with its positions.

The tasks' code is in ``cooperator-spark.jar`` (``CopyTransactions``); the statements come from here.
"""

import json
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cooperator.connectors.microbatch.batches import FailureKind, Outcome, PositionRecord, SlotFailure
from cooperator.connectors.microbatch.postgres_positions import Move, PostgresPositions, Superseded
from cooperator.connectors.microbatch.postgres_units import PostgresUnits
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition
from cooperator.connectors.microbatch.spark_batches import (
    BatchSource,
    FailingSearch,
    JobGroup,
    failure_of_job,
    outcome_of,
    read,
)
from cooperator.connectors.postgres import Database, DatabaseUnavailable
from cooperator.connectors.postgres_jdbc import JdbcSettings, jdbc_settings
from cooperator.connectors.postgres_lines import Texts
from cooperator.connectors.postgres_sink import TargetTable, statements_of
from cooperator.connectors.postgres_table import digest_query

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CopyQuery:
    """The query that copies the records of a topic: their rows as text, and the table of these rows.

    Topics with the same ``plan`` share a query.
    """

    plan: object
    texts: "Callable[[DataFrame], Texts]"
    target: TargetTable


class CopyBatches:
    """Runs the batches of one task, all in one thread; ``cancel`` may be called by any."""

    def __init__(
        self,
        spark: "SparkSession",
        source: BatchSource,
        database: Database,
        positions: PostgresPositions,
        units: PostgresUnits,
        query_of: Callable[[str], CopyQuery],
        slots: int,
        *,
        by_topic: bool = False,
        have_changed: Callable[[], bool] = lambda: False,
    ) -> None:
        """``query_of`` returns the query on the records of a topic. ``by_topic``: topics have different ones.

        ``slots`` is the maximum number of slots of a batch. ``have_changed`` returns whether a table is not
        as it was described; it is described anew then.
        """
        untyped: Any = spark
        self._spark = spark
        self._java: Any = untyped._jvm.dev.cooperator.spark.CopyTransactions
        self._source = source
        self._database = database
        self._positions = positions
        self._units = units
        self._query_of = query_of
        self._slots = slots
        self._by_topic = by_topic
        self._have_changed = have_changed
        self._plans: dict[object, Any] = {}
        self._searches: dict[object, FailingSearch] = {}
        self._prefix = f"{source.pool} {uuid.uuid4().hex}"
        self._settings: tuple[str, JdbcSettings] | None = None
        self._group = JobGroup(spark, f"copies of {source.pool}")

    @property
    def reads_topics_apart(self) -> bool:
        return self._by_topic

    def open(self, session: str) -> None:
        """There is nothing to initialise: a session is a value in the table of positions."""

    def run(
        self,
        session: str,
        slots: Sequence[Sequence[OffsetRange]],
        records: Mapping[Partition, PositionRecord],
    ) -> Outcome:
        self._group.enter()
        moves = [self._units.moves(list(slot), records) for slot in slots]
        try:
            if not any(each.size for slot in slots for each in slot):
                every = sorted((move for of_slot in moves for move in of_slot), key=lambda move: move.unit)
                self._database.once(lambda connection: self._positions.advance(connection, session, every))
                self._units.moved(every)
                return Outcome(0)
            batch = self._batch_of(session)
        except (DatabaseUnavailable, Superseded) as error:
            return Outcome(0, [SlotFailure(0, FailureKind.RETRIABLE, str(error))])
        outcome = self._copy(batch, session, slots, moves)
        failed = {failure.slot for failure in outcome.failures}
        for number, of_slot in enumerate(moves):
            if number not in failed:
                self._units.moved(of_slot)
        if failed and self._have_changed():
            # Whatever the failure was, the next batch is written into the table as it is now.
            again = [replace(each, kind=FailureKind.RETRIABLE) for each in outcome.failures]
            return replace(outcome, failures=again)
        return outcome

    def failing(self, slots: Sequence[Sequence[OffsetRange]], most: int) -> "pa.Table":
        import pyarrow as pa

        self._group.enter()
        by_plan: dict[object, tuple[CopyQuery, list[Sequence[OffsetRange]]]] = {}
        for slot in slots:
            query = self._query_of(slot[0].partition.topic)
            by_plan.setdefault(query.plan, (query, []))[1].append(slot)
        return pa.concat_tables([self._search(query).find(some, most) for query, some in by_plan.values()])

    def cancel(self) -> None:
        self._group.cancel()
        self._database.interrupt()

    def forget(self) -> None:
        """Closes the plans and their connections; the next batch makes others."""
        try:
            for plan in self._plans.values():
                plan.close()
        except Exception as error:
            log.info("closing the connections of %s: %s", self._prefix, error)  # The JVM may have ended.
        self._plans.clear()
        self._searches.clear()

    def close(self) -> None:
        self.forget()
        self._database.close()

    def _batch_of(self, session: str) -> dict[str, Any]:
        """Returns what all slots of a batch have in common, as ``CopyTransactions`` reads it."""
        if self._settings is None or self._settings[0] != session:
            # After a failure the server may be another one.
            self._settings = session, self._database.once(jdbc_settings)
        url, address, port, properties = self._settings[1]
        check, advance = self._positions.statements
        server = {"url": url, "address": address, "port": port, "settings": dict(properties)}
        return {"server": server, "check": check, "advance": advance}

    def _copy(
        self,
        batch: Mapping[str, Any],
        session: str,
        slots: Sequence[Sequence[OffsetRange]],
        moves: Sequence[Sequence[Move]],
    ) -> Outcome:
        """Copies the rows of all slots; those whose topics share a query run at the same time."""
        queries = [self._query_of(slot[0].partition.topic) for slot in slots]
        by_plan: dict[object, list[int]] = {}
        for number, query in enumerate(queries):
            by_plan.setdefault(query.plan, []).append(number)
        answers: dict[int, Mapping[str, Any]] = {}
        for numbers in by_plan.values():
            works = [
                self._work(number, session, slots[number], moves[number], queries[number].target)
                for number in numbers
            ]
            try:
                plan = self._planned(queries[numbers[0]])
                answer = json.loads(plan.run(json.dumps({**batch, "slots": works})))["slots"]
            except Exception as error:
                # It was cancelled, or what failed was not a slot's own work.
                kind, text = failure_of_job(error)
                answer = [{"kind": kind.value, "error": text} for _ in numbers]
            answers |= dict(zip(numbers, answer, strict=True))
        return outcome_of([answers[number] for number in range(len(slots))], slots)

    def _work(
        self,
        slot: int,
        session: str,
        ranges: Sequence[OffsetRange],
        moves: Sequence[Move],
        target: TargetTable,
    ) -> dict[str, Any]:
        statements = statements_of(target)
        digest = digest_query(target.table).as_string(None) if target.digest else ""
        return {
            "slot": slot,
            "ranges": [each.encoded() for each in ranges],
            "moves": self._positions.encoded(session, moves),
            "before": [each.as_string(None) for each in statements.before],
            "copy": statements.copy.as_string(None),
            "table": {"name": target.table, "query": digest, "digest": target.digest},
            "after": [each.as_string(None) for each in statements.after],
        }

    def _planned(self, query: CopyQuery) -> Any:
        planned = self._plans.get(query.plan)
        if planned is None or not planned.isReusable():
            texts = self._texts(query)
            untyped: Any = texts.rows
            target = {"id_prefix": self._prefix, "slots": self._slots, "columns": texts.forms}
            planned = self._java.plan(untyped._jdf.queryExecution(), json.dumps(target))
            self._plans[query.plan] = planned
        return planned

    def _texts(self, query: CopyQuery) -> Texts:
        return query.texts(read(self._spark, self._source, slots=self._slots))

    def _search(self, query: CopyQuery) -> FailingSearch:
        if query.plan not in self._searches:
            self._searches[query.plan] = FailingSearch(self._spark, lambda: self._texts(query).rows)
        return self._searches[query.plan]
