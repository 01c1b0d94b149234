"""Connectors whose units are Structured Streaming queries: one query and one checkpoint per unit."""

import json
import logging
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from subprocess import Popen
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cooperator.connectors.base import Cancelled, Connector, UnitContext, UnitProgress
from cooperator.connectors.fence import Fence, claim
from cooperator.connectors.options import Options, option
from cooperator.connectors.output_owner import output_taken, owner_settings
from cooperator.connectors.places import uri
from cooperator.connectors.remote import open_remotely
from cooperator.connectors.transform import Select

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log = logging.getLogger(__name__)

_LOCAL_ROWS_PARTITIONS = 8


class SparkOptions(Options):
    """The options of every Spark connector."""

    trigger_interval_ms: int = option(
        "trigger.interval.ms",
        1_000,
        expected="milliseconds between the starts of two batches, 0 (no pause) or more",
        ge=0,
    )
    transform_sql: Select = option(
        "transform.sql", "", expected="a SELECT from the view input (its columns: see the connector)"
    )


S = TypeVar("S", bound=SparkOptions)


class SparkConnector(Connector[S], Generic[S]):
    """The base class of connectors: subclasses write ``units``, ``reader`` and ``writer``.

    Resources that reader and writer open (a producer) are closed by ``context.closing``, after the query has
    ended.
    """

    @abstractmethod
    def reader(self, spark: "SparkSession", options: S, context: UnitContext) -> "DataFrame":
        """Returns the unit's stream: any ``spark.readStream`` format, with any transformation.

        ``spark`` is the unit's own session: its views, data sources and settings are not shared.
        """

    @abstractmethod
    def writer(self, stream: "DataFrame", options: S, context: UnitContext) -> "DataStreamWriter":
        """Returns the stream's writer: any ``writeStream`` format, or ``foreachBatch``.

        The caller sets name, checkpoint and trigger. A directory must be the unit's own: a file sink refuses
        to open one that another checkpoint has written to.
        """

    def runs_remotely(self, options: S) -> bool:
        """Whether a Spark Connect server can run the query.

        Reader and writer must not depend on the member's process: Spark's own formats on both sides, and no
        ``foreachBatch``.
        """
        return False

    def open(self, options: S, context: UnitContext) -> "SparkQuery":
        if context.server is not None:
            return open_remotely(self, options, context, context.server)
        member = context.session()
        gateway: Any = member.sparkContext._gateway
        # Each query has a pool of its own, so that a large batch of one does not stop the others.
        member.sparkContext.setLocalProperty("spark.scheduler.pool", query_name(context))
        fence = claim(context.checkpoint, context.epoch, context.attempt, context.owner)
        context = replace(context, fence=fence)
        try:
            stream = self.reader(member.newSession(), options, context)
            guard_session(stream.sparkSession, fence, context)
            query = start_query(self, stream, options, context)
        except BaseException:
            context.closing.close()
            raise
        return SparkQuery(query, context, gateway.proc)


def query_name(context: UnitContext) -> str:
    return f"{context.task.connector}/{context.unit}"


def start_query(
    connector: SparkConnector[S], stream: "DataFrame", options: S, context: UnitContext
) -> "StreamingQuery":
    """Starts the unit's query on its checkpoint.

    Raises ``Cancelled`` if the unit is to stop already, and ``OutputTaken`` when its sink is a directory of
    another checkpoint.
    """
    name = query_name(context)
    try:
        writer = connector.writer(stream, options, context)
        if context.cancelled.is_set():
            raise Cancelled
        return (
            writer.queryName(name)
            .option("checkpointLocation", uri(context.checkpoint))
            .trigger(processingTime=f"{spread(options.trigger_interval_ms, name)} milliseconds")
            .start()
        )
    except Exception as error:
        taken = output_taken(error, context)
        if taken is None:
            raise
        raise taken from None


def guard_session(session: "SparkSession", fence: Fence, context: UnitContext) -> None:
    """Sets the fence and the output's owner in the session.

    Queries of the session put nothing in place once the claim is not the latest, and file sinks write to no
    directory of another checkpoint than the unit's.
    """
    session.conf.set(
        "spark.sql.streaming.checkpointFileManagerClass", "dev.cooperator.spark.FencedCheckpointFileManager"
    )
    session.conf.set("cooperator.fence.directory", str(fence.directory))
    session.conf.set("cooperator.fence.claim", fence.claim)
    for name, value in owner_settings(context).items():
        session.conf.set(name, value)


