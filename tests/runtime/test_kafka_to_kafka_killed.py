"""Members that are killed or freeze in mid-stream neither lose nor double a record, without a checkpoint."""

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cooperator.connectors.microbatch.ranges import Partition
from cooperator.local.broker import EmbeddedBroker
from tests.harness.support import eventually
from tests.microbatch.cluster import Cluster
from tests.runtime.spark_bench import member

RECORDS = 4_000

pytestmark = pytest.mark.long("tests/guarantees/test_guarantees.py::test_the_sink_contains_the_input")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("sql", ["", "SELECT value FROM input"], ids=["in Spark's plan", "collected"])
def test_each_record_is_there_once_after_a_kill_and_a_freeze(
    broker: EmbeddedBroker, tmp_path: Path, unique: str, sql: str
) -> None:
    cluster, target = Cluster(broker.bootstrap_servers), Partition(f"{unique}-out", 0)
    units = cluster.create(unique, 3)
    cluster.create(target.topic, 1)
    producer = Producer(cluster.client)
    for number in range(RECORDS):
        producer.produce(unique, b"%d" % number, partition=number % 3)
    assert producer.flush(60) == 0
    config = {
        "connector.class": "kafka-to-kafka",
        "topics": unique,
        "topic": target.topic,
        "trigger.interval.ms": "50",
        "max.offsets.per.trigger": "10",
        "task.units": ",".join(map(str, units)),
        **({"transform.sql": sql, "errors.tolerance": "all"} if sql else {}),
    }
    if sql:
        config["max.offsets.per.trigger"] = "60"

    def settings(life: str, generation: int) -> dict[str, object]:
        """Nothing is shared between these processes but the broker."""
        return {
            "checkpoints": str(tmp_path / life / "checkpoints"),
            "state_dir": str(tmp_path / life / "state"),
            "group_id": unique,
            "bootstrap_servers": broker.bootstrap_servers,
            "incarnation": life,
            "epoch": [1, generation],
            "tasks": [[unique, 0, config]],
            "heap_mb": 512,
        }

    def flows() -> None:
        before = cluster.end(target)
        eventually(lambda: cluster.end(target) > before + 100, 120, "it copies")

    log, frozen_log = tmp_path / "log", tmp_path / "frozen.log"
    with member(settings("killed", 1), log):
        flows()
    with member(settings("frozen", 2), frozen_log) as group:
        flows()
        os.killpg(group, signal.SIGSTOP)
        assert sum(there(cluster, target).values()) < RECORDS, "it was not stopped in mid-stream"
        with member(settings("last", 3), log):
            wanted: Counter[Any] = Counter(b"%d" % number for number in range(RECORDS))
            eventually(lambda: there(cluster, target).total() >= RECORDS, 200, "everything is there")
            os.killpg(group, signal.SIGCONT)
            eventually(lambda: "is claimed by attempt 1-3-1-" in frozen_log.read_text(), 60, "it is refused")
            cluster.produce(units[0], [b"more"])
            wanted[b"more"] = 1
            eventually(lambda: there(cluster, target) == wanted, 60)
    assert "failed" not in log.read_text()


def there(cluster: Cluster, target: Partition) -> Counter[Any]:
    return Counter(each.value for each in cluster.read(target.topic))
