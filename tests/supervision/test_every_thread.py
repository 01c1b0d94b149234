"""Wherever a supervised thread raises, its death is noticed: for every thread in the sources."""

import ast
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple
from unittest.mock import MagicMock

import pytest

from cooperator.supervision import ThreadSupervisor

OPERATOR = Path(__file__).parents[2] / "operator"
STARTERS = ("supervised", "threads.of_process.thread")
PROGRAMS = ("cli/leader.py", "cli/operator.py", "cli/worker.py", "local/host.py")
COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 17)


class Boom(BaseException):
    """No handler of exceptions catches it."""


class Site(NamedTuple):
    """A call that starts a supervised thread."""

    module: str
    owner: str
    method: str

    def target(self) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(
            getattr(importlib.import_module(self.module), self.owner), self.method
        )
        return found


def sites() -> Iterator[Site]:
    for path in sorted((OPERATOR / "cooperator").rglob("*.py")):
        module = ".".join(path.relative_to(OPERATOR).with_suffix("").parts)
        text = path.read_text()
        if not any(f"{name}(" in text for name in STARTERS):
            # Few files start threads, and each process of the tests reads all of them.
            continue
        for owner in ast.walk(ast.parse(text)):
            if not isinstance(owner, ast.ClassDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(owner):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in STARTERS:
                    of, _, method = ast.unparse(node.args[0]).rpartition(".")
                    # A target of another object is named like its class: strays.run.
                    yield Site(module, owner.name if of == "self" else of.capitalize(), method)


SITES = sorted(set(sites()))


def test_no_thread_is_left_out() -> None:
    sources = [path.read_text() for path in (OPERATOR / "cooperator").rglob("*.py")]
    calls = sum(text.count(f"{name}(") for text in sources for name in STARTERS)
    assert calls - 1 == len(SITES), "one is the definition of supervised"


def test_every_program_ends_when_a_thread_of_it_dies() -> None:
    for path in PROGRAMS:
        assert "    supervise_process()\n" in (OPERATOR / "cooperator" / path).read_text(), path


class Injector:
    """Raises in the thread under test, once: at its n-th line, or in its n-th call of anything."""

    def __init__(self, lines: int = 0, calls: int = 0) -> None:
        self.lines, self.calls = lines, calls
        self.raised = False

    def at(self, kind: str) -> None:
        if self.raised or threading.current_thread().name != NAME:
            return
        left = getattr(self, kind) - 1
        setattr(self, kind, left)
        if left == 0:
            self.raised = True
            raise Boom


NAME = "under test"


class Yes(MagicMock):
    """An object for a thread: every answer is true, every list has one element."""

    injector = Injector()

    def _mock_call(self, *arguments: Any, **named: Any) -> Any:
        self.injector.at("calls")
        return super()._mock_call(*arguments, **named)  # type: ignore[misc]

    def __iter__(self) -> Iterator[Any]:
        return iter([type(self)()])

    # A time-out is any number.
    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return True


class No(Yes):
    """The same, and every answer is false."""

    def __bool__(self) -> bool:
        return False


def run(target: Callable[..., Any], object_: MagicMock, injector: Injector) -> ThreadSupervisor:
    """Run a thread's function on ``object_`` until it ends; returns the thread's supervisor."""
    code: CodeType = target.__code__
    # Otherwise it is the lock of all mocks, which the thread would take with it.
    object_._lock = type(object_)()

    def at_line(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            injector.at("lines")
        return at_line

    def traced() -> None:
        sys.settrace(lambda frame, *_: at_line if frame.f_code is code else None)
        try:
            target(object_, *(type(object_)() for _ in range(code.co_argcount - 1)))
        finally:
            sys.settrace(None)

    supervisor = ThreadSupervisor()
    thread = supervisor.thread(traced, NAME)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    return supervisor


@pytest.mark.parametrize("site", SITES, ids=lambda site: f"{site.owner}.{site.method}")
@pytest.mark.parametrize("kind", ["lines", "calls"])
@pytest.mark.parametrize("answers", [Yes, No])
def test_wherever_it_raises_the_thread_dies_loudly(
    site: Site, kind: str, answers: type[Yes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    raised = 0
    for count in COUNTS:
        injector = Injector(**{kind: count})
        monkeypatch.setattr(Yes, "injector", injector)
        object_ = answers()
        supervisor = run(site.target(), object_, injector)
        if not injector.raised:
            break  # The function ends before.
        raised += 1
        told = object_._listener.failed.called or object_._listener.stopped.called
        if site.owner == "Attempt" and told:
            continue  # An exception of a task, sys.exit() included, fails the task.
        assert [death.error.partition(":")[0] for death in supervisor.deaths] == ["Boom"], count
    assert raised or kind == "calls"
