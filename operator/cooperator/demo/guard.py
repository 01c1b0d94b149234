"""Ends the demo's broker, daemon and members however the demo ends.

They are detached, and the daemon starts what has died again, so none of them ends with the demo. A process of
its own waits for the end of a pipe, which the system closes even after kill -9, and kills what is left.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cooperator.local.layout import StateDir
from cooperator.local.lifecycle import kill_everything


@contextmanager
def nothing_left(state: StateDir) -> Iterator[None]:
    """Leaves no process of ``state`` behind, however the block ends; SIGTERM counts as Ctrl-C."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {n: signal.signal(n, interrupt) for n in (signal.SIGTERM, signal.SIGHUP)}
    # Its end of the pipe closes, and is waited for, at the end of the block as well; then it finds nothing.
    with subprocess.Popen(
        [sys.executable, "-m", "cooperator.demo.guard", str(state.root)],
        stdin=subprocess.PIPE,
        # Ctrl-C in the demo's terminal must not end it.
        start_new_session=True,
    ):
        try:
            yield
        finally:
            kill_everything(state)
            for number, handler in before.items():
                signal.signal(number, handler)


if __name__ == "__main__":
    sys.stdin.read()
    kill_everything(StateDir(Path(sys.argv[1])))
