"""Threads on which a process depends, and what happens when one of them dies.

When a thread ends by an exception, its work stops while the process looks healthy. Its death is logged and
kept; a program that calls ``end_process_on_death`` ends with it, so that the process is restarted and
recovers from the state in Kafka and Kubernetes.
"""

import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

log = logging.getLogger(__name__)

EXIT_CODE: Final = 70
"""``EX_SOFTWARE`` of sysexits.h."""


@dataclass(frozen=True, slots=True)
class Death:
    """A thread that ended by an exception; ``error`` is its type and text."""

    thread: str
    error: str

    def __str__(self) -> str:
        return f"the thread {self.thread!r} has died: {self.error}"


class ThreadSupervisor:
    """Starts threads and learns of their deaths; thread-safe. ``on_death`` is called in the dying thread."""

    def __init__(self) -> None:
        self._deaths: tuple[Death, ...] = ()
        self._lock = threading.Lock()
        self.on_death: Callable[[Death], None] = lambda death: None

    @property
    def deaths(self) -> tuple[Death, ...]:
        """All deaths since the start of the process, oldest first."""
        return self._deaths

    def thread(self, target: Callable[..., object], name: str, *arguments: Any) -> threading.Thread:
        """Return a daemon thread, not started yet, that runs ``target(*arguments)``."""

        def run() -> None:
            try:
                target(*arguments)
            except BaseException as error:
                death = Death(name, f"{type(error).__name__}: {error}")
                log.critical("%s", death, exc_info=True)
                with self._lock:
                    self._deaths = (*self._deaths, death)
                self.on_death(death)

        return threading.Thread(target=run, name=name, daemon=True)


of_process: Final = ThreadSupervisor()
"""The supervisor of this process."""


def supervised(target: Callable[..., object], name: str, *arguments: Any) -> threading.Thread:
    """``ThreadSupervisor.thread`` of the process's own supervisor."""
    return of_process.thread(target, name, *arguments)


def deaths() -> tuple[Death, ...]:
    """``ThreadSupervisor.deaths`` of the process's own supervisor."""
    return of_process.deaths


def end_process_on_death() -> None:
    """End the process with ``EXIT_CODE`` as soon as one of its supervised threads dies."""

    def end(death: Death) -> None:
        # Threads may fail during interpreter shutdown; that is not a death.
        if threading.main_thread().is_alive() and not sys.is_finalizing():
            os._exit(EXIT_CODE)

    of_process.on_death = end


def name_native_thread(name_of: Callable[[int], str]) -> None:
    """Give the calling thread a name that other processes see; ``name_of`` gets its native id.

    Does nothing where the system has no such names.
    """
    native_id = threading.get_native_id()
    with suppress(OSError):
        Path(f"/proc/self/task/{native_id}/comm").write_text(name_of(native_id))
