"""The runtime of a member: the engine with all installed connectors, and a Spark session."""

import logging
import threading
import time
from typing import TYPE_CHECKING

from cooperator.connectors import find
from cooperator.connectors.server import SCHEME
from cooperator.runtime.api import RuntimeListener, RuntimeSettings
from cooperator.runtime.engine import Engine
from cooperator.runtime.session import SparkHost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_RETRY_S = 30.0
"""The delay after a failed start: long enough that retries do not keep the machine busy."""


class SparkRuntime(Engine):
    """A ``Runtime`` that runs every installed connector.

    Spark starts with the first task that needs it, or with ``warm_up``, so that the first assignment finds it
    up. The result of the newest start is reported, whatever caused it.
    """

    def __init__(
        self, settings: RuntimeSettings, listener: RuntimeListener, retry_s: float = _RETRY_S
    ) -> None:
        self._host = SparkHost(settings, on_start=self._started)
        self._is_remote = settings.spark_conf.get("spark.master", "").startswith(SCHEME)
        self._retry_s = retry_s
        self._retry: threading.Timer | None = None
        super().__init__(settings, listener, find, self.session)

    def warm_up(self) -> bool:
        """Starts the session in the background, unless queries run elsewhere."""
        if not self._is_remote:
            self._host.begin()
        return not self._is_remote

    def session(self, cancelled: threading.Event) -> "SparkSession":
        """Returns the session once it is up; raises ``Cancelled`` when the event is set first."""
        return self._host.session(cancelled)

    def close(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        over = super().close(timeout_s)
        if self._retry is not None:
            self._retry.cancel()
        self._host.close(max(1.0, deadline - time.monotonic()))
        return over

    def _started(self, error: Exception | None) -> None:
        if error is None:
            self._dispatcher.warmed_up()
            return
        self._dispatcher.warm_up_failed()
        with self._lock:
            if not self._closed:
                if self._retry is not None:
                    self._retry.cancel()  # tasks have started it meanwhile
                log.info("Spark will be restarted in %g s, or with the next task", self._retry_s)
                self._retry = threading.Timer(self._retry_s, self._host.begin)
                self._retry.daemon = True
                self._retry.start()
