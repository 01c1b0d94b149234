"""One Worker's pool, step by step: observe its processes, decide, tell the leader, act.

Level-triggered: each step starts from what is there. The decisions are ``pool``'s; this only carries them
out. Processes and leader are handed in, so that tests can do without either.
"""

import logging
import queue
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from cooperator.local.members import Life
from cooperator.local.pods import group_seen, planner_facts, pod
from cooperator.planner.view import Facts
from cooperator.pool import (
    Action,
    Create,
    Delete,
    Drain,
    Kill,
    PoolDesired,
    PoolMemory,
    PoolObserved,
    Remove,
    Report,
    UnDrain,
    decide,
    pardon,
)

log = logging.getLogger(__name__)

HALT_KILL_MS = 30_000
"""How long a member may take to stop in order when everything is brought down."""

Command = Callable[[str, str], Sequence[str]]
"""(identity, incarnation) to the command of a member's process."""


class Processes(Protocol):
    """See ``MemberProcesses``."""

    def observe(self) -> dict[str, Life]: ...
    def create(self, identity: str, revision: str, command: Callable[[str], Sequence[str]]) -> Life: ...
    def mark(self, identity: str, incarnation: str, reason: str) -> None: ...
    def terminate(self, identity: str, incarnation: str) -> None: ...
    def kill(self, identity: str, incarnation: str) -> None: ...
    def remove(self, identity: str, incarnation: str) -> None: ...


class PoolLoop:
    """``step`` and ``halt`` are called by one thread; what they saw last can be read by any, and any may
    ``pardon``."""

    def __init__(
        self, processes: Processes, tell_leader: Callable[[Facts], None], clock_ms: Callable[[], int]
    ) -> None:
        self._processes = processes
        self._tell_leader = tell_leader
        self._clock_ms = clock_ms
        self._memory = PoolMemory()
        self._facts: Facts | None = None
        self._pardons: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
        self.lives: Mapping[str, Life] = {}
        self.reports: tuple[Report, ...] = ()

    def pardon(self, connector: str, include_tasks: bool = True) -> None:
        """Let what is in quarantine of ``connector`` start again with the next step, as if it never had ended
        a member: its instance, and its tasks if they are included."""
        self._pardons.put((connector, include_tasks))

    def step(self, desired: PoolDesired, command: Command, leader: Mapping[str, Any]) -> None:
        """One look and what follows from it. ``leader``: its projection, empty when there is none."""
        self._take_pardons()
        lives = self._observe()
        observed = PoolObserved(
            pods=tuple(pod(life) for life in lives.values() if not life.removed), group=group_seen(leader)
        )
        decision = decide(desired, observed, self._memory, self._clock_ms())
        self._memory = decision.memory
        self._say(decision.reports)
        # Before the actions: a member that is told to end must be known as leaving by then.
        self._tell(planner_facts(decision.facts, lives.values()))
        for action in decision.actions:
            log.info("%s", action)
            self._carry_out(action, command)

    def halt(self) -> bool:
        """Bring all members down, to come back later: their tasks are held. True when nothing runs."""
        lives = self._observe()
        identities = frozenset(lives)
        ended = frozenset((life.identity, life.incarnation) for life in lives.values() if life.ended)
        self._tell(Facts(expected=identities, ended=ended, returning=identities))
        now_ms = self._clock_ms()
        for life in lives.values():
            if life.ended:
                continue
            if life.terminating_ms is None:
                log.info("%s is stopped", life.identity)
                self._processes.terminate(life.identity, life.incarnation)
            elif now_ms - life.terminating_ms > HALT_KILL_MS:
                log.warning("%s did not stop in %d s and is killed", life.identity, HALT_KILL_MS // 1000)
                self._processes.kill(life.identity, life.incarnation)
        return all(life.ended for life in lives.values())

    def _take_pardons(self) -> None:
        while not self._pardons.empty():
            connector, include_tasks = self._pardons.get()
            tasks = (task for task in self._memory.suspects if task.connector == connector)
            self._memory = pardon(self._memory, (t for t in tasks if include_tasks or t.is_instance))

    def _observe(self) -> dict[str, Life]:
        lives = self._processes.observe()
        for identity, life in lives.items():
            before = self.lives.get(identity)
            if life.ended and before is not None and not before.ended:
                log.info("%s (%s) has ended with code %s", identity, life.incarnation, life.exit_code)
        self.lives = lives
        return lives

    def _say(self, reports: tuple[Report, ...]) -> None:
        for report in reports:
            if report not in self.reports:
                log.warning("%s %s: %s", report.reason.value, report.subject, report.message)
        self.reports = reports

    def _tell(self, facts: Facts) -> None:
        if facts != self._facts:
            self._facts = facts
            self._tell_leader(facts)

    def _carry_out(self, action: Action, command: Command) -> None:
        processes = self._processes
        if isinstance(action, Create):
            identity = action.identity
            try:
                processes.create(
                    identity, action.revision, lambda incarnation: command(identity, incarnation)
                )
            except (OSError, ValueError) as error:
                log.error("%s could not be started: %s", identity, error)
        elif isinstance(action, Drain):
            processes.mark(action.identity, action.incarnation, action.reason.value)
        elif isinstance(action, UnDrain):
            processes.mark(action.identity, action.incarnation, "")
        elif isinstance(action, Delete):
            processes.terminate(action.identity, action.incarnation)
        elif isinstance(action, Kill):
            processes.kill(action.identity, action.incarnation)
        elif isinstance(action, Remove):
            processes.remove(action.identity, action.incarnation)
