"""One incarnation of a member, for the suite: ``python -m cooperator.runtime.conformance_member SETTINGS``.

``SETTINGS`` is a JSON object; so is each line of the standard input (an order) and of the output (an event of
the runtime). The runtime in it is the real one. The process ends when its input does.
"""

import faulthandler
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from cooperator.connectors import find
from cooperator.connectors.options import resolved_options
from cooperator.log_lines import log_to_stderr
from cooperator.model import Epoch, TaskId
from cooperator.runtime import RuntimeSettings, TaskSpec
from cooperator.runtime.spark import SparkRuntime

_CLOSE_S = 30
_STUCK_S = 45


class RecordingListener:
    """Writes every event to the standard output."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def write(self, event: str, **more: Any) -> None:
        with self._lock:
            sys.stdout.write(f"{json.dumps({'event': event, **more})}\n")
            sys.stdout.flush()

    def started(self, task: TaskId, attempt: int) -> None:
        self.write("started", task=task.task, attempt=attempt)

    def paused(self, task: TaskId, attempt: int) -> None:
        self.write("paused", task=task.task, attempt=attempt)

    def stopped(self, task: TaskId, attempt: int) -> None:
        self.write("stopped", task=task.task, attempt=attempt)

    def failed(self, task: TaskId, attempt: int, trace: str, reason: str = "") -> None:
        self.write("failed", task=task.task, attempt=attempt, trace=trace)

    def progress(self, task: TaskId, attempt: int, text: str) -> None:
        self.write("progress", task=task.task, attempt=attempt, text=text)

    def units_changed(self, connector: str, task_configs: list[dict[str, str]]) -> None:
        self.write("units_changed", configs=task_configs)

    def warmed_up(self) -> None: ...
    def warm_up_failed(self) -> None: ...


def main() -> None:
    said = json.loads(sys.argv[1])
    log_to_stderr()
    settings = RuntimeSettings(
        member="conformance-0",
        incarnation=said["incarnation"],
        checkpoints=Path(said["checkpoints"]),
        state_dir=Path(said["state_dir"]),
        group_id=said["group_id"],
        bootstrap_servers=said["bootstrap_servers"],
        heap_mb=512,
        # In a conformance trial, one author provides both the class and the files that its options refer to.
        allowed_files=("/",),
    )
    listener = RecordingListener()
    runtime = SparkRuntime(settings, listener)
    for line in sys.stdin:
        order = json.loads(line)
        match order["order"]:
            case "start":
                task = TaskId(said["connector"], order["task"])
                spec = TaskSpec(task, order["config"], epoch=Epoch(*order["epoch"]))
                runtime.start(spec, order["attempt"])
            case "stop":
                runtime.stop(TaskId(said["connector"], order["task"]), order["attempt"])
            case "units":
                listener.write("units", units=_units(order["config"], settings))
    # The suite reports these stacks if the process has not ended soon after them.
    faulthandler.dump_traceback_later(_STUCK_S)
    runtime.close(_CLOSE_S)
    # Like a member, this process does not wait for threads of clients and libraries.
    os._exit(0)


def _units(config: dict[str, str], settings: RuntimeSettings) -> list[str]:
    """Returns the units that an instance would find, without running a task."""
    connector = find(config["connector.class"])
    options, _, _ = resolved_options(connector.options, config, settings.resolver())
    return list(connector.units(options, lambda text: None))


if __name__ == "__main__":
    main()
