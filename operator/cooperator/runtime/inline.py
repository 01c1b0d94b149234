"""A runtime without Spark: the same engine, and units that only write a journal."""

import threading
from typing import Any, NoReturn

from cooperator.runtime.api import RuntimeListener, RuntimeSettings
from cooperator.runtime.connectors.base import Connector
from cooperator.runtime.connectors.noop import Noop
from cooperator.runtime.engine import Engine
from cooperator.runtime.options import OptionError, Problem


class InlineRuntime(Engine):
    """A ``Runtime`` that runs connectors of class ``noop`` and no others; starts in no time."""

    def __init__(self, settings: RuntimeSettings, listener: RuntimeListener) -> None:
        noop = Noop(settings.journal)

        def find(class_name: str) -> Connector[Any]:
            if class_name != "noop":
                remedy = "use noop, or runtime: spark"
                raise OptionError(
                    [Problem("connector.class", class_name, "needs Spark, and this runtime has none", remedy)]
                )
            return noop

        super().__init__(settings, listener, find, _no_session)


def _no_session(cancelled: threading.Event) -> NoReturn:
    raise RuntimeError("this runtime has no Spark session; use runtime: spark")
