"""Queries with state (aggregation, deduplication, join of streams): where Spark keeps it, in which format.

A checkpoint fixes the provider and the format of its state. New ones have RocksDB and format 2, in which each
attempt gives its files names of its own: an attempt that was replaced while it was frozen cannot overwrite a
version of its successor.
"""

from typing import TYPE_CHECKING, Any, Final

from cooperator.connectors.offsets.unit_log import (
    WITH_STATE,
    commit_version,
    record_setting,
    recorded_settings,
)
from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.places import Place, directories

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
LEARNED: Final = "dev.cooperator.spark.LearnedStateProvider"
"""Spark's provider with RocksDB, which takes over what a learner of its member has (decision 114)."""
FORMAT: Final = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_PARTITIONS: Final = "spark.sql.shuffle.partitions"
STATE: Final = "state"
"""The directory of the state in a checkpoint."""
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
_NOT_RUN: Final = "CheckpointInfo length: "
"""With this assertion Spark 4.1 ends a query whose sink has taken a batch without running all of it."""


def set_state_format(rows: "DataFrame", checkpoint: Place, is_learned: bool = False) -> None:
    """Sets in the query's session what its checkpoint fixes, or the best for a new one.

    ``is_learned``: other members may learn the state. The caller holds the unit. Raises ``OptionError`` where
    only one of query and checkpoint has state. The provider and the number of partitions that a checkpoint
    has recorded are restored by Spark itself. On a Spark Connect server, whose plans are not visible here,
    its own settings apply.
    """
    if not hasattr(rows, "_jdf"):
        return
    found, session = commit_version(checkpoint), rows.sparkSession
    if not has_state(rows):
        if found == WITH_STATE:
            raise _refused()
        return
    if found is not None and STATE not in directories(checkpoint):
        raise _refused()
    recorded = recorded_settings(checkpoint).get(PROVIDER)
    provider = recorded or session.conf.get(PROVIDER, "")
    if found is None:
        found = WITH_STATE if provider in (ROCKSDB, LEARNED) else 1
    session.conf.set(FORMAT, str(found))
    wanted = LEARNED if is_learned and found == WITH_STATE else ROCKSDB
    if provider in (ROCKSDB, LEARNED) and provider != wanted:
        # Both write the same files, so that a checkpoint can change between them.
        session.conf.set(PROVIDER, wanted)
        if recorded:
            record_setting(checkpoint, PROVIDER, wanted)


def check_partitions(partitions: int, checkpoint: Place) -> None:
    """Raises ``OptionError`` if the checkpoint has another number of partitions, which Spark would keep."""
    recorded = recorded_settings(checkpoint).get(_PARTITIONS, str(partitions))
    if recorded != str(partitions):
        problem = f"is not the number of partitions that the state has in its checkpoint, {recorded}"
        remedy = f"use {recorded}, or create the connector under another name"
        raise OptionError([Problem("state.partitions", str(partitions), problem, remedy)])


def was_not_run(error: BaseException) -> bool:
    """Whether a query has ended after its sink took a batch without running it.

    A sink passes over a batch that it has already: Spark's file sink, Delta, many functions of
    ``foreachBatch``. The rows of that batch are delivered, and its state is not made.
    """
    return _NOT_RUN in str(error)


def state_refused(error: BaseException) -> OptionError | None:
    """Returns the refusal that an error of Spark means if the query's state is not that of its checkpoint."""
    if not any(condition in str(error) for condition in _OTHER_STATE):
        return None
    return _refused()


def _refused() -> OptionError:
    problem = "makes a query whose state is not that of its checkpoint"
    remedy = "restore what groups, joins and deduplicates rows, or create the connector under another name"
    return OptionError([Problem("transform.sql", None, problem, remedy)])


def has_state(rows: "DataFrame") -> bool:
    """Whether Spark keeps state for a query."""
    untyped: Any = rows
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
