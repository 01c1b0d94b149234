"""Threads on which a process depends: each has a heartbeat, and its death or standstill is noticed.

When a thread ends by an exception, or waits for something that never happens, its work stops while the
process looks healthy. A death is logged and kept; a program that calls ``supervise_process`` ends with it, so
that the process is restarted and recovers from the state in Kafka and Kubernetes. A standstill is logged with
the place where the thread stands, and shown by ``trouble`` for as long as it lasts.
"""

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

log = logging.getLogger(__name__)

EXIT_CODE: Final = 70
"""``EX_SOFTWARE`` of sysexits.h."""
TURN_S: Final = 1.0
"""A thread that waits for work turns at least this often."""
LIMIT_S: Final = 60.0
"""Longer than each bounded call of a client, after which the caller turns."""
CLOSE_S: Final = 10.0
"""A client of a library that has not closed after this is abandoned."""
ABANDONED_WITHIN_S: Final = 600.0
"""A second abandoned client within this time is no accident: the process has to end."""

_own = threading.local()


class Client(Protocol):
    """A client of a library. ``__exit__`` ends it, and may hang."""

    def __exit__(self, kind: None, error: None, trace: None, /) -> object: ...


C = TypeVar("C", bound=Client)


@dataclass(frozen=True, slots=True)
class Death:
    """A thread that ended by an exception; ``error`` is its type and text."""

    thread: str
    error: str

    def __str__(self) -> str:
        return f"the thread {self.thread!r} has died: {self.error}"


@dataclass(frozen=True, slots=True)
class Standstill:
    """A thread that has not turned within its limit."""

    thread: str
    silent_s: float
    limit_s: float

    def __str__(self) -> str:
        return (
            f"the thread {self.thread!r} has stood still for {self.silent_s:.0f} s, "
            f"and must turn within {self.limit_s:g} s"
        )


@dataclass(eq=False, slots=True)
class Heartbeat:
    """The last turn of a thread. ``limit_s``: the time within which it must turn again, or end."""

    thread: str
    limit_s: float
    clock_s: Callable[[], float]
    turned_s: float
    ident: int

    def turn(self) -> None:
        self.turned_s = self.clock_s()


