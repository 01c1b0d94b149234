"""A Worker's pool, step by step: decide, tell the leader, act. The decisions are made by ``pool``."""

import logging
import queue
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from cooperator.crd import Worker
from cooperator.host.group import planner_facts
from cooperator.host.stock import Incarnation
from cooperator.planner.view import Facts
from cooperator.pool import (
    Action,
    Decision,
    Delete,
    Kill,
    PoolDesired,
    PoolFacts,
    PoolMemory,
    PoolObserved,
    PoolPolicy,
    Report,
    RollStrategy,
    decide,
    pardon,
    survey,
)

log = logging.getLogger(__name__)

HALT_KILL_MS: Final = 30_000
"""Time that a member may take for a clean stop when everything is brought down."""


def pool_desired(
    worker: Worker, revision: str, removing: bool = False, kill_after_ms: int | None = None
) -> PoolDesired:
    """The desired pool of a Worker. Pure.

    ``removing``: the Worker is being deleted with all its members. ``kill_after_ms``: how long after its
    drain time-out a member is killed; None: the platform does that.
    """
    rollout, drain_ms = worker.spec.rollout, worker.spec.drain_timeout_ms
    policy = PoolPolicy(
        strategy=RollStrategy(rollout.strategy.value),
        max_unavailable=rollout.max_unavailable,
        drain_timeout_ms=drain_ms,
        kill_after_ms=None if kill_after_ms is None else drain_ms + kill_after_ms,
    )
    if removing:
        policy = replace(policy, scale_down_delay_ms=0, scale_down_wait_max_ms=0)
    return PoolDesired(worker.metadata.name, 0 if removing else worker.spec.replicas, revision, policy)


def halted(desired: PoolDesired, observed: PoolObserved, memory: PoolMemory, now_ms: int) -> Decision:
    """Brings all pods down temporarily: their tasks are held for them. Pure."""
    actions: list[Action] = []
    found = survey(desired, observed, memory, now_ms)
    ended = set()
    for identity, pod_state in found.incarnations.items():
        incarnation, since_ms = pod_state.pod.incarnation, pod_state.seen.terminating_since_ms
        if pod_state.ended:
            ended.add((identity, incarnation))
        elif since_ms is None:
            actions.append(Delete(identity, incarnation))
        elif now_ms - since_ms > HALT_KILL_MS:
            actions.append(Kill(identity, incarnation))
    names = frozenset(found.incarnations)
    facts = PoolFacts(expected=names, ended=frozenset(ended), returning=names)
    return Decision(tuple(actions), facts, found.memory)


class PoolStep:
    """``step`` must be called on one thread; any thread may read its last result, and may call ``pardon``."""

    def __init__(self, act: Callable[[Action], None], clock_ms: Callable[[], int]) -> None:
        self._act = act
        self._clock_ms = clock_ms
        self._memory = PoolMemory()
        self._pardons: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
        self.reports: tuple[Report, ...] = ()

    def pardon(self, connector: str, include_tasks: bool = True) -> None:
        """Release quarantined items of ``connector`` with the next step, as if they had never ended a member.

        These are its instance, and its tasks if they are included.
        """
        self._pardons.put((connector, include_tasks))

    def step(
        self,
        desired: PoolDesired,
        observed: PoolObserved,
        ends: Callable[[frozenset[Incarnation]], frozenset[Incarnation]],
        tell: Callable[[Facts], None],
        halt: bool = False,
    ) -> int | None:
        """Take one decision and carry it out.

        ``ends`` maps ended incarnations in the pool's names to those in the members' own names. ``halt``:
        bring everything down temporarily. Returns when to call again (ms since the epoch) even if nothing
        changes; None if not needed.
        """
        self._take_pardons()
        now_ms = self._clock_ms()
        if halt:
            decision = halted(desired, observed, self._memory, now_ms)
        else:
            decision = decide(desired, observed, self._memory, now_ms)
        self._memory = decision.memory
        self._report(decision.reports)
        # The facts precede the actions: a member that is told to end must already be known as leaving.
        tell(planner_facts(decision.facts, ends(decision.facts.ended)))
        for action in decision.actions:
            log.info("%s", action)
            self._act(action)
        return decision.next_ms

    def _take_pardons(self) -> None:
        while not self._pardons.empty():
            connector, include_tasks = self._pardons.get_nowait()
            tasks = (task for task in self._memory.suspects if task.connector == connector)
            self._memory = pardon(self._memory, (t for t in tasks if include_tasks or t.is_instance))

    def _report(self, reports: tuple[Report, ...]) -> None:
        for report in reports:
            if report not in self.reports:
                log.warning("%s %s: %s", report.reason.value, report.subject, report.message)
        self.reports = reports
