"""When a member tells its leader how far it is with what it learns, and what it learns by the answers. Pure.

    a question is due  ⇔  a connector asks for learners, and (again_ms have passed since the last answer, or
                          another assignment was applied, or a task has become ready or is no longer)

Nothing of it changes what the member runs: a leader that never answers costs warm moves, and no task.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from cooperator.model import ClusterConfig, Epoch, LearnerProgress, StateReplicas, TaskId, ToLearn
from cooperator.wire import LearnerAnswer, LearnerReport

AGAIN_MS: Final = 5_000
"""The interval of questions while no leader has named another one."""


@dataclass(frozen=True, slots=True)
class LearnerStanding:
    """The part of the member's state on which its questions depend. ``applied``: the last assignment."""

    member_id: str = ""
    leader_url: str = ""
    applied: Epoch | None = None
    owned: frozenset[TaskId] = frozenset()
    config: ClusterConfig = field(default_factory=ClusterConfig)


def asks_for_learners(config: ClusterConfig) -> bool:
    """Whether a connector has tasks with state that other members are to learn."""
    return any(StateReplicas.of(connector.config) is not None for connector in config.connectors.values())


class LearnerTalk:
    """One member's side of ``POST /learners``. Times are milliseconds of any one clock."""

    def __init__(self) -> None:
        self.is_asked = False
        """Whether a connector asks for learners, by the last ``question``."""
        self._told: tuple[ToLearn, ...] = ()
        self._due_ms = 0
        self._asked_in: tuple[str, Epoch | None] = ("", None)
        self._ready: frozenset[TaskId] = frozenset()

    def question(
        self,
        standing: LearnerStanding,
        learned: Mapping[TaskId, LearnerProgress],
        now_ms: int,
        loading: Collection[TaskId] = (),
    ) -> LearnerReport | None:
        """The report that is due now; answer it with ``answered`` or ``failed``. None: none is due.

        The progress of tasks that are ``loading`` is unknown once the rest is within the acceptable lag: a
        state smaller than that has not caught up before it is read, and its query would start cold.
        """
        self.is_asked = asks_for_learners(standing.config)
        if not self.is_asked:
            self._told = ()
            return None
        if not (standing.member_id and standing.leader_url):
            return None
        learned = self._without_early(learned, loading)
        asked_in, ready = (standing.member_id, standing.applied), self._ready_of(learned)
        if now_ms < self._due_ms and asked_in == self._asked_in and ready == self._ready:
            return None
        self._asked_in, self._ready = asked_in, ready
        self._due_ms = now_ms + AGAIN_MS
        return LearnerReport(standing.member_id, learned)

    def answered(self, answer: LearnerAnswer, now_ms: int) -> None:
        self._told = answer.learn
        self._due_ms = now_ms + max(answer.again_ms, 1)

    def failed(self, now_ms: int) -> None:
        """There was no answer that counts: the last answer still holds."""
        self._due_ms = now_ms + AGAIN_MS

    def wanted(self, standing: LearnerStanding) -> dict[TaskId, Mapping[str, str]]:
        """Returns the tasks of the last answer that are not owned, each with its configuration."""
        wanted: dict[TaskId, Mapping[str, str]] = {}
        for each in self._told:
            config = None if each.task in standing.owned else standing.config.task_config(each.task)
            if config is not None:
                wanted[each.task] = config
        return wanted

    def _without_early(
        self, learned: Mapping[TaskId, LearnerProgress], loading: Collection[TaskId]
    ) -> Mapping[TaskId, LearnerProgress]:
        limits_bytes = {each.task: each.acceptable_lag_bytes for each in self._told}

        def is_early(task: TaskId, each: LearnerProgress) -> bool:
            return task in loading and (each.behind_bytes or 0) <= limits_bytes.get(task, 0)

        return {
            task: each._replace(behind_bytes=None) if is_early(task, each) else each
            for task, each in learned.items()
        }

    def _ready_of(self, learned: Mapping[TaskId, LearnerProgress]) -> frozenset[TaskId]:
        limits_bytes = {each.task: each.acceptable_lag_bytes for each in self._told}
        return frozenset(task for task, each in learned.items() if _may_move(each, limits_bytes.get(task)))


def _may_move(learned: LearnerProgress, limit_bytes: int | None) -> bool:
    if limit_bytes is None or learned.behind_bytes is None:
        return bool(learned.problem)
    return learned.behind_bytes <= limit_bytes
