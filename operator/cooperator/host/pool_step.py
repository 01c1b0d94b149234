"""A Worker's pool, step by step: what is seen, what follows from it, told to the leader, carried out.

Level-triggered: each step starts from what is there. The decisions are ``pool``'s; who carries them out is
handed in.
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
"""The proven ends of a decision in the members' own names of their lives."""


class Hands(Protocol):
    """Who carries out what was decided. What fails is logged there and is asked for again."""

    def create(self, identity: str, revision: str) -> None: ...
    def mark(self, identity: str, incarnation: str, reason: str) -> None: ...
    def terminate(self, identity: str, incarnation: str) -> None: ...
    def kill(self, identity: str, incarnation: str) -> None: ...
    def remove(self, identity: str, incarnation: str) -> None: ...


class PoolStep:
    """``step`` is called by one thread; what it saw last can be read by any, and any may ``pardon``."""

    def __init__(
        self, hands: Hands, tell_leader: Callable[[Facts], None], clock_ms: Callable[[], int]
    ) -> None:
        self._hands = hands
        self._tell_leader = tell_leader
        self._clock_ms = clock_ms
        self._memory = PoolMemory()
        self._facts: Facts | None = None
        self._pardons: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
        self.reports: tuple[Report, ...] = ()

    def pardon(self, connector: str, include_tasks: bool = True) -> None:
        """Let what is in quarantine of ``connector`` start again with the next step, as if it never had ended
        a member: its instance, and its tasks if they are included."""
        self._pardons.put((connector, include_tasks))

    def step(self, desired: PoolDesired, observed: PoolObserved, ends_of: EndsOf) -> int | None:
        """One decision, carried out. When to look again (ms since the epoch) even if nothing changes; None:
        no need."""
        self._take_pardons()
        decision = decide(desired, observed, self._memory, self._clock_ms())
        self._memory = decision.memory
        self._say(decision.reports)
        # Before the actions: a member that is told to end must be known as leaving by then.
        self.tell(planner_facts(decision.facts, ends_of(decision.facts)))
        for action in decision.actions:
            log.info("%s", action)
            self._carry_out(action)
        return decision.next_ms

    def tell(self, facts: Facts) -> None:
        """To the leader, unless it knows."""
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
        hands = self._hands
        match action:
            case Create():
                hands.create(action.identity, action.revision)
            case Drain():
                hands.mark(action.identity, action.incarnation, action.reason.value)
            case UnDrain():
                hands.mark(action.identity, action.incarnation, "")
            case Delete():
                hands.terminate(action.identity, action.incarnation)
            case Kill():
                hands.kill(action.identity, action.incarnation)
            case Remove():
                hands.remove(action.identity, action.incarnation)
