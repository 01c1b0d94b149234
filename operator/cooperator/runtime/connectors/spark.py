"""Connectors whose units are Structured Streaming queries: one query and one checkpoint a unit."""

import json
import logging
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from subprocess import Popen
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cooperator.runtime.connectors.base import Cancelled, Connector, UnitContext, UnitProgress
from cooperator.runtime.connectors.remote import open_remotely
from cooperator.runtime.connectors.transform import Select
from cooperator.runtime.fence import Fence, claim
from cooperator.runtime.options import Options, option
from cooperator.runtime.places import uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log = logging.getLogger(__name__)

_LOCAL_ROWS_PARTITIONS = 8


class SparkOptions(Options):
    """What every Spark connector takes."""

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
    """To be subclassed with ``units``, ``reader`` and ``writer``; the rest is done here.

    What the two open (a producer) is closed by ``context.closing``, after the query has ended.
    """

    @abstractmethod
    def reader(self, spark: "SparkSession", options: S, context: UnitContext) -> "DataFrame":
        """The unit's stream: any ``spark.readStream`` format, transformed as wanted. ``spark`` is a session
        of the unit's own: views, data sources and settings in it are nobody else's."""

    @abstractmethod
    def writer(self, stream: "DataFrame", options: S, context: UnitContext) -> "DataStreamWriter":
        """Where it goes: any ``writeStream`` format, or ``foreachBatch``. Name, checkpoint and trigger
        are set by the caller. A directory must be the unit's own: two checkpoints that write to one
        directory lose rows."""

    def runs_remotely(self, options: S) -> bool:
        """Whether reader and writer ask nothing of the member's process, so that a Spark Connect server can
        run the query: formats of Spark's on both sides, no ``foreachBatch``."""
        return False

    def open(self, options: S, context: UnitContext) -> "SparkQuery":
        if context.server is not None:
            return open_remotely(self, options, context, context.server)
        member = context.session()
        gateway: Any = member.sparkContext._gateway
        # A share of the cores for each query: a large batch of one does not stop the others.
        member.sparkContext.setLocalProperty("spark.scheduler.pool", query_name(context))
        fence = claim(context.checkpoint, context.epoch, context.attempt, context.owner)
        context = replace(context, fence=fence)
        try:
            stream = self.reader(member.newSession(), options, context)
            fence_session(stream.sparkSession, fence)
            query = start_query(self.writer(stream, options, context), options, context)
        except BaseException:
            context.closing.close()
            raise
        return SparkQuery(query, context, gateway.proc)


def query_name(context: UnitContext) -> str:
    return f"{context.task.connector}/{context.unit}"


def start_query(writer: "DataStreamWriter", options: SparkOptions, context: UnitContext) -> "StreamingQuery":
    """The unit's query, on its checkpoint; Cancelled if it is to stop already."""
    if context.cancelled.is_set():
        raise Cancelled
    name = query_name(context)
    return (
        writer.queryName(name)
        .option("checkpointLocation", uri(context.checkpoint))
        .trigger(processingTime=f"{spread(options.trigger_interval_ms, name)} milliseconds")
        .start()
    )


def fence_session(session: "SparkSession", fence: Fence) -> None:
    """What is started in the session puts nothing in place once the claim is not the last one."""
    session.conf.set(
        "spark.sql.streaming.checkpointFileManagerClass", "dev.cooperator.spark.FencedCheckpointFileManager"
    )
    session.conf.set("cooperator.fence.directory", str(fence.directory))
    session.conf.set("cooperator.fence.claim", fence.claim)


class SparkQuery:
    """A unit that runs as a query. ``jvm``: the process that runs it; None when it is not our child. ``end``:
    ends it, and returns when it has ended, where that is not for the query to do."""

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
            raise self._query.exception() or RuntimeError("the query was stopped by something else")
        last = self._news()
        if last is not None:
            # All that happened since, only where something may have: each costs calls into the JVM.
            is_next = last["numInputRows"] > 0 and last["batchId"] == self._batch + 1
            for progress in [last] if is_next else self._recent():
                # An idle query reports too, under the id of the batch to come: only rows make a batch.
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
        """The last progress, if it is not the one that was seen last. Asked for every second of every query,
        so of the JVM's object only its time is read: pyspark would read every field of it, one call each."""
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
            # Not active is not ended: only this waits for the query's thread.
            self._query.awaitTermination()
        except StreamingQueryException:
            log.debug("%s had failed before it was stopped", self._context.unit)
        except Exception:
            if self._jvm is None or self._jvm.poll() is None:
                raise
            log.info("%s ended with its JVM", self._context.unit)
        self._context.closing.close()


def _loaded(text: str) -> dict[str, Any]:
    """A progress. Its sum of rows is not in what a Spark Connect server tells."""
    loaded: dict[str, Any] = json.loads(text)
    return {**loaded, "numInputRows": sum(source["numInputRows"] for source in loaded["sources"])}


def _text(offset: object) -> str:
    """A position as a checkpoint has it: JSON as text."""
    if offset is None:
        return ""
    return offset if isinstance(offset, str) else json.dumps(offset)


def behind(end: str, latest: str) -> int | None:
    """The records between two positions of Spark's Kafka source; None for those of another source."""
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
    """The interval, or up to an eighth more: triggers align to the clock, and many queries with the same
    interval would all start their batches at once."""
    return interval_ms + zlib.crc32(name.encode()) % (interval_ms // 8 + 1)


def local_rows(batch: "DataFrame") -> Iterator[tuple[Any, ...]]:
    """The rows of a batch, here on the driver, in bounded memory.

    Columnar and at once when the batch has few partitions (each at most
    ``spark.sql.files.maxPartitionBytes``), which is many times faster; else partition by partition.
    """
    if batch.rdd.getNumPartitions() <= _LOCAL_ROWS_PARTITIONS:
        for part in batch.toArrow().to_batches():
            yield from zip(*(column.to_pylist() for column in part.columns), strict=True)
    else:
        for row in batch.toLocalIterator():
            yield tuple(bytes(value) if isinstance(value, bytearray) else value for value in row)
