"""A runtime without Spark: the same engine, with units that only write a journal."""

import threading
from typing import Any, NoReturn

from cooperator.connectors.base import Connector
from cooperator.connectors.noop import Noop
from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.state_query import StateError
from cooperator.runtime.api import RuntimeListener, RuntimeSettings
from cooperator.runtime.engine import Engine


class InlineRuntime(Engine):
    """A ``Runtime`` that runs only connectors of class ``noop``; it starts instantly."""

    def __init__(self, settings: RuntimeSettings, listener: RuntimeListener) -> None:
        noop = Noop(settings.journal)

        def find(class_name: str) -> Connector[Any]:
            if class_name != "noop":
                remedy = "use noop, or runtime: spark"
                raise OptionError(
                    [
                        Problem(
                            "connector.class",
                            class_name,
                            "needs Spark, which this runtime does not have",
                            remedy,
                        )
                    ]
                )
            return noop

        super().__init__(settings, listener, find, _no_session)


def _no_session(cancelled: threading.Event) -> NoReturn:
    raise StateError("members with runtime: inline have no Spark to read state with: use runtime: spark")
