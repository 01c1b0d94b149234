"""A test run for ``test_leftovers``: it starts processes in every way that there is.

    pytest -p tests.harness.nested_run tests/harness/nested_run.py

The process of each way writes its number to a file in the current directory, ignores polite signals, and
stays.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.harness.runs import begin_run
from tests.harness.support import eventually

END: Final = "COOPERATOR_NESTED_END"
"""The environment variable that chooses the end of the test."""
STAY_S: Final = 120
PIDS: Final = Path("pids")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if cleaned := begin_run():
        config.get_terminal_writer().write(cleaned)


def stay(way: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (PIDS / f".{way}").write_text(str(os.getpid()))
    (PIDS / f".{way}").rename(PIDS / way)
    time.sleep(STAY_S)


def execute(way: str, *before: str, new_session: bool = False) -> None:
    program = "import sys; from tests.harness.nested_run import stay; stay(sys.argv[1])"
    subprocess.Popen([*before, sys.executable, "-c", program, way], start_new_session=new_session)


def fork(act: Callable[[], object]) -> None:
    if os.fork() == 0:
        try:
            act()
        finally:
            os._exit(0)


def fork_twice(act: Callable[[], object]) -> None:
    """As daemons are: a session of its own, no parent, and nothing open."""

    def leave() -> None:
        os.setsid()
        fork(detach)

    def detach() -> None:
        os.closerange(0, 1024)
        act()

    fork(leave)
    os.wait()


WAYS: Final[dict[str, Callable[[str], object]]] = {
    "executed": execute,
    "executed, in a session": lambda way: execute(way, new_session=True),
    "executed, without an environment": lambda way: execute(
        way, "sh", "-c", 'env -i PYTHONPATH="$PYTHONPATH" "$@"; true', "sh"
    ),
    "forked": lambda way: fork(lambda: stay(way)),
    "forked, a daemon": lambda way: fork_twice(lambda: stay(way)),
    "forked, then executed, a daemon": lambda way: fork_twice(lambda: execute(way)),
}


def started() -> dict[str, int]:
    """The processes by their ways."""
    return {path.name: int(path.read_text()) for path in PIDS.glob("[!.]*")}


def test_processes_in_all_ways() -> None:
    PIDS.mkdir()
    tempfile.mkdtemp()
    for way, start in WAYS.items():
        start(way)
    eventually(lambda: set(started()) == set(WAYS), 60, "all processes stay")
    Path("ready").touch()
    match os.environ[END]:
        case "fails":
            raise AssertionError
        case "kills its process":
            os.kill(os.getpid(), signal.SIGKILL)
        case "waits":
            time.sleep(STAY_S)


def test_nothing() -> None:
    """It lets a run begin, and end."""
