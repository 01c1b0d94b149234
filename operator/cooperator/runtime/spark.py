"""The runtime of a member: the engine over all installed connectors, and a Spark session."""

import threading
import time
from typing import TYPE_CHECKING

from cooperator.runtime.api import RuntimeListener, RuntimeSettings
from cooperator.runtime.connectors import find
from cooperator.runtime.connectors.remote import SCHEME
from cooperator.runtime.engine import Engine
from cooperator.runtime.session import SparkHost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkRuntime(Engine):
    """A ``Runtime`` that runs every installed connector. Spark starts with the first task that needs it,
    or with ``warm_up``, so that the first assignment finds it up."""

    def __init__(self, settings: RuntimeSettings, listener: RuntimeListener) -> None:
        self._host = SparkHost(settings)
        self._is_remote = settings.spark_conf.get("spark.master", "").startswith(SCHEME)
        super().__init__(settings, listener, find, self.session)

    def warm_up(self) -> None:
        """Starts the session in the background, where queries run in it."""
        if not self._is_remote:
            self._host.begin()

    def session(self, cancelled: threading.Event) -> "SparkSession":
        """The session, once it is up; ``Cancelled`` when the event is set first."""
        return self._host.session(cancelled)

    def close(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        over = super().close(timeout_s)
        self._host.close(max(1.0, deadline - time.monotonic()))
        return over
