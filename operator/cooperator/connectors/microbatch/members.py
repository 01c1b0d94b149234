"""The clients that the tasks of a process share: topics of positions, and watchers of partitions' ends."""

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cooperator.connectors.microbatch import notes
from cooperator.connectors.microbatch.ends import EndWatcher
from cooperator.connectors.microbatch.kafka_positions import KafkaPositions
from cooperator.connectors.microbatch.spark_batches import SparkEnds
from cooperator.connectors.tasks import InstanceContext
from cooperator.connectors.units import Layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Settings = frozenset[tuple[str, Any]]

_lock = threading.Lock()
_positions: dict[tuple[str, _Settings], KafkaPositions] = {}
_watchers: dict[_Settings, EndWatcher] = {}
_jvm: list[Any] = []
"""The JVM that the watchers' clients are in."""


def positions_of(group_id: str, client: Mapping[str, Any]) -> KafkaPositions:
    """Returns the topic of positions of a Worker's group on the cluster of these clients."""
    with _lock:
        key = (group_id, frozenset(client.items()))
        if key not in _positions:
            _positions[key] = KafkaPositions(group_id, client)
        return _positions[key]


def settle_layout(client: Mapping[str, Any], context: InstanceContext, layout: Layout) -> None:
    """See ``notes.settle_layout``; ``client`` has the settings of the cluster with the positions."""
    positions = positions_of(context.group_id, client)
    patience = positions.patience(context.cancelled, context.say)
    notes.settle_layout(positions, context.connector, layout, patience)


def watcher_of(spark: "SparkSession", settings: Mapping[str, str]) -> EndWatcher:
    """Returns the watcher of the cluster of these settings (Java's names), by the session's JVM."""
    untyped: Any = spark
    jvm = untyped.sparkContext._gateway
    with _lock:
        if _jvm != [jvm]:
            _jvm[:] = [jvm]
            _watchers.clear()
        key = frozenset(settings.items())
        if key not in _watchers:
            _watchers[key] = EndWatcher(SparkEnds(spark, settings))
        return _watchers[key]
