"""``cooperator worker`` with a runtime that is warm when a test says so: ``slow_worker.py SAID WARM …``.

It waits for the file SAID, and writes the time (ms since the epoch) at which it is warm to the file WARM.
Earlier starts wait, as for a JVM.
"""

import sys
import threading
import time
from pathlib import Path

from cooperator.agent import main as agent
from cooperator.cli import main
from cooperator.connectors.base import Cancelled
from cooperator.runtime import RuntimeListener, RuntimeSettings, TaskSpec
from cooperator.runtime.attempt import Run
from cooperator.runtime.inline import InlineRuntime

SAID, WARM = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))
_LOOK_S = 0.05


class SlowRuntime(InlineRuntime):
    def __init__(self, settings: RuntimeSettings, listener: RuntimeListener) -> None:
        super().__init__(settings, listener)
        self._up = threading.Event()

    def warm_up(self) -> bool:
        threading.Thread(target=self._wait, daemon=True).start()
        return True

    def _wait(self) -> None:
        while not SAID.exists():
            time.sleep(_LOOK_S)
        WARM.write_text(str(time.time_ns() // 1_000_000))
        self._up.set()
        self._dispatcher.warmed_up()

    def _job(self, spec: TaskSpec, attempt: int, run: Run) -> None:
        while not self._up.wait(_LOOK_S):
            if run.cancelled.is_set():
                raise Cancelled
        super()._job(spec, attempt, run)


agent.InlineRuntime = SlowRuntime  # type: ignore[misc, attr-defined]
main()
