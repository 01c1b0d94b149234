"""Deaths of supervised threads are detected and end the process."""

import ast
import ctypes
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cooperator.controller.api.client import Api
from cooperator.controller.api.operator_lease import OperatorLeaseKeeper, OperatorLeaseTerms
from cooperator.leader.endpoint import Endpoint
from cooperator.logs.callbacks import CallbackThreads
from cooperator.supervision import ThreadSupervisor, deaths
from tests.harness.support import eventually

SOURCES = Path(__file__).parents[2] / "operator" / "cooperator"
OWN_THREADS = {
    # Each waits for others of its kind, and somebody joins it.
    ("controller/main.py", "_stop"),
    ("runtime/jobs.py", "unit.stop"),
    ("runtime/session.py", "session.stop"),
    # Their exceptions are stored, and raised when their unit or task is polled.
    ("connectors/microbatch/mirror.py", "commit"),
    ("connectors/microbatch/task.py", "self._run"),
    ("runtime/jobs.py", "self._open"),
    ("runtime/session.py", "self._start"),
    # The next list of what is to be learned begins those anew that have died.
    ("runtime/learners.py", "self._live"),
    # Parts of tests: the suite's own process, and logs in memory.
    ("connectors/conformance/process.py", "self._listen"),
    ("logs/memory.py", "self._run"),
    ("supervision/threads.py", "run"),
    # It closes a client, which may hang: a supervised thread waits for it, and abandons it.
    ("supervision/threads.py", "end"),
}
"""Threads that no supervisor starts: file and target."""


class Boom(BaseException):
    """No handler of exceptions catches it."""


def test_every_thread_on_which_a_process_depends_is_supervised() -> None:
    found = set()
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("threading.Thread", "Thread"):
                target = next(ast.unparse(word.value) for word in node.keywords if word.arg == "target")
                found.add((str(path.relative_to(SOURCES)), target))
    assert found == OWN_THREADS


class TestSupervisor:
    def test_a_death_is_kept_and_told_and_an_end_is_none(self) -> None:
        supervisor, reported = ThreadSupervisor(), []
        supervisor.on_death = reported.append

        def fails(text: str) -> None:
            raise RuntimeError(text)

        for thread in (supervisor.thread(lambda: None, "ends"), supervisor.thread(fails, "fails", "oh")):
            thread.start()
            thread.join()
        assert [str(death) for death in supervisor.deaths] == [
            "the thread 'fails' has died: RuntimeError: oh"
        ]
        assert reported == list(supervisor.deaths)

    def test_a_process_that_asked_for_it_ends_with_its_thread(self) -> None:
        program = """
import time
from cooperator.supervision import supervise_process, supervised
supervise_process()
supervised(lambda: 1 / 0, "divider").start()
time.sleep(60)
"""
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
        assert ended.returncode == 70
        assert "the thread 'divider' has died: ZeroDivisionError" in ended.stderr


class LeaseApi(Api):
    """An API server with one Lease. ``fails``: what the next requests raise."""

    def __init__(self) -> None:
        self.lease: dict[str, object] | None = None
        self.fails: list[Exception] = []
        self.renewals = 0

    def get(self, *_: object) -> dict[str, object]:
        if self.fails:
            raise self.fails.pop(0)
        return dict(self.lease or {"metadata": {}, "spec": {}})

    def replace(self, _: object, lease: dict[str, object]) -> None:  # type: ignore[override]
        self.lease = lease
        self.renewals += 1


@pytest.fixture
def lease_api() -> LeaseApi:
    return LeaseApi()


@pytest.fixture
def keeper(lease_api: LeaseApi) -> Iterator[OperatorLeaseKeeper]:
    terms = OperatorLeaseTerms("default", "cooperator", "me", duration_ms=3_000)
    keeper = OperatorLeaseKeeper(lease_api, terms, lambda: None)
    yield keeper
    keeper.release()


class TestLease:
    def test_a_renewal_follows_whatever_the_previous_one_raised(
        self, lease_api: LeaseApi, keeper: OperatorLeaseKeeper
    ) -> None:
        lease_api.fails = [OSError("the token's file is away")]
        assert keeper.acquire(threading.Event()), "and so does the next try to take it"
        lease_api.fails = [ValueError("a proxy's page is no JSON")]
        before = lease_api.renewals
        eventually(lambda: not lease_api.fails and lease_api.renewals > before + 1, 20)
        assert keeper.holds

    def test_a_dead_renewal_is_a_death(self, lease_api: LeaseApi, keeper: OperatorLeaseKeeper) -> None:
        assert keeper.acquire(threading.Event())
        kill("lease")


def kill(name: str) -> None:
    """Let the thread ``name`` die of an exception that nothing catches, and wait until its death is known."""
    before = len([death for death in deaths() if death.thread == name])
    thread = next(each for each in threading.enumerate() if each.name == name)
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Boom))
    eventually(
        lambda: len([death for death in deaths() if death.thread == name]) > before, 20, f"{name} dies"
    )


def test_an_endpoint_that_dies_is_a_death() -> None:
    endpoint = Endpoint("127.0.0.1", 0, {})
    endpoint.start()
    known = len(deaths())
    endpoint._loop.call_soon_threadsafe(sys.exit)
    eventually(lambda: [death.thread for death in deaths()[known:]] == ["http-endpoint"], 20)


def test_callbacks_that_die_are_a_death() -> None:
    threads = CallbackThreads("callbacks of a test")

    def dies() -> None:
        raise Boom

    threads.put(threads.executor(), dies, 1)
    eventually(lambda: "callbacks of a test" in {death.thread for death in deaths()}, 20)
