"""The step-by-step loop of one Worker's pool of processes. Tests pass in their own processes and leader."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from cooperator.artifacts import ArtifactError
from cooperator.host.group import group_seen
from cooperator.host.pool_step import PoolStep
from cooperator.host.stock import StockIncarnations
from cooperator.local.members import ProcessIncarnation
from cooperator.local.pods import past_ends, pod
from cooperator.planner.view import Facts
from cooperator.pool import PoolDesired, PoolObserved, Report

log = logging.getLogger(__name__)

HALT_KILL_MS = 30_000
"""How long a member may take for a clean stop when everything is brought down."""

Command = Callable[[str, str], Sequence[str]]
"""Maps (identity, incarnation) to the command of a member's process."""


class Processes(Protocol):
    """The interface of ``MemberProcesses``."""

    def observe(self) -> dict[str, ProcessIncarnation]: ...
    def create(
        self, identity: str, revision: str, command: Callable[[str], Sequence[str]]
    ) -> ProcessIncarnation: ...
    def mark(self, identity: str, incarnation: str, reason: str) -> None: ...
    def terminate(self, identity: str, incarnation: str) -> None: ...
    def kill(self, identity: str, incarnation: str) -> None: ...
    def remove(self, identity: str, incarnation: str) -> None: ...


class PoolLoop:
    """``step`` and ``halt`` are for one thread; any thread may read their results, and call ``pardon``."""

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
        self.incarnations: Mapping[str, ProcessIncarnation] = {}
        self.leader: Mapping[str, Any] = {}
        """The last projection, in which members' incarnations have the pool's names."""
        self._stock = StockIncarnations()

    @property
    def reports(self) -> tuple[Report, ...]:
        return self._step.reports

    def step(
        self, desired: PoolDesired, command: Command, leader: Mapping[str, Any], is_stock: bool = False
    ) -> None:
        """Observes once and acts on it.

        ``leader`` is the leader's projection, empty when there is no leader. ``is_stock``: members are stock
        Connect workers, which do not know their incarnations' names.
        """
        self._command = command
        incarnations = self._observe()
        if is_stock:
            living = {identity: process.incarnation for identity, process in incarnations.items()}
            self._stock = self._stock.seen(leader, living)
            leader = self._stock.in_pool_names(leader)
        self.leader = leader
        observed = PoolObserved(
            pods=tuple(pod(process) for process in incarnations.values() if not process.removed),
            group=group_seen(leader),
        )
        past = past_ends(incarnations.values())
        self._step.step(desired, observed, lambda facts: self._ends(facts.ended | past))

    def halt(self) -> bool:
        """Brings all members down temporarily: their tasks are held. Returns True when nothing runs."""
        incarnations = self._observe()
        identities = frozenset(incarnations)
        ended = frozenset(
            (process.identity, process.incarnation) for process in incarnations.values() if process.ended
        )
        self._step.tell(Facts(expected=identities, ended=self._ends(ended), returning=identities))
        now_ms = self._clock_ms()
        for process in incarnations.values():
            if process.ended:
                continue
            if process.terminating_ms is None:
                log.info("%s is stopped", process.identity)
                self._processes.terminate(process.identity, process.incarnation)
            elif now_ms - process.terminating_ms > HALT_KILL_MS:
                log.warning("%s did not stop in %d s and is killed", process.identity, HALT_KILL_MS // 1000)
                self._processes.kill(process.identity, process.incarnation)
        return all(process.ended for process in incarnations.values())

    def _ends(self, ended: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        return ended | self._stock.ended(ended)

    def create(self, identity: str, revision: str) -> None:
        try:
            self._processes.create(
                identity, revision, lambda incarnation: self._command(identity, incarnation)
            )
        except (OSError, ValueError, ArtifactError) as error:
            log.error("%s could not be started: %s", identity, error)

    def _observe(self) -> dict[str, ProcessIncarnation]:
        incarnations = self._processes.observe()
        for identity, process in incarnations.items():
            before = self.incarnations.get(identity)
            if process.ended and before is not None and not before.ended:
                log.info("%s (%s) has ended with code %s", identity, process.incarnation, process.exit_code)
        self.incarnations = incarnations
        return incarnations
