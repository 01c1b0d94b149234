"""Tasks as PySpark Structured Streaming queries, behind start and stop.

What may live here: the interface that an agent drives (``api``), the engine that runs tasks on threads,
the Spark session, options and their checks, the connectors (``connectors/``, found by entry point) and
the recipe by which their output is read. May import ``model`` and ``artifacts``. The only room that
imports pyspark, and only inside functions: options are checked where no Spark is installed.
"""

from cooperator.runtime.api import Runtime, RuntimeListener, RuntimeSettings, TaskSpec
from cooperator.runtime.inline import InlineRuntime

__all__ = ["InlineRuntime", "Runtime", "RuntimeListener", "RuntimeSettings", "TaskSpec"]
