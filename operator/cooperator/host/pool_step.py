"""A Worker's pool, step by step: observe, decide, tell the leader, act.

Level-triggered: each step starts from the current state. The decisions are made by ``pool``; the actuator is
passed in.
"""

import logging
import queue
from collections.abc import Callable
from typing import Protocol

from cooperator.host.group import planner_facts
from cooperator.planner.view import Facts
from cooperator.pool import (
    Action,
    Create,
    Delete,
    Drain,
    Kill,
    PoolDesired,
    PoolFacts,
    PoolMemory,
    PoolObserved,
    Remove,
    Report,
    UnDrain,
    decide,
    pardon,
)

log = logging.getLogger(__name__)

EndsOf = Callable[[PoolFacts], frozenset[tuple[str, str]]]
"""The proven ends among a decision's facts, in the members' own names for their incarnations."""


class PodActuator(Protocol):
    """Carries out decisions. Failures are logged there, and the action is requested again."""

    def create(self, identity: str, revision: str) -> None: ...
    def mark(self, identity: str, incarnation: str, reason: str) -> None: ...
    def terminate(self, identity: str, incarnation: str) -> None: ...
    def kill(self, identity: str, incarnation: str) -> None: ...
    def remove(self, identity: str, incarnation: str) -> None: ...


class PoolStep:
    """``step`` must be called on one thread; any thread may read its last result, and may call ``pardon``."""

    def __init__(
        self, actuator: PodActuator, tell_leader: Callable[[Facts], None], clock_ms: Callable[[], int]
    ) -> None:
        self._actuator = actuator
        self._tell_leader = tell_leader
        self._clock_ms = clock_ms
        self._memory = PoolMemory()
        self._facts: Facts | None = None
        self._pardons: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
        self.reports: tuple[Report, ...] = ()

    def pardon(self, connector: str, include_tasks: bool = True) -> None:
        """Release quarantined items of ``connector`` with the next step, as if they had never ended a member.

        These are its instance, and its tasks if they are included.
        """
        self._pardons.put((connector, include_tasks))

    def step(self, desired: PoolDesired, observed: PoolObserved, ends_of: EndsOf) -> int | None:
        """Take one decision and carry it out.

        Returns when to call again (ms since the epoch) even if nothing changes; None if not needed.
        """
        self._take_pardons()
        decision = decide(desired, observed, self._memory, self._clock_ms())
        self._memory = decision.memory
        self._say(decision.reports)
        # The facts precede the actions: a member that is told to end must already be known as leaving.
        self.tell(planner_facts(decision.facts, ends_of(decision.facts)))
        for action in decision.actions:
            log.info("%s", action)
            self._carry_out(action)
        return decision.next_ms

    def tell(self, facts: Facts) -> None:
        """Pass the facts to the leader, if they have changed."""
        if facts != self._facts:
            self._facts = facts
            self._tell_leader(facts)

    def _take_pardons(self) -> None:
        while not self._pardons.empty():
            connector, include_tasks = self._pardons.get()
            tasks = (task for task in self._memory.suspects if task.connector == connector)
            self._memory = pardon(self._memory, (t for t in tasks if include_tasks or t.is_instance))

    def _say(self, reports: tuple[Report, ...]) -> None:
        for report in reports:
            if report not in self.reports:
                log.warning("%s %s: %s", report.reason.value, report.subject, report.message)
        self.reports = reports

    def _carry_out(self, action: Action) -> None:
        actuator = self._actuator
        match action:
            case Create():
                actuator.create(action.identity, action.revision)
            case Drain():
                actuator.mark(action.identity, action.incarnation, action.reason.value)
            case UnDrain():
                actuator.mark(action.identity, action.incarnation, "")
            case Delete():
                actuator.terminate(action.identity, action.incarnation)
            case Kill():
                actuator.kill(action.identity, action.incarnation)
            case Remove():
                actuator.remove(action.identity, action.incarnation)
