"""A task on a real cluster: Spark batches, and positions in a topic, without claims."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Self

from cooperator.connectors.microbatch.batches import Owned, PositionRecord, Stand
from cooperator.connectors.microbatch.claims import TransactionalIds
from cooperator.connectors.microbatch.ends import EndWatcher
from cooperator.connectors.microbatch.loop import TaskLoop
from cooperator.connectors.microbatch.ranges import Grouping, Limits, Partition
from cooperator.connectors.microbatch.spark_batches import BatchSource, BatchTarget, SparkBatches, SparkEnds
from tests.microbatch.cluster import Cluster
from tests.microbatch.fakes import from_zero

log = logging.getLogger(__name__)
_UNLIMITED = Limits(100_000, 100_000)


class TopicOwnership:
    """Reads positions from their topic. There are no claims: nobody else writes the units of a test."""

    def __init__(self, cluster: Cluster, topic: str, batches: SparkBatches) -> None:
        self._cluster, self._topic, self._batches = cluster, topic, batches
        self.sessions = 0
        self.recoveries = 0

    def claim(self) -> Owned:
        self.sessions += 1
        self._batches.open(f"session {self.sessions}")
        positions = {
            Partition.of_unit(key.decode()): Stand(int(value))
            for key, value in self._cluster.last_values(self._topic).items()
        }
        return Owned(positions, f"session {self.sessions}")

    def recover(self) -> Owned:
        self.recoveries += 1
        return self.claim()

    def record(self, partition: Partition, stand: Stand) -> PositionRecord:
        return PositionRecord(str(partition), str(stand.next))


def copy_to(topic: str, *columns: str, where: str = "true") -> Callable[[Any], Any]:
    """A transform that copies records to a topic."""
    return lambda rows: rows.selectExpr(f"'{topic}' AS topic", *(columns or ("key", "value"))).where(where)


class LoopThread:
    """Runs a task's loop in a thread, as a context manager. ``error`` is what ended it."""

    loop: TaskLoop
    watcher: EndWatcher

    def __init__(self) -> None:
        self.said: list[str] = []
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.loop.run()
        except BaseException as error:
            self.error = error

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if any(error):
            log.error("the task: %s %s %s", self.error, self.said, self.loop.counts)
        self.loop.stop()
        self.thread.join(60)
        self.watcher.close()
        assert not self.thread.is_alive()


class Task(LoopThread):
    """A loop that copies ``units`` to the topic ``output``, with positions in ``positions``.

    ``prefix`` is that of transactional ids; with one, the caller creates the topic of positions.
    """

    def __init__(
        self,
        session: Any,
        cluster: Cluster,
        name: str,
        units: Sequence[Partition],
        transform: Callable[[Any], Any] | None = None,
        *,
        limits: Limits = _UNLIMITED,
        outputs: int = 1,
        slots: int = 2,
        slot_size: int = 5_000,
        settings: dict[str, str] | None = None,
        prefix: str = "",
    ) -> None:
        super().__init__()
        self.output, self.positions = f"{name}-out", f"{name}-positions"
        self.cluster = cluster
        if not prefix:
            cluster.create(self.positions, cleanup_policy="compact")
        cluster.create(self.output, outputs)
        self.slots = TransactionalIds(prefix or f"{name}-id", slots)
        target = BatchTarget(self.slots, self.positions, {**cluster.java, **(settings or {})})
        source = BatchSource(cluster.java, pool=name)
        self.batches = SparkBatches(session, source, transform or copy_to(self.output), target)
        self.ownership: Any = TopicOwnership(cluster, self.positions, self.batches)
        self.watcher = EndWatcher(SparkEnds(session, cluster.java))
        self.loop = TaskLoop(
            units=units,
            ownership=self.ownership,
            batches=self.batches,
            ends=self.watcher.subscribe(units, 100),
            limits=limits,
            grouping=Grouping(slots, slot_size),
            first_offsets=from_zero,
            say=self.said.append,
        )

    def reached(self) -> dict[Partition, int]:
        """The committed positions."""
        return {
            Partition.of_unit(key.decode()): int(value)
            for key, value in self.cluster.last_values(self.positions).items()
        }

    def values(self) -> list[str]:
        """The committed values of the output, sorted."""
        return sorted((each.value or b"").decode() for each in self.cluster.read(self.output))
