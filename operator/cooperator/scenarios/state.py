"""Tasks with state in a simulated group: who learns them, how far, and which of them start cold.

A learner reads a task's state at one rate. A member that starts a task without it reads the rest of the state
first, at the same rate.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from cooperator.model import Memory, StateReplicas, TaskId
from cooperator.planner.learners import learned_by
from cooperator.scenarios.scenario import Scenario
from cooperator.scenarios.workers import Process

PROBING_MS: Final = 600_000
"""Kafka Streams' default of probing.rebalance.interval.ms."""
_NEVER_MS: Final = 10**12


@dataclass(slots=True)
class ScenarioState:
    """``cold_starts``: of tasks that had state elsewhere; ``restoring_ms``: how long these read it, in sum.

    ``probing``: as in Kafka Streams, a learner's progress is looked at in rounds only, and while there is a
    warm-up a round follows after ten minutes; no warm-up is given up. Otherwise a learner that has caught up
    makes a round.
    """

    scenario: Scenario
    probing: bool = False
    cold_starts: int = 0
    restoring_ms: int = 0
    _since_ms: dict[tuple[str, TaskId], int] = field(default_factory=dict)
    _learned_ms: dict[tuple[str, TaskId], int] = field(default_factory=dict)
    _ran: set[TaskId] = field(default_factory=set)

    def stateful(self) -> Mapping[str, StateReplicas]:
        """As ``View.stateful``; the other settings are the defaults, which are those of Kafka Streams."""
        replicas = StateReplicas(warmup_timeout_ms=_NEVER_MS) if self.probing else StateReplicas()
        return dict.fromkeys(self.scenario.state, replicas)

    def behind_bytes(
        self, members: Iterable[Process], now_ms: int
    ) -> dict[tuple[str, str], dict[TaskId, int]]:
        """As ``View.behind_bytes``."""
        known = {member.incarnation: member.name for member in members}
        found: dict[tuple[str, str], dict[TaskId, int]] = {}
        for incarnation, task in self._since_ms:
            if incarnation in known:
                of = found.setdefault((known[incarnation], incarnation), {})
                of[task] = self._behind_bytes(incarnation, task, now_ms)
        return found

    def tell(self, memory: Memory, members: Iterable[Process], now_ms: int) -> int | None:
        """Members learn what the round has named; return when (ms) the next round is due for that."""
        stateful = self.stateful()
        learning = {
            (member.incarnation, task)
            for member in members
            for task in learned_by(memory, stateful, member.name, now_ms)
        }
        # Tasks that start in this round were learned until then.
        self._learned_ms = self._since_ms
        self._since_ms = {each: self._since_ms.get(each, now_ms) for each in sorted(learning)}
        if self.probing:
            return now_ms + PROBING_MS if memory.warmups else None
        ready = (at_ms for each in self._since_ms if (at_ms := self._ready_ms(*each)) > now_ms)
        return min(ready, default=None)

    def starts(self, process: Process, items: Iterable[TaskId], now_ms: int) -> None:
        """Tasks start at ``process``: cold, unless it has their state or they have none yet."""
        for task in items:
            if task.is_instance or task.connector not in self.scenario.state:
                continue
            if task in self._ran:
                behind = self._behind_bytes(process.incarnation, task, now_ms)
                limit = self.stateful()[task.connector].acceptable_lag_bytes
                self.cold_starts += behind > limit
                self.restoring_ms += behind * 1000 // self.scenario.learn_bytes_per_s
            self._ran.add(task)

    def _behind_bytes(self, incarnation: str, task: TaskId, now_ms: int) -> int:
        total = self.scenario.state.get(task.connector, 0)
        since_ms = self._since_ms.get((incarnation, task), self._learned_ms.get((incarnation, task)))
        if since_ms is None:
            return total
        return max(0, total - (now_ms - since_ms) * self.scenario.learn_bytes_per_s // 1000)

    def _ready_ms(self, incarnation: str, task: TaskId) -> int:
        limit = self.stateful()[task.connector].acceptable_lag_bytes
        missing = max(0, self.scenario.state[task.connector] - limit)
        return self._since_ms[incarnation, task] + -(-missing * 1000 // self.scenario.learn_bytes_per_s)
