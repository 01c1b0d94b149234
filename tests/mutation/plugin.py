"""A pytest plugin: selects tests, reports each outcome at once, and collects the statements of each test.

It is copied beside the interpreter of a tree, with ``probe``, so that it also works where the tree's commit
has no such module.

A test executes the statements that its pytest process executed while it ran, and while the fixtures of a
wider scope that it names were set up; and all those of every process that lived during the test and descends
from its pytest process, or has an environment without the name of one. A process that several tests share
therefore counts for each of them. A value that the pytest process itself keeps from an earlier test
(``functools.cache``), or a wider fixture that a test asks for by ``getfixturevalue``, counts for the first
test alone.
"""

import base64
import builtins
import json
import os
import time
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

WORKER = "COOPERATOR_MUTATION_WORKER"
"""Equals that of ``probe``, which only recording trees have."""
ANY_WORKER = "any"


class Selection:
    """Tests, given by ids, files and folders."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._entries = {entry.rstrip("/") for entry in entries}

    def __contains__(self, test: str) -> bool:
        parts = test.partition("::")[0].split("/")
        folders = ("/".join(parts[:number]) for number in range(1, len(parts) + 1))
        return test in self._entries or not self._entries.isdisjoint(folders)


def pytest_addoption(parser: pytest.Parser) -> None:
    # Before a conftest imports the program, whose first module maps the process's file.
    os.environ[WORKER] = os.environ.get("PYTEST_XDIST_WORKER", "main")
    group = parser.getgroup("mutation")
    group.addoption("--mutation-tests", type=Path, help="the tests to run, one a line")
    group.addoption("--mutation-outcomes", type=Path, help="append a line for each start and end of a test")
    group.addoption("--mutation-lines", type=Path, help="a folder with an index of files; record statements")


def pytest_configure(config: pytest.Config) -> None:
    if outcomes := config.getoption("--mutation-outcomes"):
        config.pluginmanager.register(Outcomes(outcomes))
    folder = config.getoption("--mutation-lines")
    distributes = config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")
    if folder and not distributes:
        config.pluginmanager.register(Lines(folder))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if listed := config.getoption("--mutation-tests"):
        wanted = Selection(listed.read_text().splitlines())
        folder = config.getoption("--mutation-lines")
        done = Selection(passed_tests(folder / "tests.jsonl") if folder else ())
        chosen = [item for item in items if item.nodeid in wanted and item.nodeid not in done]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


def passed_tests(path: Path) -> Iterator[str]:
    """Yields the tests that are recorded."""
    for line in path.read_text().splitlines() if path.exists() else ():
        record = json.loads(line)
        if record["outcome"] == "passed":
            yield record["test"]


def append(path: Path, record: dict[str, Any]) -> None:
    """Append a line at once, also among other processes."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, f"{json.dumps(record)}\n".encode())
    os.close(descriptor)


class Outcomes:
    """Appends ``started``, then ``passed``, ``failed`` or ``skipped``, for a test, and failed collections."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcome = "passed"

    def _report(self, event: str, node: str) -> None:
        append(self._path, {"event": event, "test": node})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._report("failed", report.nodeid)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._outcome = "passed"
        self._report("started", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._outcome == "passed":
            self._outcome = report.outcome

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._report(self._outcome, nodeid)


class Lines:
    """Appends a record for each test to ``tests.jsonl``: seconds, outcome and compressed bytes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._size = int((folder / "index").read_text().partition("\n")[0])
        self._of_fixtures: dict[pytest.FixtureDef[Any], int] = {}
        self._ended: set[str] = set()
        self._outcome = "passed"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._outcome, began = "passed", time.monotonic()
        self._swap_own(0)
        try:
            return (yield)
        finally:
            seconds = round(time.monotonic() - began, 2)
            executed = self._swap_own(0) | self._of_processes()
            for fixture in fixtures_of(item):
                executed |= self._of_fixtures.get(fixture, 0)
            lines = base64.b64encode(zlib.compress(executed.to_bytes(self._size, "little"))).decode()
            record = {"test": item.nodeid, "seconds": seconds, "outcome": self._outcome, "lines": lines}
            append(self._folder / "tests.jsonl", record)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._outcome == "passed":
            self._outcome = report.outcome

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """Fixtures of a wider scope are set up in one test, for several."""
        if fixturedef.scope == "function":
            return (yield)
        earlier = self._swap_own(0)
        before = {path.name for path in self._folder.iterdir()}
        try:
            return (yield)
        finally:
            own = self._swap_own(0)
            self._swap_own(own | earlier)
            self._of_fixtures[fixturedef] = own | self._of_processes(before)

    def _swap_own(self, new: int) -> int:
        """Returns the bytes of this process, as a number, and replaces them."""
        mapped: Any = getattr(builtins, "__executed__", None)
        if mapped is None:
            return 0
        before = int.from_bytes(mapped[:], "little")
        mapped[:] = new.to_bytes(self._size, "little")
        return before

    def _of_processes(self, before: set[str] | None = None) -> int:
        """Returns the bytes of all processes that lived since the last test, unless ``before`` has them.

        Without ``before``, a test ends: the next one begins after processes that have ended by now.
        """
        executed = 0
        for path in self._folder.iterdir():
            worker, _, process = path.name.partition(".")
            pid = process.partition(".")[0]
            if path.name in self._ended or path.name in (before or ()) or pid == str(os.getpid()):
                continue
            if worker in (os.environ[WORKER], ANY_WORKER) and pid.isdecimal():
                alive = is_alive(int(pid))
                executed |= int.from_bytes(path.read_bytes(), "little")
                if not alive and before is None:
                    self._ended.add(path.name)
        return executed


def fixtures_of(item: pytest.Item) -> list[pytest.FixtureDef[Any]]:
    """Returns the fixtures that a test names, directly or by other ones."""
    known = getattr(item, "_fixtureinfo", None)
    return [fixture for fixtures in known.name2fixturedefs.values() for fixture in fixtures] if known else []


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, 0)
        return True
    return False
