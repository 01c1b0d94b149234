"""Batches as Spark jobs, and the ends of partitions asked by the JVM's client.

The jobs' code is in ``cooperator-spark.jar`` (``KafkaRanges``, ``KafkaTransactions``, ``PartitionEnds``).
"""

import json
import logging
import threading
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cooperator.connectors.microbatch.batches import (
    FailureKind,
    OpenFailed,
    Outcome,
    PositionRecord,
    SearchFailed,
    SlotFailure,
)
from cooperator.connectors.microbatch.claims import TransactionalIds
from cooperator.connectors.microbatch.ends import Look
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition, encoded
from cooperator.connectors.planned_decoding import failing_once
from cooperator.connectors.postgres_states import Meaning, meaning_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

SOURCE = "dev.cooperator.spark.KafkaRanges"
LEAST_SLOTS = 2
_OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
_OF_DATABASE = {
    Meaning.PASSES: FailureKind.RETRIABLE,
    Meaning.ROW: FailureKind.REFUSED,
    Meaning.SCHEMA: FailureKind.REFUSED,
    Meaning.LOGIN: FailureKind.FAILED,
}
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_NOTHING_IS_READ = "org.apache.spark.sql.catalyst.optimizer.PruneFilters"
"""It replaces a query that can have no rows (WHERE FALSE) by an empty relation, which would read nothing."""


@dataclass(frozen=True, slots=True)
class BatchTarget:
    """Where rows and positions go. ``settings`` are those of the producers (Java's names).

    ``slots`` are those of the attempt's claim: an id that is opened here and not claimed would never be
    fenced. There are at least ``LEAST_SLOTS``: a plan of one Spark partition would let aggregates pass, whose
    rows need not move. Batches need not use all of them.
    """

    slots: TransactionalIds
    positions: str
    settings: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        if self.slots.count < LEAST_SLOTS:
            raise ValueError(f"slots = {self.slots.count}; use {LEAST_SLOTS} or more")

    def encode(self) -> str:
        """Returns the JSON that ``KafkaTransactions`` reads."""
        return json.dumps(
            {
                "id_prefix": self.slots.prefix,
                "positions": self.positions,
                "slots": self.slots.count,
                "settings": dict(self.settings),
            }
        )


@dataclass(frozen=True, slots=True)
class BatchSource:
    """The input of a task. ``settings`` are those of the consumers (Java's names); ``pool`` names the
    task."""

    settings: Mapping[str, str] = field(repr=False)
    pool: str = ""
    headers: bool = False
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 20_000


def session_of_task(member: "SparkSession") -> "SparkSession":
    """Returns a session of a task's own: its views and settings are not shared."""
    session = member.newSession()
    excluded = session.conf.get(_EXCLUDED, None)
    session.conf.set(_EXCLUDED, ",".join([*filter(None, [excluded]), _NOTHING_IS_READ]))
    return session


def read(spark: "SparkSession", source: BatchSource, **what: str | int) -> "DataFrame":
    """Returns the records as a relation.

    ``what`` are options of ``KafkaRanges``: ``slots`` or ``ranges``, and ``collected`` for records that are
    all held in memory at once.
    """
    options: dict[str, str | int | bool] = {
        "pool": source.pool,
        "includeHeaders": source.headers,
        "failOnDataLoss": source.fail_on_data_loss,
        "pollTimeoutMs": source.poll_timeout_ms,
        **what,
        **{f"kafka.{name}": value for name, value in source.settings.items()},
    }
    records = spark.read.format(SOURCE).options(**options).load()
    return failing_once(records) if "collected" in what else records


def of_partition(raw: "pa.Table", partition: Partition) -> "pa.Table":
    """Returns the records of a partition, in order."""
    import pyarrow.compute as pc

    topics, numbers = pc.equal(raw["topic"], partition.topic), pc.equal(raw["partition"], partition.number)
    return raw.filter(pc.and_(topics, numbers)).sort_by("offset")


