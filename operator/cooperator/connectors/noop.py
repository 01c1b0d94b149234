"""``noop``: units that do nothing but record when they run.

The journal shows whether a unit ever ran twice at once. It has one JSON object per line with ``task``,
``unit``, ``member``, ``incarnation``, ``attempt``, ``event`` (``start``, ``beat`` about once a second,
``stop``), ``at_ms`` (since the epoch) and ``monotonic_ms``. Lines of several processes do not mix.
"""

import ctypes
import json
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from pathlib import Path
from typing import ClassVar, Literal

from cooperator.connectors.base import Cancelled, Connector, RunningUnit, UnitContext, UnitProgress
from cooperator.connectors.options import LocalFile, Options, option

_LATER_MS = 65_000
_DELAY = "a number of milliseconds"


class NoopOptions(Options):
    units: int = option("units", 1, expected="a number of units, 1 or more", fixed=True, ge=1)
    journal: LocalFile = option("journal", "", expected="a file to append to", local_path=True)
    start_delay_ms: int = option("start.delay.ms", 0, expected=_DELAY, ge=0)
    stop_delay_ms: int = option("stop.delay.ms", 0, expected=_DELAY, ge=0)
    start_failure: str = option(
        "start.failure", "", expected="the text of an error to fail with at the start"
    )
    fail_starts: int = option(
        "fail.starts",
        0,
        expected="how many of its first starts each unit fails (requires a journal)",
        ge=0,
    )
    freezes: Literal["never", "units", "start", "later"] = option(
        "freezes",
        "never",
        expected="never, units, start, or later (65 s after the start): when the whole member freezes",
    )
    fail_after_ms: int | None = option("fail.after.ms", None, expected=_DELAY, ge=0)


class Noop(Connector[NoopOptions]):
    """``journal`` is the file for units whose configuration names none."""

    options: ClassVar[type[Options]] = NoopOptions

    def __init__(self, journal: Path | None = None) -> None:
        self._journal = journal

    def units(self, options: NoopOptions, say: Callable[[str], None]) -> Sequence[str]:
        if options.freezes == "units":
            _freeze()
        return [f"unit-{number}" for number in range(options.units)]

    def open(self, options: NoopOptions, context: UnitContext) -> RunningUnit:
        if context.cancelled.wait(options.start_delay_ms / 1000):
            raise Cancelled
        if options.freezes == "start":
            _freeze()
        if options.start_failure:
            raise RuntimeError(options.start_failure)
        journal = Path(options.journal) if options.journal else self._journal
        return _Running(options, context, journal)


def _freeze() -> None:
    """Hold the interpreter lock forever, as a call of a native library would: no other thread can run."""
    ctypes.PyDLL(None).sleep(3_600)


def _freeze_busily() -> None:
    """Like ``_freeze``, but use the processor meanwhile."""
    deque(repeat(0), maxlen=0)


class _Running:
    def __init__(self, options: NoopOptions, context: UnitContext, journal: Path | None) -> None:
        self._options = options
        self._context = context
        self._journal = journal
        self._started = time.monotonic()
        self._stopped = False
        self._fails = options.fail_starts > self._starts_before() if options.fail_starts else False
        self._write("start")

    def _starts_before(self) -> int:
        """Counts the starts of this unit in the journal, which outlives processes."""
        if self._journal is None or not self._journal.exists():
            return 0
        lines = map(json.loads, self._journal.read_text().splitlines())
        task, unit = str(self._context.task), self._context.unit
        return sum((line["task"], line["unit"], line["event"]) == (task, unit, "start") for line in lines)

    def poll(self) -> UnitProgress:
        self._write("beat")
        if self._fails:
            raise RuntimeError(f"fails in its first {self._options.fail_starts} starts, as configured")
        age_ms = (time.monotonic() - self._started) * 1000
        if self._options.freezes == "later" and age_ms >= _LATER_MS:
            _freeze_busily()
        if self._options.fail_after_ms is not None and age_ms >= self._options.fail_after_ms:
            raise RuntimeError(f"failed as configured after {self._options.fail_after_ms} ms")
        return UnitProgress()

    def stop(self) -> None:
        if not self._stopped:
            time.sleep(self._options.stop_delay_ms / 1000)
            self._write("stop")
            self._stopped = True

    def _write(self, event: str) -> None:
        if self._journal is None:
            return
        member, incarnation, attempt = self._context.owner.rsplit("/", 2)
        line = {
            "task": str(self._context.task),
            "unit": self._context.unit,
            "member": member,
            "incarnation": incarnation,
            "attempt": int(attempt),
            "event": event,
            "at_ms": round(time.time() * 1000),
            "monotonic_ms": round(time.monotonic() * 1000),
        }
        handle = os.open(self._journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, json.dumps(line).encode() + b"\n")
        finally:
            os.close(handle)
