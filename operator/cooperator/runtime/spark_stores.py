"""Stores of learners in the member's JVM: where a query that starts there finds them (``java/``,
``LearnedStore``)."""

import logging
import shutil
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cooperator.connectors.fence import DIRECTORY as FENCE
from cooperator.connectors.learned_state import NotLearnable, StoreKey, StoreVersion
from cooperator.connectors.offsets.unit_log import WITH_STATE, recorded_settings
from cooperator.connectors.places import Place, uri
from cooperator.connectors.query import FILE_MANAGER
from cooperator.connectors.stateful import FORMAT, LEARNED, PROVIDER, STATE
from cooperator.connectors.units import checkpoint
from cooperator.model import TaskId
from cooperator.runtime.learners import Tell
from cooperator.runtime.unit_learner import UnitLearner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_SAID_CHARS: Final = 200
_REHEARSAL_S: Final = 30
_NOBODY: Final = "a learner of state"
"""A claim that no attempt has: the fence puts no file of a learner in place."""


class SparkUnits:
    """Makes the learners of a task's units.

    ``master`` is Spark's, ``checkpoints`` the place of all checkpoints; ``session`` returns the member's, or
    raises ``Cancelled`` when its event is set first.
    """

    def __init__(
        self,
        master: str,
        checkpoints: Callable[[], Place],
        session: "Callable[[threading.Event], SparkSession]",
    ) -> None:
        self._master = master
        self._checkpoints = checkpoints
        self._session = session
        self._lock = threading.Lock()
        self._rehearsed: SparkSession | None = None

    def __call__(
        self, task: TaskId, config: Mapping[str, str], local: Path, cancelled: threading.Event, tell: Tell
    ) -> list[UnitLearner]:
        if self._master and not self._master.startswith("local"):
            raise NotLearnable(
                f"spec.spark.conf, spark.master {self._master!r}: queries keep their state in executors "
                f"elsewhere, so that no member can learn that of {task}; use a Worker without spark.master"
            )
        units = [unit for unit in config.get("task.units", "").split(",") if unit]
        root = self._checkpoints()
        places = [checkpoint(root, task.connector, unit) for unit in units]
        return [
            UnitLearner(place, local / f"{n}", partial(self._store, place, cancelled), partial(tell, n))
            for n, place in enumerate(places)
        ]

    def _store(self, place: Place, cancelled: threading.Event, key: StoreKey, local: Path) -> "SparkStore":
        member: Any = self._session(cancelled)
        self._rehearse(member, local.parent / "rehearsal")
        session = member.newSession()
        for name, value in recorded_settings(place).items():
            session.conf.set(name, value)
        session.conf.set(FORMAT, str(WITH_STATE))
        session.conf.set(*FILE_MANAGER)
        session.conf.set("cooperator.fence.directory", str(place / FENCE))
        session.conf.set("cooperator.fence.claim", _NOBODY)
        made = member.sparkContext._jvm.dev.cooperator.spark.LearnedStore(
            session._jsparkSession, f"{uri(place)}/{STATE}", *key, str(local)
        )
        return SparkStore(made)

    def _rehearse(self, member: "SparkSession", local: Path) -> None:
        """Runs a small query with state once in each JVM: the first one takes seconds to load its classes."""
        with self._lock:
            if self._rehearsed is member:
                return
            self._rehearsed = member
            try:
                rehearse(member, local)
            except Exception as error:
                log.info(
                    "the first query with state will load its classes itself: %s", f"{error}"[:_SAID_CHARS]
                )
            finally:
                shutil.rmtree(local, ignore_errors=True)


def rehearse(member: "SparkSession", local: Path) -> None:
    """Counts a few rows in a query of one batch, whose checkpoint is below ``local``."""
    session = member.newSession()
    session.conf.set(FORMAT, str(WITH_STATE))
    session.conf.set(PROVIDER, LEARNED)
    session.conf.set(*FILE_MANAGER)
    rows = session.readStream.format("rate-micro-batch").options(rowsPerBatch=10, numPartitions=1).load()
    counts = rows.groupBy("value").count().writeStream.format("noop").outputMode("update")
    query = counts.option("checkpointLocation", str(local)).trigger(availableNow=True).start()
    query.awaitTermination(_REHEARSAL_S)
    query.stop()


class SparkStore:
    """A ``StoreCopy`` in the JVM."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def follow(self, version: StoreVersion) -> None:
        self._made.follow(*version)

    def is_taken(self) -> bool:
        try:
            return bool(self._made.isTaken())
        except Exception:
            return False  # its JVM has ended

    def close(self) -> None:
        try:
            self._made.close()
        except Exception as error:
            log.info("a learned store is not closed, since its JVM has ended: %s", f"{error}"[:_SAID_CHARS])