def batch_of(
    session: str, slots: Sequence[Sequence[OffsetRange]], records: Mapping[Partition, PositionRecord]
) -> dict[str, Any]:
    """Returns a batch as ``KafkaTransactions`` reads it."""
    units = [[[*each.encoded(), *records[each.partition]] for each in slot] for slot in slots]
    letters = [
        [number, one.letter.encoded()]
        for number, slot in enumerate(slots)
        for each in slot
        for one in each.left_out
        if one.letter is not None
    ]
    return {"session": session, "slots": units, "letters": letters}


def run_batch(plan: Any, batch: Mapping[str, Any], slots: Sequence[Sequence[OffsetRange]]) -> Outcome:
    """Runs a batch by a plan of ``KafkaTransactions``."""
    try:
        answer = json.loads(plan.run(json.dumps(batch)))["slots"]
    except Exception as error:
        # It was cancelled, or what failed was not a slot's own work.
        return Outcome(0, [SlotFailure(0, *failure_of_job(error))])
    return outcome_of(answer, slots)


def outcome_of(answer: Sequence[Mapping[str, Any]], slots: Sequence[Sequence[OffsetRange]]) -> Outcome:
    """Returns the outcome of slots by the answer of the JVM for each."""
    return Outcome(
        sum(slot.get("rows", 0) for slot in answer),
        [SlotFailure(n, *failure_of(slot)) for n, slot in enumerate(answer) if "kind" in slot],
        {
            each.partition: count
            for ranges, slot in zip(slots, answer, strict=True)
            for each, count in zip(ranges, slot.get("counts", ()), strict=False)
        },
    )


_entered = threading.local()


class JobGroup:
    """The Spark jobs of one task's batches, which ``cancel`` ends from any thread."""

    def __init__(self, spark: "SparkSession", name: str, description: str = "a batch") -> None:
        self.name = f"{name} {uuid.uuid4().hex}"
        self._spark = spark
        self._description = description

    def enter(self) -> None:
        """Gives the thread's jobs this group, once: each Python thread has a JVM thread of its own."""
        if getattr(_entered, "name", "") != self.name:
            self._spark.sparkContext.setJobGroup(self.name, self._description, interruptOnCancel=True)
            _entered.name = self.name

    def cancel(self) -> None:
        try:
            self._spark.sparkContext.cancelJobGroup(self.name)
        except Exception as error:
            log.info("cancelling the %s: %s", self.name, error)  # The JVM may have ended.


def read_failure(java: Any, error: Exception) -> tuple[FailureKind, str]:
    """Returns what ``KafkaTransactions`` knows of a query's failure; raises one that is not the JVM's."""
    thrown = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if thrown is None:
        raise error
    told = json.loads(java.failure(thrown))
    return failure_of(told)


def failure_of_job(error: Exception) -> tuple[FailureKind, str]:
    """Returns the kind of a failure that is no slot's own, and its text."""
    is_of_memory = _OUT_OF_MEMORY in str(error)
    return FailureKind.MEMORY if is_of_memory else FailureKind.FAILED, str(error)


def failure_of(told: Mapping[str, Any]) -> tuple[FailureKind, str]:
    """Returns the kind of a failure that the JVM tells, and its text."""
    if told["kind"] != "database":
        return FailureKind(told["kind"]), told["error"]
    return _OF_DATABASE[meaning_of(told["state"], told["routine"])], told["error"]


