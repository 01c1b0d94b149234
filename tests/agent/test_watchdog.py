"""The watchdog kills a whole process group at its deadline, or when its owner has died, and never
otherwise."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.harness.support import eventually, freeze

WATCHED = """
import os, subprocess, sys, time
from cooperator.agent.watchdog import ProcessWatchdog, own_process_group
group = own_process_group()
watchdog = ProcessWatchdog(group)
jvm = subprocess.Popen(["sleep", "600"])
print(group, jvm.pid, watchdog._process.pid, flush=True)
for line in sys.stdin:
    eval(line)
    print("done", flush=True)
time.sleep(600)
"""


class Watched:
    """A process with a watchdog and a child that stands for its JVM; ``say`` evaluates an expression in
    it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WATCHED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.group, self.jvm, self.watchdog = map(int, self.process.stdout.readline().split())

    def say(self, expression: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def incarnations(self) -> bool:
        return self.process.poll() is None and is_alive(self.jvm)

    def is_gone(self) -> bool:
        return self.process.poll() is not None and not is_alive(self.jvm) and not is_alive(self.watchdog)


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched()
    yield watched
    if not watched.is_gone():
        os.killpg(watched.group, signal.SIGKILL)
    watched.process.wait(10)


def in_ms(ms: int) -> str:
    return f"watchdog.watch({int(time.monotonic() * 1000) + ms})"


def test_it_leads_a_group_of_its_own(watched: Watched) -> None:
    assert watched.group == watched.process.pid
    assert os.getpgid(watched.jvm) == os.getpgid(watched.watchdog) == watched.group != os.getpgrp()


def test_the_death_of_the_process_is_the_death_of_its_group(watched: Watched) -> None:
    os.kill(watched.process.pid, signal.SIGKILL)
    eventually(watched.is_gone, 10)


def test_a_process_that_hangs_is_killed_at_its_time(watched: Watched) -> None:
    started = time.monotonic()
    watched.say(in_ms(500))
    freeze(watched.process.pid)
    eventually(watched.is_gone, 10)
    assert time.monotonic() - started >= 0.5


def test_the_last_instruction_counts(watched: Watched) -> None:
    watched.say(in_ms(300))
    watched.say("watchdog.watch(None)")
    watched.say(in_ms(300))
    watched.say(in_ms(2_000))
    until = time.monotonic() + 1.0
    eventually(lambda: time.monotonic() > until or not watched.incarnations())
    assert watched.incarnations()
    eventually(watched.is_gone, 10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_watchdog_ignores_termination_signals(watched: Watched, number: signal.Signals) -> None:
    os.kill(watched.watchdog, number)
    os.kill(watched.process.pid, signal.SIGKILL)
    eventually(watched.is_gone, 10)


def test_a_watchdog_that_has_died_is_replaced(watched: Watched) -> None:
    os.kill(watched.watchdog, signal.SIGKILL)
    eventually(lambda: not is_alive(watched.watchdog), 10)
    watched.say(in_ms(200))
    eventually(watched.is_gone, 10)


def test_after_an_orderly_end_nothing_is_killed(watched: Watched) -> None:
    watched.say(in_ms(300))
    watched.say("watchdog.close()")
    assert not is_alive(watched.watchdog)
    os.kill(watched.process.pid, signal.SIGKILL)
    watched.process.wait(10)
    assert is_alive(watched.jvm)
    os.kill(watched.jvm, signal.SIGKILL)
    eventually(watched.is_gone, 10)


def test_the_watchdog_kills_at_once_on_request(watched: Watched) -> None:
    kill: Callable[[str], None] = watched.say
    with pytest.raises(AssertionError):
        kill("watchdog.kill()")
    eventually(watched.is_gone, 10)