class ThreadSupervisor:
    """Starts threads and learns of their deaths and standstills; thread-safe.

    ``on_death`` is called in the dying thread. ``on_exhausted`` is called once, in any thread, when clients
    were abandoned repeatedly; it must return at once, and make the process hand over and end. ``clock_s`` is
    monotonic. ``close_s``: see ``CLOSE_S``.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic, close_s: float = CLOSE_S) -> None:
        self._clock_s = clock_s
        self._close_s = close_s
        self._deaths: tuple[Death, ...] = ()
        self._heartbeats: tuple[Heartbeat, ...] = ()
        self._abandoned_s: float | None = None
        self._exhausted = ""
        self._lock = threading.Lock()
        self.on_death: Callable[[Death], None] = lambda death: None
        self.on_exhausted: Callable[[], None] = lambda: None

    @property
    def deaths(self) -> tuple[Death, ...]:
        """All deaths since the start of the process, oldest first."""
        return self._deaths

    @property
    def heartbeats(self) -> tuple[Heartbeat, ...]:
        """Of all threads that run, oldest first."""
        return self._heartbeats

    def thread(
        self, target: Callable[..., object], name: str, *arguments: Any, limit_s: float = LIMIT_S
    ) -> threading.Thread:
        """Return a daemon thread, not started yet, that runs ``target(*arguments)``.

        It must call ``turn`` at least every ``limit_s``, or end within that.
        """

        def run() -> None:
            try:
                with self.beating(name, limit_s):
                    target(*arguments)
            except BaseException as error:
                death = Death(name, f"{type(error).__name__}: {error}")
                log.critical("%s", death, exc_info=True)
                with self._lock:
                    self._deaths = (*self._deaths, death)
                self.on_death(death)

        return threading.Thread(target=run, name=name, daemon=True)

    @contextmanager
    def beating(self, name: str, limit_s: float = LIMIT_S) -> Iterator[None]:
        """Give the calling thread a heartbeat for the duration of the block."""
        heartbeat = Heartbeat(name, limit_s, self._clock_s, self._clock_s(), threading.get_ident())
        before = getattr(_own, "heartbeat", None)
        with self._lock:
            self._heartbeats = (*self._heartbeats, heartbeat)
        _own.heartbeat = heartbeat
        try:
            yield
        finally:
            _own.heartbeat = before
            with self._lock:
                self._heartbeats = tuple(each for each in self._heartbeats if each is not heartbeat)

    def standstills(self) -> tuple[Standstill, ...]:
        """Threads that have not turned within their limit."""
        return tuple(self._late().values())

    def _late(self) -> dict[Heartbeat, Standstill]:
        return {
            each: Standstill(each.thread, silent_s, each.limit_s)
            for each in self._heartbeats
            if (silent_s := self._clock_s() - each.turned_s) > each.limit_s
        }

    def trouble(self) -> str:
        """What does not work in this process; empty if everything does."""
        found = [*map(str, self._deaths), *map(str, self.standstills())]
        return "; ".join([*found, self._exhausted] if self._exhausted else found)

    def close_aside(self, close: Callable[[], object], what: str) -> threading.Event:
        """Call ``close`` of a library's client, which may hang, on a thread of its own.

        The returned event is set when that has ended, or is abandoned after ``CLOSE_S``.
        """
        over = threading.Event()
        closed = threading.Event()

        def end() -> None:
            try:
                close()
            except Exception:
                log.exception("closing the %s", what)
            finally:
                closed.set()

        def watch() -> None:
            # Without a heartbeat: this thread is the one that may stand still, and it is abandoned then.
            threading.Thread(target=end, name=f"close {what}", daemon=True).start()
            if not closed.wait(self._close_s):
                self._abandon(what)
            over.set()

        self.thread(watch, f"closing {what}").start()
        return over

    def _abandon(self, what: str) -> None:
        log.error("the %s did not close within %g s, and is abandoned", what, self._close_s)
        now_s = self._clock_s()
        with self._lock:
            before_s, self._abandoned_s = self._abandoned_s, now_s
            if self._exhausted or before_s is None or now_s - before_s > ABANDONED_WITHIN_S:
                return
            self._exhausted = (
                f"the {what} is the second client within {ABANDONED_WITHIN_S / 60:g} minutes that does not "
                "close: this process hands over and ends, to be started again"
            )
        log.critical("%s", self._exhausted)
        self.on_exhausted()

    def watch(self) -> None:
        """Log standstills, and where the threads stand. Runs for ever."""
        logged: set[Heartbeat] = set()
        while True:
            turn()
            late = self._late()
            for each in late.keys() - logged:
                frame = sys._current_frames().get(each.ident)
                where = "".join(traceback.format_stack(frame)) if frame is not None else ""
                log.error("%s:\n%s", late[each], where)
            for each in logged - late.keys():
                log.warning("the thread %r goes on, or has ended", each.thread)
            logged = set(late)
            time.sleep(TURN_S)


of_process: Final = ThreadSupervisor()
"""The supervisor of this process."""


def turn() -> None:
    """Note that the calling thread goes on. Does nothing in threads without a heartbeat."""
    heartbeat: Heartbeat | None = getattr(_own, "heartbeat", None)
    if heartbeat is not None:
        heartbeat.turn()


def wait_turning(event: threading.Event, timeout_s: float) -> bool:
    """Wait as ``event.wait`` does; the calling thread turns meanwhile."""
    deadline = time.monotonic() + timeout_s
    while True:
        turn()
        left_s = deadline - time.monotonic()
        if event.wait(max(0.0, min(TURN_S, left_s))):
            return True
        if left_s <= TURN_S:
            return False


async def keep_turning() -> None:
    """Turn for as long as the event loop of the calling thread goes on. Runs until it is cancelled."""
    # Imported on demand: many commands need no event loop.
    import asyncio

    while True:
        turn()
        await asyncio.sleep(TURN_S)


def supervised(
    target: Callable[..., object], name: str, *arguments: Any, limit_s: float = LIMIT_S
) -> threading.Thread:
    """``ThreadSupervisor.thread`` of the process's own supervisor."""
    return of_process.thread(target, name, *arguments, limit_s=limit_s)


def deaths() -> tuple[Death, ...]:
    """``ThreadSupervisor.deaths`` of the process's own supervisor."""
    return of_process.deaths


def trouble() -> str:
    """``ThreadSupervisor.trouble`` of the process's own supervisor."""
    return of_process.trouble()


def close_aside(close: Callable[[], object], what: str) -> threading.Event:
    """``ThreadSupervisor.close_aside`` of the process's own supervisor."""
    return of_process.close_aside(close, what)


@contextmanager
def closing_aside(client: C, what: str) -> Iterator[C]:
    """End the client at the end of the block, as ``close_aside`` does.

    No call of it may be under way by then. The thread that ends it keeps it alive until it has ended, so that
    whoever drops it later, be it one of the library's own threads, drops an empty object.
    """
    try:
        yield client
    finally:
        close_aside(lambda: client.__exit__(None, None, None), what)


def at_most_a_turn(patience_s: float | None) -> float:
    """Return how long the calling thread may wait for work, which need not be there before ``patience_s``
    (None: never), so that it turns in time."""
    return TURN_S if patience_s is None else min(TURN_S, patience_s)


def supervise_process() -> None:
    """Log standstills, and end the process with ``EXIT_CODE`` as soon as one of its threads dies."""

    def end(death: Death) -> None:
        # Threads may fail during interpreter shutdown; that is not a death.
        if threading.main_thread().is_alive() and not sys.is_finalizing():
            os._exit(EXIT_CODE)

    of_process.on_death = end
    of_process.thread(of_process.watch, "standstills").start()


def name_native_thread(name_of: Callable[[int], str]) -> None:
    """Give the calling thread a name that other processes see; ``name_of`` gets its native id.

    Does nothing where the system has no such names.
    """
    native_id = threading.get_native_id()
    with suppress(OSError):
        Path(f"/proc/self/task/{native_id}/comm").write_text(name_of(native_id))
