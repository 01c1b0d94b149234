"""The members' reports of the tasks whose state they learn. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from cooperator.leader import events as ev
from cooperator.model import (
    LEARNERS_VALID_MS,
    ConnectorConfig,
    LearnerProgress,
    Member,
    Memory,
    StateReplicas,
    TaskId,
    ToLearn,
)
from cooperator.planner.learners import learned_by


@dataclass(slots=True)
class LearnerReports:
    """The last report of each member, by member id, with the time (ms) at which it was heard.

    ``stateful``: the connectors whose tasks have state, by the config log.
    """

    reports: dict[str, tuple[int, Mapping[TaskId, LearnerProgress]]] = field(default_factory=dict)
    stateful: Mapping[str, StateReplicas] = field(default_factory=dict)
    _of: Mapping[str, ConnectorConfig] | None = None

    def configured(self, connectors: Mapping[str, ConnectorConfig]) -> None:
        """The config log's connectors; the same object is not looked at again."""
        if self._of is connectors:
            return
        self._of = connectors
        found = ((name, StateReplicas.of(each.config)) for name, each in connectors.items())
        self.stateful = {name: replicas for name, replicas in found if replicas is not None}

    def hear(self, event: ev.LearnerReported, members: Iterable[Member], now_ms: int) -> bool:
        """Note a report. Returns whether a task has become ready to move to that member, or is no longer.

        Reports of members of former rounds are dropped.
        """
        ids = {member.member_id for member in members}
        if event.member_id not in ids:
            return False
        before = self._ready(event.member_id, now_ms)
        self.reports = {i: report for i, report in self.reports.items() if i in ids}
        self.reports[event.member_id] = now_ms, event.learned
        return self._ready(event.member_id, now_ms) != before

    def clear(self) -> None:
        self.reports = {}

    def of(self, member_id: str, now_ms: int) -> Mapping[TaskId, LearnerProgress]:
        """The last report of a member, if it still counts."""
        heard_ms, learned = self.reports.get(member_id, (0, {}))
        return learned if now_ms < heard_ms + LEARNERS_VALID_MS else {}

    def behind_bytes(
        self, members: Iterable[Member], now_ms: int
    ) -> dict[tuple[str, str], Mapping[TaskId, int]]:
        """As ``View.behind_bytes``."""
        found: dict[tuple[str, str], Mapping[TaskId, int]] = {}
        for member in members if self.reports else ():
            learned = self.of(member.member_id, now_ms)
            known = {task: each.behind_bytes for task, each in learned.items()}
            behind = {task: value for task, value in known.items() if value is not None}
            if behind:
                found[member.identity, member.incarnation] = behind
        return found

    def cannot(self, members: Iterable[Member], now_ms: int) -> dict[tuple[str, str], frozenset[TaskId]]:
        """As ``View.cannot_learn``."""
        found: dict[tuple[str, str], frozenset[TaskId]] = {}
        for member in members if self.reports else ():
            learned = self.of(member.member_id, now_ms)
            refused = frozenset(task for task, each in learned.items() if each.problem)
            if refused:
                found[member.identity, member.incarnation] = refused
        return found

    def _ready(self, member_id: str, now_ms: int) -> frozenset[TaskId]:
        return frozenset(
            task
            for task, each in self.of(member_id, now_ms).items()
            if (replicas := self.stateful.get(task.connector)) is not None
            and (each.problem or _within(each.behind_bytes, replicas.acceptable_lag_bytes))
        )


def _within(behind_bytes: int | None, limit_bytes: int) -> bool:
    return behind_bytes is not None and behind_bytes <= limit_bytes


def to_learn(
    reports: LearnerReports, memory: Memory, members: Iterable[Member], member_id: str, now_ms: int
) -> tuple[ToLearn, ...] | None:
    """The tasks that the member is to learn now, without those that it runs; None: it was not in the last
    round."""
    member = next((each for each in members if each.member_id == member_id), None)
    if member is None:
        return None
    learned = learned_by(memory, reports.stateful, member.identity, now_ms)
    owned: Collection[TaskId] = frozenset(member.owned) if learned else ()
    return tuple(
        ToLearn(task, role, reports.stateful[task.connector].acceptable_lag_bytes)
        # A member that has room for some of them only takes the first ones.
        for task, role in sorted(learned.items(), key=lambda each: (each[1] != "warmup", each[0]))
        if task not in owned
    )


def shown(
    reports: LearnerReports, memory: Memory, members: Iterable[Member]
) -> dict[TaskId, list[dict[str, object]]]:
    """Per task, its learners: for people. ``heard_ms``: when that member last reported; 0: never."""
    found: dict[TaskId, list[dict[str, object]]] = {}
    for member in members if reports.stateful else ():
        heard_ms, learned = reports.reports.get(member.member_id, (0, {}))
        # A warm-up that is given up is shown, too, until its task has moved.
        roles = learned_by(memory, reports.stateful, member.identity, 0)
        for task, role in roles.items():
            known = learned.get(task, LearnerProgress(None))
            found.setdefault(task, []).append(
                {
                    "member": member.identity,
                    "role": role,
                    "behind_bytes": known.behind_bytes,
                    "caught_up": _within(
                        known.behind_bytes, reports.stateful[task.connector].acceptable_lag_bytes
                    ),
                    "problem": known.problem,
                    "heard_ms": heard_ms,
                }
            )
    return found


def learning_of(before: Memory, after: Memory) -> tuple[str, ...]:
    """Returns in words how two memories differ in learners and in members that keep tasks for them."""
    said = {
        "warm-ups": (before.warmups, after.warmups),
        "standbys": (before.standbys, after.standbys),
        "departures": (before.departing.keys(), after.departing.keys()),
    }
    return tuple(what for what, (was, will_be) in said.items() if was != will_be)
