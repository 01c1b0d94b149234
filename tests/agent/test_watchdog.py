"""The watchdog kills a whole process group at its deadline, or when its owner has died, and never
otherwise."""

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from cooperator.agent import watch_process
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
        self.begin(expression)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "done\n"

    def begin(self, expression: str) -> None:
        """The process may end, or stand still, before it could say that it is done."""
        assert self.process.stdin is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()

    def incarnations(self) -> bool:
        return self.process.poll() is None and is_alive(self.jvm)

    def is_gone(self) -> bool:
        return self.process.poll() is not None and not is_alive(self.jvm) and not is_alive(self.watchdog)


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def waits(pid: int) -> bool:
    """Whether the process sleeps, and nothing is left in the pipe that it reads."""
    with open(f"/proc/{pid}/stat") as file:
        sleeps = file.read().rpartition(")")[2].split()[0] == "S"
    with open(f"/proc/{pid}/fd/0", "rb") as pipe:
        unread = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return sleeps and unread == bytes(4)


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
    watched.begin(f"({in_ms(500)}, os.kill(os.getpid(), {int(signal.SIGSTOP)}))")
    eventually(watched.is_gone, 10)
    assert time.monotonic() - started >= 0.5


@pytest.mark.parametrize("last", ["watchdog.watch(None)", f"watchdog.watch({2**40})"])
def test_the_last_instruction_counts_however_late_the_watchdog_reads_it(watched: Watched, last: str) -> None:
    freeze(watched.watchdog)
    watched.say(in_ms(100))
    over = time.monotonic() + 0.1
    watched.say(last)
    eventually(lambda: time.monotonic() > over)
    os.kill(watched.watchdog, signal.SIGCONT)
    eventually(lambda: waits(watched.watchdog), what="it has read all that it was told")
    assert watched.incarnations()
    watched.begin(in_ms(100))
    eventually(watched.is_gone, 10)


class LateWatchdog:
    """The watchdog's loop, on a machine that lets it run at ``runs_at_ms`` only, once for each part of what
    it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, told: list[str], runs_at_ms: list[int]) -> None:
        self.told, self.runs_at_ms = told, [0, *runs_at_ms]
        self.killed: list[int] = []
        parts = {
            "time": SimpleNamespace(monotonic=lambda: self.runs_at_ms[0] / 1000),
            "select": SimpleNamespace(select=self._select),
            "os": SimpleNamespace(read=self._read, killpg=lambda group, _: self.killed.append(group)),
            "used_s": lambda pid: {},
        }
        for name, part in parts.items():
            monkeypatch.setattr(watch_process, name, part)
        watch_process.watch(17)

    def _select(self, *asked: object) -> tuple[list[int], list[int], list[int]]:
        return ([0] if self.told else []), [], []

    def _read(self, descriptor: int, count: int) -> bytes:
        del self.runs_at_ms[0]
        return self.told.pop(0).encode()


@pytest.mark.parametrize("newer", ["never\n", "at 9000\n", "alive\nat 9000\n"])
def test_what_has_come_counts_though_the_watchdog_is_late(
    monkeypatch: pytest.MonkeyPatch, newer: str
) -> None:
    """A lease that was renewed in time kills nobody, however long the watchdog has waited for a processor."""
    late = LateWatchdog(monkeypatch, ["at 1000\n", newer, "bye\n"], [5_000, 5_000, 5_000])
    assert late.killed == []


@pytest.mark.parametrize("told", [["at 1000\n"], ["at 1000\n", "alive\n"], ["at 9000\n", "at 1000\n"]])
def test_a_late_watchdog_kills_when_nothing_newer_has_come(
    monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    assert LateWatchdog(monkeypatch, told, [5_000, 5_000]).killed == [17]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_watchdog_ignores_termination_signals(watched: Watched, number: signal.Signals) -> None:
    os.kill(watched.watchdog, number)
    os.kill(watched.process.pid, signal.SIGKILL)
    eventually(watched.is_gone, 10)


def test_a_watchdog_that_has_died_is_replaced(watched: Watched) -> None:
    os.kill(watched.watchdog, signal.SIGKILL)
    eventually(lambda: not is_alive(watched.watchdog), 10)
    watched.begin(in_ms(200))
    eventually(watched.is_gone, 10)


def test_after_an_orderly_end_nothing_is_killed(watched: Watched) -> None:
    watched.say(f"({in_ms(60_000)}, watchdog.close())")
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