class FailingSearch:
    """Finds records that a query fails for, in Spark's tasks."""

    def __init__(
        self, spark: "SparkSession", rows: "Callable[[], DataFrame]", *, is_before_rows: bool = False
    ) -> None:
        """``rows`` returns the query, unplanned; its source has the option ``slots``.

        Where letters are written before the rows (``is_before_rows``), a query that has random numbers or the
        time is not searched: when it runs, it might fail for other records.
        """
        untyped: Any = spark
        self._spark = spark
        self._java: Any = untyped._jvm.dev.cooperator.spark
        self._rows = rows
        self._is_before_rows = is_before_rows
        self._planned: Any = None

    def find(self, slots: Sequence[Sequence[OffsetRange]], most: int) -> "pa.Table":
        """Returns the records as they were read, up to ``most`` of each slot. Raises ``SearchFailed``."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException
        from pyspark.sql import DataFrame

        try:
            if self._planned is None or not self._planned.isReusable():
                untyped: Any = self._rows()
                self._planned = self._java.FailingRecords.of(untyped._jdf.queryExecution())
            if self._is_before_rows and not self._planned.isReusable():
                raise SearchFailed(FailureKind.ROWS, "its rows may differ from one run to the next")
            found = self._planned.find(encoded(slots), most)
            try:
                return DataFrame(found.rows(), self._spark).toArrow()
            finally:
                found.free()
        except (PySparkException, Py4JJavaError) as error:
            raise SearchFailed(*read_failure(self._java.KafkaTransactions, error)) from error


class SparkBatches:
    """Runs the batches of one task, all in one thread; ``cancel`` may be called by any."""

    def __init__(
        self,
        spark: "SparkSession",
        source: BatchSource,
        transform: "Callable[[DataFrame], DataFrame]",
        target: BatchTarget,
        topic_of: Callable[[str], str] | None = None,
    ) -> None:
        """``transform`` returns rows with the columns topic and value.

        They may have the columns partition, key, headers and timestamp (milliseconds), too; null is the
        producer's choice.
        With ``topic_of`` they need no topic: it returns the topic for rows from a source topic, and a slot
        must not read two of these.
        """
        untyped: Any = spark
        self._spark = spark
        self._java: Any = untyped._jvm.dev.cooperator.spark.KafkaTransactions
        self._source = source
        self._transform = transform
        self._topic_of = topic_of
        self._target = target.encode()
        self._slots = target.slots.count
        self._plan: Any = None
        self._search = FailingSearch(spark, self.rows)
        self._group = JobGroup(spark, f"batches of {target.slots.prefix}")

    @property
    def reads_topics_apart(self) -> bool:
        return self._topic_of is not None

    def open(self, session: str) -> None:
        self._group.enter()
        failure = self._planned().open(session)
        if failure:
            raise OpenFailed(*failure_of(json.loads(failure)))

    def run(
        self,
        session: str,
        slots: Sequence[Sequence[OffsetRange]],
        records: Mapping[Partition, PositionRecord],
    ) -> Outcome:
        self._group.enter()
        batch = batch_of(session, slots, records)
        if self._topic_of is not None:
            batch["topics"] = [self._topic_of(slot[0].partition.topic) for slot in slots]
        return run_batch(self._planned(), batch, slots)

    def failing(self, slots: Sequence[Sequence[OffsetRange]], most: int) -> "pa.Table":
        self._group.enter()
        return self._search.find(slots, most)

    def cancel(self) -> None:
        self._group.cancel()

    def close(self) -> None:
        try:
            if self._plan is not None:
                self._plan.close()
        except Exception as error:
            log.info("closing the producers of the %s: %s", self._group.name, error)

    def prepare(self) -> None:
        """Plans the query now. Raises what Spark refuses it with."""
        self._group.enter()
        self._planned()

    def rows(self) -> "DataFrame":
        """Returns the rows of a batch, unplanned."""
        return self._transform(read(self._spark, self._source, slots=self._slots))

    def _planned(self) -> Any:
        if self._plan is None or not self._plan.isReusable():
            untyped: Any = self.rows()
            self._plan = self._java.plan(untyped._jdf.queryExecution(), self._target)
        return self._plan


class SparkEnds:
    """``Ends`` by the JVM's admin client."""

    def __init__(self, spark: "SparkSession", settings: Mapping[str, str]) -> None:
        """``settings`` are those of a consumer (Java's names).

        With ``isolation.level`` read_committed, the default, an end is the last stable offset.
        """
        untyped: Any = spark
        self._java: Any = untyped._jvm.dev.cooperator.spark.PartitionEnds(json.dumps(dict(settings)))

    def watch(self, partitions: Collection[Partition]) -> None:
        self._java.watch(json.dumps(list(partitions)))

    def look(self, timeout_ms: int) -> Look:
        answer = json.loads(self._java.look(timeout_ms))
        held = answer.get("held")
        return Look(
            {Partition(topic, number): end for topic, number, end in answer["ends"]},
            {Partition(topic, number): reason for topic, number, reason in answer["unknown"]},
            dict(answer["ids"]),
            None if held is None else {Partition(topic, number): count for topic, number, count in held},
        )

    def close(self) -> None:
        self._java.close()
