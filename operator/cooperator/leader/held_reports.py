"""The reports of a reconciled group's members: each is answered when there is news for its member. Pure.

A report that is held counts as not considered, so it may be considered later: its member has been given
nothing since. New tasks are not given in answer to it, since the member may be frozen by now. The member is
asked for another report first, and the tasks may go to others if it does not take them up (``patience``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cooperator.leader import events as ev
from cooperator.leader.state import LeaderSettings, LeaderState
from cooperator.model import Member, TaskId
from cooperator.reconciliation import (
    Answer,
    CurrentAssignment,
    MemberState,
    ReconciledGroup,
    Rejection,
    Report,
    end,
    handle_report,
    late,
    waiting,
    waits,
    withdrawn,
)
from cooperator.reconciliation.patience import PATIENCE_MS

HELD_PARTS = 3
"""A report without news is answered after this part of the lease."""
BUSY_MS = 5_000
"""A leader that never comes to an end of its events counts members as late after this time."""
JOINED_MS = 1_000
"""Tasks move to members that have joined once all of these have reported, or after this time: a task that
moved to the first of them would move again to the next."""
_LOOK_AGAIN_MS = 10


@dataclass(frozen=True, slots=True)
class _Held:
    """A report that waits for news, at most until ``until_ms``."""

    request: int
    report: Report
    until_ms: int


class HeldReports:
    """Takes reports while ``state`` has a group. ``ready``: answers that wait for the group to be durable.
    ``asking``: those that give nothing and wait for nothing.
    """

    def __init__(self, settings: LeaderSettings, state: LeaderState) -> None:
        self._settings = settings
        self._state = state
        self._held: dict[str, _Held] = {}
        self._heard_ms: dict[str, int] = {}
        self._answering: dict[str, tuple[int, Report]] = {}
        """The last request of each member that was answered, with its report."""
        self.ready: list[ev.AnswerReport] = []
        self.asking: list[ev.AnswerReport] = []
        self._joined_ms = 0
        """The time of the last round."""
        self._silent: set[str] = set()
        """The members that have not reported since they joined."""
        self._waits_ms: Mapping[str, int] = {}
        """Until when new tasks wait for each member."""
        self._late: frozenset[str] = frozenset()
        """The members that have not taken them up in time, until they report again and release nothing."""
        self._own: Mapping[str, frozenset[TaskId]] = {}
        """The tasks that were held for members which are back, and have not reported when they joined."""

    def clear(self) -> list[ev.AnswerReport]:
        """Forget everything; returns the replies to the reports that wait."""
        requests = [held.request for held in self._held.values()]
        requests += [ready.request for ready in (*self.ready, *self.asking)]
        self._held, self._heard_ms, self.ready, self.asking = {}, {}, [], []
        self._answering, self._waits_ms, self._late, self._own = {}, {}, frozenset(), {}
        self._silent = set()
        return [ev.AnswerReport(request, None) for request in requests]

    def dismiss(self) -> None:
        """The group is in rounds again: no report is answered, nor one whose answer waits for the log."""
        self.ready = self.clear()

    def release(self) -> list[ev.Instruction]:
        """The answers that are ready."""
        ready, self.ready = self.ready, []
        return [*self.ask(), *ready]

    def ask(self) -> list[ev.Instruction]:
        """The answers that ask for another report."""
        asking, self.asking = self.asking, []
        return [*asking]

    def expect(self, group: ReconciledGroup, now_ms: int) -> None:
        """A round has made these the members."""
        self.ready += [
            ev.AnswerReport(held.request, None)
            for identity, held in self._held.items()
            if not _is_member(group, held.report)
        ]
        self._held = {i: held for i, held in self._held.items() if _is_member(group, held.report)}
        self._joined_ms = now_ms
        self._silent = {i for i, m in group.members.items() if m.sequence == 0}
        # They have not reported while they joined.
        self._heard_ms = dict.fromkeys(group.members, now_ms)
        self._waits_ms, self._late = {}, frozenset()
        self._own = {i: group.target_of(i).tasks for i, m in group.members.items() if m.sequence == 0}

    def look(self, now_ms: int) -> None:
        """Note for which members new tasks wait, and which of them are late.

        None is late while its report may be among the events that a busy leader has not handled.
        """
        group = self._state.group
        assert group is not None
        self._waits_ms = waits(self._waits_ms, group, now_ms, self._own)
        found = late(self._waits_ms, group, now_ms if self._state.is_idle else now_ms - BUSY_MS)
        self._late = (self._late | found) & group.members.keys()

    def slow(self, now_ms: int) -> frozenset[str]:
        """The members that new tasks need not wait for: those that were late, or have never reported.

        While one is late, all that have been releasing tasks for a while count: a new task must not wait for
        one slow member after the other. A process that has just joined may be slow to report, and no task is
        to be stopped for it before it does.
        """
        group = self._state.group
        if group is None:
            return frozenset()
        unheard = self._unheard(group, now_ms)
        if not self._late:
            return unheard
        begun_ms = now_ms + self._settings.revocation_timeout_ms - PATIENCE_MS
        revoking = (
            i for i, m in group.members.items() if m.revoke_by_ms is not None and m.revoke_by_ms <= begun_ms
        )
        return unheard.union(self._late, revoking)

    def _unheard(self, group: ReconciledGroup, now_ms: int) -> frozenset[str]:
        silent = frozenset(i for i in self._silent & group.members.keys() if not group.target_of(i).tasks)
        if not silent or now_ms >= self._joined_ms + JOINED_MS:
            return silent
        return frozenset(i for i in group.members if not group.target_of(i).tasks)

    def withdrawn(self, now_ms: int) -> Mapping[str, frozenset[TaskId]]:
        """The new tasks that need not wait for their members."""
        group = self._state.group
        return {} if group is None else withdrawn(group, self.slow(now_ms), self._own)

    def silent(self, now_ms: int) -> str:
        """A member that has sent no report for a lease, though the broker counts it; empty if there is none.

        It does not reach this leader, and would neither start nor release a task.
        """
        state = self._state
        ended = {
            identity for identity, incarnation in state.facts.ended if self._is_here(identity, incarnation)
        }
        silent = (i for i, at_ms in self._heard_ms.items() if now_ms - at_ms > state.policy.lease_ms)
        return next((i for i in silent if i not in self._held and i not in ended), "")

    def _is_here(self, identity: str, incarnation: str) -> bool:
        return any((m.identity, m.incarnation) == (identity, incarnation) for m in self._state.members)

    def hear(self, event: ev.ReportsReceived, now_ms: int) -> list[ev.Instruction]:
        """Take reports. Each is answered at once if there is news for its member, and is held otherwise."""
        out: list[ev.Instruction] = []
        for request, report in event.reports:
            if self._state.group is None:
                out.append(ev.AnswerReport(request, None))
            else:
                out += self._hear(self._state.group, request, report, now_ms)
        return out

    def consider(self, now_ms: int) -> None:
        """Answer the reports for whose members there is news, or that have been held for long."""
        group = self._state.group
        assert group is not None
        self._drop_answers_to_strangers(group)
        news = {*waiting(group)} if self._held else frozenset[str]()
        for identity, held in [*self._held.items()]:
            if identity in news or held.until_ms <= now_ms:
                del self._held[identity]
                self._consider(held.request, held.report, now_ms, is_held=True)
        self.look(now_ms)

    def next_ms(self, now_ms: int) -> list[int]:
        """Times (ms) at which a report has been held for long, or a member is silent."""
        patience_ms = self._state.policy.lease_ms
        silent = (at_ms + patience_ms + 1 for i, at_ms in self._heard_ms.items() if i not in self._held)
        held = (held.until_ms for held in self._held.values())
        waits_ms = (at_ms for i, at_ms in self._waits_ms.items() if i not in self._late)
        looks = (max(at_ms, now_ms + _LOOK_AGAIN_MS) for at_ms in waits_ms)
        return [*held, *silent, self._joined_ms + JOINED_MS, *looks]

    def _hear(
        self, group: ReconciledGroup, request: int, report: Report, now_ms: int
    ) -> list[ev.Instruction]:
        if not _is_member(group, report):
            return [ev.AnswerReport(request, self._of_stranger(group, report))]
        out: list[ev.Instruction] = []
        held = self._held.get(report.identity)
        if held is not None and report.term == group.term:
            if report.sequence <= held.report.sequence:
                return [ev.AnswerReport(request, Rejection.DUPLICATE_SEQUENCE_NUMBER)]
            del self._held[report.identity]
            out.append(ev.AnswerReport(held.request, Rejection.DUPLICATE_SEQUENCE_NUMBER))
        if self._consider(request, report, now_ms, is_held=False):
            self._heard_ms[report.identity] = now_ms
            self._silent.discard(report.identity)
            self._is_back(report.identity)
            self._note(report)
        return out

    def _is_back(self, identity: str) -> None:
        """A member that has reported is not late any more, unless it is still releasing tasks."""
        group = self._state.group
        assert group is not None
        if group.members[identity].current.state is not MemberState.UNREVOKED_TASKS:
            self._late -= {identity}

    def _of_stranger(self, group: ReconciledGroup, report: Report) -> Rejection | None:
        """The answer to an incarnation that is no member of the group."""
        if report.term != group.term or report.identity not in group.members:
            # It may be on its way back, and runs on under its lease.
            return None
        fence = group.fences.get((report.identity, report.incarnation))
        if fence is not None and report.sequence > fence.member.sequence and not report.owned:
            self._state.group = end(group, report.identity, report.incarnation)
        return Rejection.UNKNOWN_MEMBER_ID

    def _consider(self, request: int, report: Report, now_ms: int, is_held: bool) -> bool:
        """Answer the report, or hold it if it brings no news and was not held yet; whether it counts."""
        state, identity = self._state, report.identity
        before = state.group
        assert before is not None
        self._drop_answer_before(report)
        timeout_ms = self._settings.revocation_timeout_ms
        after, answer = handle_report(before, report, now_ms, timeout_ms, is_held)
        if answer is Rejection.STALE_REPORT:
            state.group = after
            self.asking.append(ev.AnswerReport(request, answer))
            return True
        if isinstance(answer, Rejection):
            self.ready.append(ev.AnswerReport(request, answer))
            return False
        steps = _differs(after.members[identity].current, before.members[identity].current)
        if not (steps or is_held or _is_news(answer, report)):
            until_ms = now_ms + state.policy.lease_ms // HELD_PARTS
            self._held[identity] = _Held(request, report, until_ms)
            return True
        state.group = after
        if steps:
            state.members = tuple(
                as_reported(after, member) if member.identity == identity else member
                for member in state.members
            )
        answer = replace(answer, config_offset=state.config.offset)
        self._answering[identity] = request, report
        self.ready.append(ev.AnswerReport(request, answer))
        return True

    def _drop_answer_before(self, report: Report) -> None:
        """An answer that has waited for the log is out of date once its member has reported again."""
        request, answered = self._answering.get(report.identity, (0, report))
        if answered.sequence < report.sequence:
            self._replace(request, Rejection.DUPLICATE_SEQUENCE_NUMBER)

    def _drop_answers_to_strangers(self, group: ReconciledGroup) -> None:
        """An answer that has waited for the log gives nothing to a member that has departed meanwhile."""
        for request, report in self._answering.values() if self.ready else ():
            if not _is_member(group, report):
                self._replace(request, None)

    def _replace(self, request: int, answer: Rejection | None) -> None:
        replaced = ev.AnswerReport(request, answer)
        self.ready = [replaced if ready.request == request else ready for ready in self.ready]

    def _note(self, report: Report) -> None:
        """Take over what the report says about the member itself."""
        state = self._state
        said = (report.draining, report.warmth)
        who = (report.identity, report.incarnation)
        state.members = tuple(
            replace(member, draining=report.draining, warmth=report.warmth)
            if (member.identity, member.incarnation) == who and (member.draining, member.warmth) != said
            else member
            for member in state.members
        )


def as_reported(group: ReconciledGroup, member: Member) -> Member:
    """The member with all that it may run."""
    known = group.members.get(member.identity)
    if known is None or known.incarnation != member.incarnation:
        fence = group.fences.get((member.identity, member.incarnation))
        known = None if fence is None else fence.member
    if known is None:
        return member.having((), frozenset(), member.applied)
    current = known.current
    owned = tuple(sorted(current.occupied))
    return member.having(owned, frozenset(current.pending_revocation), member.applied)


def _is_member(group: ReconciledGroup, report: Report) -> bool:
    member = group.members.get(report.identity)
    return member is not None and member.incarnation == report.incarnation


def _differs(after: CurrentAssignment, before: CurrentAssignment) -> bool:
    """Whether a step has changed anything: a member that waits for others steps at every report."""
    return (
        after is not before and replace(after, previous_member_epoch=before.previous_member_epoch) != before
    )


def _is_news(answer: Answer, report: Report) -> bool:
    """Whether the answer says something that the member does not do yet, or that it waits for."""
    if answer.member_epoch != report.member_epoch:
        return True
    if report.draining and not report.owned:
        return True
    return answer.assigned.keys() != report.owned - report.stopping
