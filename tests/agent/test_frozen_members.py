"""The watchdog names the task whose thread has frozen its member, and nobody without that evidence."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cooperator.agent.pod import LAST_WORDS
from cooperator.agent.watch_process import culprit
from cooperator.local import members
from cooperator.local.members import MemberProcesses
from cooperator.local.platform import pod
from cooperator.model import TaskId, thread_name
from cooperator.model.thread_names import frozen_by, of_digest, task_digest
from cooperator.pool import End, EndCause
from tests.harness.support import eventually

CALM, ICE = TaskId("calm", 0), TaskId("ice", 3)

MEMBER = """
import ctypes, os, sys, threading, time
from collections import deque
from functools import partial
from itertools import repeat
from pathlib import Path
from cooperator.agent.pod import last_words
from cooperator.agent.watchdog import ProcessWatchdog, own_process_group
from cooperator.model import TaskId, thread_name
from cooperator.supervision import name_native_thread

watchdog = ProcessWatchdog(own_process_group(), last_words())
has_begun = threading.Barrier(3)

def task(connector, number, act):
    name_native_thread(partial(thread_name, TaskId(connector, number)))
    has_begun.wait()
    act()

def loops():  # It keeps the interpreter lock.
    deque(repeat(0), maxlen=0)

def inherits():
    threading.Thread(target=loops, daemon=True).start()
    time.sleep(600)

def sleeps():
    ctypes.PyDLL(None).sleep(600)

def computes():
    while True:
        pass

for connector, number, act in (("calm", 0, lambda: time.sleep(600)), ("ice", 3, globals()[sys.argv[1]])):
    threading.Thread(target=task, args=(connector, number, act), daemon=True).start()
watchdog.watch(int(time.monotonic() * 1000) + 4_000)
has_begun.wait()
time.sleep(600)
"""


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Runs a member in which a thread of ``ice-3`` acts; returns what its watchdog wrote."""
    words = tmp_path / "last-words"
    words.write_text("lake-0/1\n")
    started: list[subprocess.Popen[bytes]] = []

    def run(act: str) -> str:
        environment = {**os.environ, LAST_WORDS: str(words)}
        process = subprocess.Popen(
            [sys.executable, "-c", MEMBER, act], env=environment, start_new_session=True
        )
        started.append(process)
        assert process.wait(60) == -signal.SIGKILL
        return words.read_text()

    yield run
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def test_the_task_whose_thread_keeps_the_interpreter_lock_is_named(member: Callable[[str], str]) -> None:
    written = member("loops")
    assert written == f"lake-0/1\nfrozen-by {task_digest(ICE)}\n"
    assert of_digest([CALM, ICE], frozen_by(written)) == {ICE}


@pytest.mark.parametrize("act", ["inherits", "sleeps", "computes"])
def test_without_evidence_of_a_tasks_own_thread_nobody_is_named(
    act: str, member: Callable[[str], str]
) -> None:
    """A thread with an inherited name, one that keeps the lock asleep, and one that gives it away."""
    assert member(act) == "lake-0/1\n"


def test_only_a_thread_that_used_more_than_all_others_is_named() -> None:
    mine, other = (7, thread_name(ICE, 7)), (8, thread_name(CALM, 8))
    assert culprit({mine: 5.0, other: 1.0}, {mine: 7.0, other: 1.1}, 2.0) == task_digest(ICE)
    assert culprit({mine: 5.0, other: 1.0}, {mine: 6.0, other: 2.0}, 2.0) == ""
    assert culprit({mine: 5.0}, {mine: 5.1}, 2.0) == "", "it hardly ran"
    assert culprit({}, {(9, thread_name(ICE, 7)): 2.0}, 2.0) == "", "its name is inherited"
    assert culprit({}, {(7, "python"): 2.0, mine: 0.5}, 2.0) == ""
    assert culprit({}, {}, 2.0) == ""


def test_the_host_of_local_members_reads_who_has_frozen_one(tmp_path: Path) -> None:
    """Each incarnation has last words of its own."""
    processes = MemberProcesses(tmp_path, lambda: time.time_ns() // 1_000_000)
    for text, expected in ((f"frozen-by {task_digest(ICE)}", task_digest(ICE)), ("", "")):
        code = f"import os; open(os.environ[{LAST_WORDS!r}], 'a').write({text!r}); os.kill(os.getpid(), 9)"
        processes.create("lake-0", "r1", lambda incarnation, code=code: [sys.executable, "-c", code])  # type: ignore[misc]
        eventually(lambda: processes.observe()["lake-0"].ended, 60)
        seen = pod(processes.observe()["lake-0"])
        assert (seen.end, seen.frozen_by) == (End(seen.incarnation, EndCause.KILLED), expected)
        assert members.read_incarnation(tmp_path / "lake-0") == processes.observe()["lake-0"]
