"""One Worker's pool of processes, step by step. Processes and leader are handed in, so that tests can do
without either."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from cooperator.artifacts import ArtifactError
from cooperator.host.group import group_seen
from cooperator.host.pool_step import PoolStep
from cooperator.host.stock import StockLives
from cooperator.local.members import Life
from cooperator.local.pods import past_ends, pod
from cooperator.planner.view import Facts
from cooperator.pool import PoolDesired, PoolObserved, Report

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
        self._clock_ms = clock_ms
        self._command: Command = lambda identity, incarnation: ()
        self._step = PoolStep(self, tell_leader, clock_ms)
        self.pardon = self._step.pardon
        self.mark = processes.mark
        self.terminate = processes.terminate
        self.kill = processes.kill
        self.remove = processes.remove
        self.lives: Mapping[str, Life] = {}
        self.leader: Mapping[str, Any] = {}
        """The projection that was seen last, with members' lives as the pool calls them."""
        self._stock = StockLives()

    @property
    def reports(self) -> tuple[Report, ...]:
        return self._step.reports

    def step(
        self, desired: PoolDesired, command: Command, leader: Mapping[str, Any], is_stock: bool = False
    ) -> None:
        """One look and what follows from it. ``leader``: its projection, empty when there is none.
        ``is_stock``: members are stock Connect workers, which do not know their lives' names."""
        self._command = command
        lives = self._observe()
        if is_stock:
            living = {identity: life.incarnation for identity, life in lives.items()}
            self._stock = self._stock.seen(leader, living)
            leader = self._stock.in_pool_names(leader)
        self.leader = leader
        observed = PoolObserved(
            pods=tuple(pod(life) for life in lives.values() if not life.removed), group=group_seen(leader)
        )
        past = past_ends(lives.values())
        self._step.step(desired, observed, lambda facts: self._ends(facts.ended | past))

    def halt(self) -> bool:
        """Bring all members down, to come back later: their tasks are held. True when nothing runs."""
        lives = self._observe()
        identities = frozenset(lives)
        ended = frozenset((life.identity, life.incarnation) for life in lives.values() if life.ended)
        self._step.tell(Facts(expected=identities, ended=self._ends(ended), returning=identities))
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

    def _ends(self, ended: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        return ended | self._stock.ended(ended)

    def create(self, identity: str, revision: str) -> None:
        try:
            self._processes.create(
                identity, revision, lambda incarnation: self._command(identity, incarnation)
            )
        except (OSError, ValueError, ArtifactError) as error:
            log.error("%s could not be started: %s", identity, error)

    def _observe(self) -> dict[str, Life]:
        lives = self._processes.observe()
        for identity, life in lives.items():
            before = self.lives.get(identity)
            if life.ended and before is not None and not before.ended:
                log.info("%s (%s) has ended with code %s", identity, life.incarnation, life.exit_code)
        self.lives = lives
        return lives
