"""Units that run as Structured Streaming queries: how one is guarded, followed and stopped."""

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from subprocess import Popen
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cooperator.connectors.base import StateSize, UnitContext, UnitProgress
from cooperator.connectors.fence import Fence
from cooperator.connectors.offsets.unit_log import reached
from cooperator.connectors.output_owner import owner_settings
from cooperator.connectors.stateful import state_refused, was_not_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

_AFTER_REPLAY = (
    'Cannot invoke "scala.collection.IterableOps.map(scala.Function1)" because the return value of '
    '"scala.Option.get()" is null'
)
"""The error with which Spark 4.1.0 to 4.1.2 end a query on Kafka after a batch that an earlier query began.

The batch is committed by then (SPARK-57438).
"""


FILE_MANAGER: Final = (
    "spark.sql.streaming.checkpointFileManagerClass",
    "dev.cooperator.spark.FencedCheckpointFileManager",
)
"""The setting by which Spark puts files in place only for the holder of a claim."""


def activate(session: "SparkSession") -> None:
    """Makes the session that of this thread: some parts of Spark read the settings of this one only."""
    untyped: Any = session
    untyped._get_j_spark_session_class(untyped._jvm).setActiveSession(untyped._jsparkSession)


def query_name(context: UnitContext) -> str:
    return f"{context.task.connector}/{context.unit}"


def guard_session(session: "SparkSession", fence: Fence, context: UnitContext) -> None:
    """Sets the fence and the output's owner in the session.

    Queries of the session put nothing in place once the claim is not the latest, and file sinks write to no
    directory of another checkpoint than the unit's.
    """
    # A process that dies while it plans its first batch leaves a temporary file in the checkpoint. Spark
    # would refuse that checkpoint for ever, as one that two queries share; the fence prevents that already.
    session.conf.set("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
    session.conf.set(*FILE_MANAGER)
    session.conf.set("cooperator.fence.directory", str(fence.directory))
    session.conf.set("cooperator.fence.claim", fence.claim)
    for name, value in owner_settings(context).items():
        session.conf.set(name, value)


class QueryStarts(NamedTuple):
    """Two ways to start the query of a unit.

    ``begin`` starts it. ``without_sink`` starts it for one batch, the newest that has begun, whose rows go
    nowhere.
    """

    begin: "Callable[[], StreamingQuery]"
    without_sink: "Callable[[], StreamingQuery]"


class SparkQuery:
    """A unit that runs as a query.

    The query is started again if Spark ends it after a batch that an earlier query has begun. If its sink
    has taken a batch without running it, so that the batch has no state, the batch is run without its sink
    first. ``jvm`` is the process that runs it; None when it is not a child process. ``end``, if given, ends
    the query in place of its own ``stop``, and returns when it has ended.
    """

    def __init__(
        self,
        starts: QueryStarts,
        context: UnitContext,
        jvm: Popen[bytes] | None,
        end: Callable[[], None] | None = None,
    ) -> None:
        self._starts = starts
        self._query = starts.begin()
        self._was_replayed = False
        self._restored: int | None = None
        """The batch that is run without its sink, while it is."""
        self._context = context
        self._jvm = jvm
        self._end_query = end
        self._batch = -1
        self._rows_in = 0
        self._seen = ""
        self._end = ""
        self._behind: int | None = None
        self._state: StateSize | None = None

    def poll(self) -> UnitProgress:
        if not self._query.isActive:
            self._start_again()
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
            self._state = state_size(last)
            if len(last["sources"]) == 1:
                source = last["sources"][0]
                self._end = _text(source.get("endOffset"))
                self._behind = behind(self._end, _text(source.get("latestOffset")))
        rows_out = self._context.counts.rows_out
        return UnitProgress(self._batch, self._rows_in, rows_out, self._end, self._behind, self._state)

    def _start_again(self) -> None:
        """Starts the query again after its end, if that helps; otherwise raises why it has ended."""
        from pyspark.errors import StreamingQueryException

        error = self._query.exception()
        start = self._starts.begin
        if self._restored is not None:
            self._check_restored(self._restored, error)
            log.info("%s: the state of batch %d is made", self._context.unit, self._restored)
            self._restored = None
        elif error is None:
            raise RuntimeError("the query was stopped unexpectedly")
        elif (refused := state_refused(error)) is not None:
            raise refused from error
        elif was_not_run(error) and self._context.server is None:
            _, self._restored = reached(self._context.checkpoint)
            log.info(
                "%s: the sink did not run batch %d: its state is made", self._context.unit, self._restored
            )
            start = self._starts.without_sink
        elif _AFTER_REPLAY in str(error) and not self._was_replayed:
            log.info("%s has redone its last batch, and is started again", self._context.unit)
            self._was_replayed = True
        else:
            raise error
        with suppress(StreamingQueryException):
            self._query.awaitTermination()  # the query's name and checkpoint are its own until then
        self._query = start()

    def _check_restored(self, batch: int, error: Exception | None) -> None:
        """Raises if not exactly this batch has run without its sink."""
        committed, newest = reached(self._context.checkpoint)
        if committed < batch:
            raise error or RuntimeError(f"batch {batch}, which the sink has, did not run without it")
        if newest > batch:
            raise RuntimeError(f"not only batch {batch} ran without its sink; compare sink and source")

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


def state_size(progress: Mapping[str, Any]) -> StateSize | None:
    """Returns the size of a query's state by its progress, over all its operators; None without state."""
    operators = progress.get("stateOperators") or ()
    if not operators:
        return None
    return StateSize(
        rows=sum(each["numRowsTotal"] for each in operators),
        # RocksDB's newest rows are in memory only, all others in its files.
        bytes=sum(
            each["memoryUsedBytes"] + each.get("customMetrics", {}).get("rocksdbSstFileSize", 0)
            for each in operators
        ),
        commit_ms=max(each["commitTimeMs"] for each in operators),
    )


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
