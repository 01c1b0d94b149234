"""``cooperator worker`` with a runtime that is warm some time after its start: ``slow_worker.py MS FILE …``.

When it is warm it writes the time (ms since the epoch) to the file. Earlier starts wait, as for a JVM.
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

WARM_UP_MS, WARM_FILE = int(sys.argv.pop(1)), Path(sys.argv.pop(1))


class SlowRuntime(InlineRuntime):
    def __init__(self, settings: RuntimeSettings, listener: RuntimeListener) -> None:
        super().__init__(settings, listener)
        self._up = threading.Event()

    def warm_up(self) -> bool:
        timer = threading.Timer(WARM_UP_MS / 1000, self._is_up)
        timer.daemon = True
        timer.start()
        return True

    def _is_up(self) -> None:
        WARM_FILE.write_text(str(time.time_ns() // 1_000_000))
        self._up.set()
        self._dispatcher.warmed_up()

    def _job(self, spec: TaskSpec, attempt: int, run: Run) -> None:
        while not self._up.wait(0.05):
            if run.cancelled.is_set():
                raise Cancelled
        super()._job(spec, attempt, run)


agent.InlineRuntime = SlowRuntime  # type: ignore[misc, attr-defined]
main()