class SparkQuery:
    """A unit that runs as a query.

    ``jvm`` is the process that runs it; None when it is not a child process. ``end``, if given, ends the
    query in place of its own ``stop``, and returns when it has ended.
    """

    def __init__(
        self,
        query: "StreamingQuery",
        context: UnitContext,
        jvm: Popen[bytes] | None,
        end: Callable[[], None] | None = None,
    ) -> None:
        self._query = query
        self._context = context
        self._jvm = jvm
        self._end_query = end
        self._batch = -1
        self._rows_in = 0
        self._seen = ""
        self._end = ""
        self._behind: int | None = None

    def poll(self) -> UnitProgress:
        if not self._query.isActive:
            raise self._query.exception() or RuntimeError("the query was stopped unexpectedly")
        last = self._news()
        if last is not None:
            # All reports since the last poll are read only when needed: each costs calls into the JVM.
            is_next = last["numInputRows"] > 0 and last["batchId"] == self._batch + 1
            for progress in [last] if is_next else self._recent():
                # An idle query reports, too, under the id of the next batch: only reports with rows are
                # batches.
                if progress["timestamp"] > self._seen and progress["numInputRows"] > 0:
                    self._rows_in += progress["numInputRows"]
                    self._batch = progress["batchId"]
            self._seen = last["timestamp"]
            if len(last["sources"]) == 1:
                source = last["sources"][0]
                self._end = _text(source.get("endOffset"))
                self._behind = behind(self._end, _text(source.get("latestOffset")))
        rows_out = self._context.counts.rows_out
        return UnitProgress(self._batch, self._rows_in, rows_out, self._end, self._behind)

    def _news(self) -> dict[str, Any] | None:
        """Returns the last progress, unless it was seen before.

        It is polled every second for every query, so only the time of the JVM's object is read: pyspark would
        read every field, one call each.
        """
        untyped: Any = self._query
        if not hasattr(untyped, "_jsq"):
            last = untyped.lastProgress
            return None if last is None or last.timestamp == self._seen else _loaded(last.json)
        last = untyped._jsq.lastProgress()
        return None if last is None or last.timestamp() == self._seen else _loaded(last.json())

    def _recent(self) -> list[dict[str, Any]]:
        untyped: Any = self._query
        if not hasattr(untyped, "_jsq"):
            return [_loaded(progress.json) for progress in untyped.recentProgress]
        return [_loaded(progress.json()) for progress in untyped._jsq.recentProgress()]

    def stop(self) -> None:
        if self._end_query is not None:
            self._end_query()
            self._context.closing.close()
            return
        from pyspark.errors import StreamingQueryException

        try:
            self._query.stop()
            # isActive turns false before the query ends: only this waits for the query's thread.
            self._query.awaitTermination()
        except StreamingQueryException:
            log.debug("%s failed before it was stopped", self._context.unit)
        except Exception:
            if self._jvm is None or self._jvm.poll() is None:
                raise
            log.info("%s ended with its JVM", self._context.unit)
        self._context.closing.close()


def _loaded(text: str) -> dict[str, Any]:
    """Parses a progress. A Spark Connect server does not report the sum of rows."""
    loaded: dict[str, Any] = json.loads(text)
    return {**loaded, "numInputRows": sum(source["numInputRows"] for source in loaded["sources"])}


def _text(offset: object) -> str:
    """Returns a position in a checkpoint's format: JSON as text."""
    if offset is None:
        return ""
    return offset if isinstance(offset, str) else json.dumps(offset)


def behind(end: str, latest: str) -> int | None:
    """Returns the number of records between two positions of Spark's Kafka source; None for other sources."""
    try:
        there: Mapping[str, Mapping[str, int]] = json.loads(latest)
        here: Mapping[str, Mapping[str, int]] = json.loads(end)
        return sum(
            max(0, offset - here.get(topic, {}).get(partition, 0))
            for topic, partitions in there.items()
            for partition, offset in partitions.items()
        )
    except (ValueError, AttributeError, TypeError):
        return None


def spread(interval_ms: int, name: str) -> int:
    """Returns the interval, or up to an eighth more.

    Triggers align to the clock: many queries with the same interval would all start their batches at once.
    """
    return interval_ms + zlib.crc32(name.encode()) % (interval_ms // 8 + 1)


def local_rows(batch: "DataFrame") -> Iterator[tuple[Any, ...]]:
    """Yields the rows of a batch on the driver, in bounded memory.

    A batch with few partitions (each at most ``spark.sql.files.maxPartitionBytes``) is read at once in
    columns, which is many times faster; others partition by partition.
    """
    if batch.rdd.getNumPartitions() <= _LOCAL_ROWS_PARTITIONS:
        for part in batch.toArrow().to_batches():
            yield from zip(*(column.to_pylist() for column in part.columns), strict=True)
    else:
        for row in batch.toLocalIterator():
            yield tuple(bytes(value) if isinstance(value, bytearray) else value for value in row)
