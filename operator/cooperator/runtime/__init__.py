"""Tasks as PySpark Structured Streaming queries, behind start and stop.

This package holds the interface that an agent drives (``api``), the engine that runs tasks on threads, the
jobs of tasks and instances, and the Spark session. It may import ``model``, ``artifacts`` and ``connectors``.
It imports pyspark only inside functions, so that options can be checked where no Spark is installed.
"""

from cooperator.runtime.api import Runtime, RuntimeListener, RuntimeSettings, TaskSpec

__all__ = ["Runtime", "RuntimeListener", "RuntimeSettings", "TaskSpec"]
