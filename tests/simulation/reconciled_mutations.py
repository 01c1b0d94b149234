"""Planted bugs of groups that reconcile without rounds; see ``mutations``."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

from cooperator.agent import reports
from cooperator.agent.state import Settings, State
from cooperator.leader import events as ev
from cooperator.leader import held_reports, reconciled
from cooperator.leader.group_log import GroupLog
from cooperator.leader.reconciled import Reconciled
from cooperator.reconciliation import ReconciledGroup, Report, depart, end, handle_report
from tests.simulation.planted import Patch
from tests.simulation.planted import planted as planted_in_rounds

FAST = ("GivesWhatAnotherOneIsStopping", "ReportsOnlyWhatItKeeps")
"""As in ``mutations``."""

planted = partial(planted_in_rounds, reconciling=1.0)
planted_with_older_members: Callable[..., Any] = partial(planted_in_rounds, reconciling=0.9)


# The leader


@planted
def answers_before_it_saves() -> Sequence[Patch]:
    """The answer to a report is sent before the leader log says what it gives."""
    right = Reconciled.consider

    def wrong(self: Reconciled, now_ms: int) -> list[ev.Instruction]:
        out = right(self, now_ms)
        return [*self._reports.release(), *out]

    return [patch.object(Reconciled, "consider", wrong)]


@planted
def takes_a_departed_member_for_dead() -> Sequence[Patch]:
    """Tasks of a departed member are free at once."""

    def wrong(group: ReconciledGroup, identity: str, now_ms: int, fence_ms: int) -> ReconciledGroup:
        return end(group, identity, group.members[identity].incarnation)

    return [patch.object(reconciled, "depart", wrong), _planner_without_fences()]


@planted
def fences_for_a_moment() -> Sequence[Patch]:
    """The fence around a departed member is much shorter than its lease."""

    def wrong(group: ReconciledGroup, identity: str, now_ms: int, fence_ms: int) -> ReconciledGroup:
        return depart(group, identity, now_ms, 500)

    return [patch.object(reconciled, "depart", wrong), _planner_without_fences()]


@planted
def gives_what_another_one_is_stopping() -> Sequence[Patch]:
    """A member is given its target, whoever has not released it."""

    def wrong(group: ReconciledGroup, report: Report, now_ms: int, timeout_ms: int) -> Any:
        return handle_report(replace(group, occupants={}), report, now_ms, timeout_ms)

    return [patch.object(held_reports, "handle_report", wrong)]


@planted
def forgets_the_group_of_the_leader_before() -> Sequence[Patch]:
    """A new leader goes on with a group in which nobody has anything."""
    right = GroupLog.read

    def wrong(self: GroupLog, records: Any, term: int) -> ReconciledGroup | None:
        group = right(self, records, term)
        return None if group is None else replace(group, members={}, fences={}, occupants={})

    return [patch.object(GroupLog, "read", wrong)]


@planted_with_older_members
def leaves_rounds_without_what_members_run() -> Sequence[Patch]:
    """The group that leaves rounds has members without tasks."""
    right = Reconciled.begin

    def wrong(self: Reconciled, members: Any, known: Any, now_ms: int) -> str:
        empty = None if known is None else tuple(m.having((), frozenset(), m.applied) for m in known)
        return right(self, members, empty, now_ms)

    return [patch.object(Reconciled, "begin", wrong)]


# The member


@planted
def reports_only_what_it_keeps() -> Sequence[Patch]:
    """A member reports a task as released when it begins to stop it."""
    right = reports.due

    def wrong(state: State, settings: Settings) -> list[Any]:
        kept = frozenset(key for key, task in state.tasks.items() if task.keep)
        sent: list[Any] = right(state, settings)
        return [replace(send, report=replace(send.report, owned=kept, stopping=frozenset())) for send in sent]

    return [patch.object(reports, "due", wrong)]


def _planner_without_fences() -> Patch:
    """The planner's own fences would hide that the group has none."""
    from cooperator.planner import holds

    return patch.object(holds._Settling, "_fence", lambda self: {})


RECONCILED = (
    "AnswersBeforeItSaves",
    "TakesADepartedMemberForDead",
    "FencesForAMoment",
    "GivesWhatAnotherOneIsStopping",
    "ForgetsTheGroupOfTheLeaderBefore",
    "LeavesRoundsWithoutWhatMembersRun",
    "ReportsOnlyWhatItKeeps",
)
