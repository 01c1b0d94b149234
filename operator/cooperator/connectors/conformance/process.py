"""A member's process as the suite uses it: orders go in, events of its runtime come out."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from cooperator.model import INSTANCE
from cooperator.model.waits import read

CONNECTOR = "trial"
_END_S = 60.0


class UnitFailed(Exception):
    """The connector did not carry out an order; the message describes the problem."""


@dataclass(frozen=True, slots=True)
class Place:
    """The common data of all incarnations of one connector."""

    directory: Path
    group_id: str
    bootstrap_servers: str
    patience_s: float

    @property
    def checkpoints(self) -> Path:
        return self.directory / "checkpoints"


@dataclass
class MemberProcess:
    """One process, in a process group of its own. ``generation`` is part of the epoch of its tasks."""

    place: Place
    generation: int
    _configs: list[dict[str, str]] = field(default_factory=list)
    _attempts: dict[int, int] = field(default_factory=dict)
    _running: set[int] = field(default_factory=set)

    def __enter__(self) -> "MemberProcess":
        incarnation = uuid.uuid4().hex[:8]
        said = {
            "connector": CONNECTOR,
            "group_id": self.place.group_id,
            "bootstrap_servers": self.place.bootstrap_servers,
            "incarnation": incarnation,
            "checkpoints": str(self.place.checkpoints),
            "state_dir": str(self.place.directory / f"state-{incarnation}"),
        }
        # The process can import what this one can; hash() differs between processes.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "random"}
        with (self.place.directory / "incarnations.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cooperator.runtime.conformance_member", json.dumps(said)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env=environment,
                text=True,
            )
        self._heard: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self.kill()
                problem = f"the process did not end within {_END_S:g} s of its last task"
                raise UnitFailed(f"{problem}:\n{self._log()}") from None
        self.kill()

    def kill(self) -> None:
        """Kills the whole process group with SIGKILL."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        finally:
            self._process.wait()

    # --- orders ---

    def units(self, config: Mapping[str, str]) -> list[str]:
        self._order("units", config=dict(config))
        return list(self._wait("units", lambda heard: heard["event"] == "units")["units"])

    def begin(self, config: Mapping[str, str]) -> list[list[str]]:
        """Starts the instance and all tasks of its grouping; returns the units of each."""
        self._start(INSTANCE, config)
        self.regroup(lambda found: bool(found))
        return self.run()

    def regroup(self, enough: Callable[[list[list[str]]], bool]) -> list[list[str]]:
        """Waits until the instance reports a grouping that is ``enough``."""

        def fits(heard: dict[str, Any]) -> bool:
            return heard["event"] == "units_changed" and enough(_units_of(heard["configs"]))

        self._configs = self._wait("new units", fits)["configs"]
        return _units_of(self._configs)

    def run(self) -> list[list[str]]:
        """Starts the tasks of the last grouping, and waits until they run."""
        for number, config in enumerate(self._configs):
            self._start(number, config)
        self._running = set(range(len(self._configs)))
        self._wait_all("started")
        return _units_of(self._configs)

    def refused(self) -> str | None:
        """Starts the first task once more; returns its error, or None if it runs."""
        self._start(0, self._configs[0])
        attempt = self._attempts[0]
        heard = self._wait(
            "started or failed of task 0",
            lambda heard: heard["event"] in ("started", "failed") and heard.get("attempt") == attempt,
            failing=False,
        )
        return str(heard["trace"]) if heard["event"] == "failed" else None

    def stop(self) -> None:
        """Stops the tasks, and waits until each is reported as stopped."""
        for number in self._running:
            self._order("stop", task=number, attempt=self._attempts[number])
        self._wait_all("stopped")

    def check(self) -> None:
        """Raises ``Failed`` when a task has failed meanwhile."""
        while not self._heard.empty():
            self._complain(self._heard.get_nowait())

    # --- below ---

    def _start(self, task: int, config: Mapping[str, str]) -> None:
        self._attempts[task] = self._attempts.get(task, 0) + 1
        epoch = (1, self.generation)
        self._order("start", task=task, config=dict(config), epoch=epoch, attempt=self._attempts[task])

    def _order(self, order: str, **more: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{json.dumps({'order': order, **more})}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise UnitFailed(self._ended()) from None

    def _wait(
        self, what: str, fits: Callable[[dict[str, Any]], bool], failing: bool = True
    ) -> dict[str, Any]:
        """Returns the next event that fits; earlier events are dropped."""
        deadline = time.monotonic() + self.place.patience_s
        trouble = ""
        while True:
            try:
                heard = self._heard.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise UnitFailed(f"no {what} within {self.place.patience_s:g} s{trouble}") from None
            if heard is not None and fits(heard):
                return heard
            if failing or heard is None:
                self._complain(heard)
            if heard is not None and heard["event"] == "progress":
                waits = ", ".join(wait.text for wait in read(json.loads(heard["text"])))
                trouble = f"; {waits}" if waits else ""

    def _wait_all(self, event: str) -> None:
        """Waits until all tasks that were started last have reported the event, in any order."""
        waited = set(self._running)

        def matches(heard: dict[str, Any]) -> bool:
            if heard["event"] == event and heard["attempt"] == self._attempts[heard["task"]]:
                waited.discard(heard["task"])
            return not waited

        self._wait(f"{event} of all tasks", matches)

    def _complain(self, heard: dict[str, Any] | None) -> None:
        if heard is None:
            raise UnitFailed(self._ended())
        if heard["event"] == "failed":
            raise UnitFailed(f"task {heard['task']} failed: {heard['trace'].strip()}")

    def _ended(self) -> str:
        return f"the member's process has exited unexpectedly:\n{self._log(20)}"

    def _log(self, lines: int = 200) -> str:
        """Returns the end of what all incarnations have logged."""
        log = (self.place.directory / "incarnations.log").read_text(errors="replace").splitlines()
        return "\n".join(log[-lines:])

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                heard = json.loads(line)
            except ValueError:
                continue  # printed by the connector
            if isinstance(heard, dict) and "event" in heard:
                self._heard.put(heard)
        self._heard.put(None)


def _units_of(configs: Sequence[Mapping[str, str]]) -> list[list[str]]:
    return [config["task.units"].split(",") for config in configs]
