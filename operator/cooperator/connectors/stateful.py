"""Queries with state (aggregation, deduplication, join of streams): where Spark keeps it, in which format.

A checkpoint fixes the provider and the format of its state. New ones have RocksDB and format 2, in which each
attempt gives its files names of its own: an attempt that was replaced while it was frozen cannot overwrite a
version of its successor.
"""

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from cooperator.connectors.base import Cancelled, UnitContext
from cooperator.connectors.offsets.unit_log import (
    WITH_STATE,
    SinkHas,
    commit_version,
    query_of,
    reached,
    recorded_settings,
)
from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.places import Place, uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_LOOK_S: Final = 1
PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_FORMAT: Final = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_ALWAYS: Final = frozenset({
    *("Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit"),
    *("FlatMapGroupsWithState", "FlatMapGroupsInPandasWithState"),
    *("TransformWithState", "TransformWithStateInPySpark"),
})  # fmt: skip
"""Operators of Spark's plans that keep state where their input is a stream."""
_OTHER_STATE: Final = (
    *("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"),
    *("STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA", "STATE_STORE_COLUMN_FAMILY_SCHEMA"),
)
"""Spark's error conditions where a query's state does not fit its checkpoint."""


def set_state_format(session: "SparkSession", rows: "DataFrame", checkpoint: Place) -> None:
    """Sets in the query's session what its checkpoint fixes, or the best for a new one.

    Raises ``OptionError`` for a query without state on a checkpoint that has some. The provider that a
    checkpoint has recorded is restored by Spark itself.
    """
    found = commit_version(checkpoint)
    if not _has_state(rows):
        if found == WITH_STATE:
            raise _refused()
        return
    if found is None:
        provider = recorded_settings(checkpoint).get(PROVIDER) or session.conf.get(PROVIDER, "")
        found = WITH_STATE if provider == ROCKSDB else 1
    session.conf.set(_FORMAT, str(found))


def restore_state(stream: "DataFrame", output_mode: str, context: UnitContext, sink_has: SinkHas) -> None:
    """Runs a batch again without its sink, if the sink has it and Spark has not finished it.

    A sink that skips the batch would leave Spark without its state: which files that has is known to the
    attempt that ran the batch, until it is finished. Raises ``Cancelled`` when the unit is to stop, and what
    ends the query.
    """
    checkpoint = context.checkpoint
    committed, newest = reached(checkpoint)
    if newest <= committed or commit_version(checkpoint) not in (WITH_STATE, None) or not _has_state(stream):
        return
    if not sink_has(query_of(checkpoint), newest):
        return
    from pyspark.errors import StreamingQueryException

    writer = stream.writeStream.format("noop").outputMode(output_mode).trigger(once=True)
    query = writer.option("checkpointLocation", uri(checkpoint)).start()
    try:
        while not query.awaitTermination(_LOOK_S):
            if context.cancelled.is_set():
                raise Cancelled
    except StreamingQueryException:
        if reached(checkpoint)[0] < newest:
            raise
    finally:
        query.stop()
        with suppress(StreamingQueryException):
            query.awaitTermination()
    if reached(checkpoint) != (newest, newest):
        raise RuntimeError(f"not only batch {newest} ran without its sink; compare sink and source")
    log.info("%s: the state of batch %d is restored, which the sink has already", context.unit, newest)


def state_refused(error: BaseException) -> OptionError | None:
    """Returns the refusal that an error of Spark means if the query's state is not that of its checkpoint."""
    if not any(condition in str(error) for condition in _OTHER_STATE):
        return None
    return _refused()


def _refused() -> OptionError:
    problem = "makes a query whose state is not that of its checkpoint"
    remedy = "restore what groups, joins and deduplicates rows, or create the connector under another name"
    return OptionError([Problem("transform.sql", None, problem, remedy)])


def _has_state(rows: "DataFrame") -> bool:
    """Whether Spark keeps state for a query. Unknown on a Spark Connect server, where it is False."""
    untyped: Any = rows
    if not hasattr(untyped, "_jdf"):
        return False
    plans = [untyped._jdf.queryExecution().analyzed()]
    while plans:
        plan = plans.pop()
        children = plan.children()
        below = [children.apply(number) for number in range(children.size())]
        streams = sum(child.isStreaming() for child in below)
        name = plan.getClass().getSimpleName()
        if streams and (name in _ALWAYS or (name == "Join" and streams > 1)):
            return True
        plans += below
    return False
