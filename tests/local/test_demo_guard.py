"""Nothing of a demo runs on when the demo has ended, in whatever way."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cooperator.local.daemon import host_pid
from cooperator.local.layout import StateDir
from tests.harness.support import eventually

DAEMON = """
import signal, sys, time
from pathlib import Path
from cooperator.local.daemon import host_lock
from cooperator.local.layout import StateDir
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with host_lock(StateDir(Path(sys.argv[1]))):
    print("runs", flush=True)
    time.sleep(600)
"""
DEMO = """
import subprocess, sys, time
from pathlib import Path
from cooperator.demo.guard import nothing_left
from cooperator.local.layout import StateDir
with nothing_left(StateDir(Path(sys.argv[1]))):
    daemon = [sys.executable, "-c", sys.argv[2], sys.argv[1]]
    subprocess.Popen(daemon, start_new_session=True, stdin=subprocess.DEVNULL)
    time.sleep(600)
"""


LONG = pytest.mark.long("tests/local/test_demo_guard.py::test_a_demo_that_is_ended_takes_its_daemon_along")


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        signal.SIGTERM,
        pytest.param(signal.SIGHUP, marks=LONG),
        pytest.param(signal.SIGINT, marks=LONG),
    ],
)
def test_a_demo_that_is_ended_takes_its_daemon_along(number: signal.Signals, tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    demo = [sys.executable, "-c", DEMO, str(tmp_path), DAEMON]
    with subprocess.Popen(demo, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "runs\n"
        assert host_pid(state) is not None
        process.send_signal(number)
        assert process.wait(60) != 0

        eventually(lambda: host_pid(state) is None, 30, "the daemon ends with the demo")
