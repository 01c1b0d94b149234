"""A ``FakeGroup`` whose members can reconcile without rounds: the broker chooses the protocol they offer."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from cooperator.leader import events as ev
from cooperator.model import Epoch, Member, Policy, TaskId, TaskState
from cooperator.reconciliation import (
    Answer,
    Records,
    Rejection,
    Report,
    ReportingMember,
    apply_answer,
    next_report,
    told_term,
)
from cooperator.wire import decode_assignment
from tests.harness.fake_group import FakeGroup, FakeMember, tasks

RECONCILED = "reconciled"


@dataclass
class Reporter:
    """The reports of one member: ``request`` is that of the last one, ``report`` what it said."""

    side: ReportingMember
    request: int = 0
    report: Report | None = None


class ReconcilingGroup(FakeGroup):
    """Reports are sent by ``report``.

    ``older``: identities of members of an earlier release. ``deaf``: of those that have not read the policy.
    The members ``frozen`` read answers, and report, when they go on.
    """

    def __init__(self, policy: Policy | None = None, **settings: Any) -> None:
        self.log: dict[Any, Any] = {}
        self.older: set[str] = set()
        self.deaf: set[str] = set()
        self.frozen: set[str] = set()
        self.unread: dict[str, tuple[int, Answer | Rejection | None]] = {}
        """The last answer to each frozen member."""
        self.reporters: dict[str, Reporter] = {}
        self.report_answers: dict[int, Answer | Rejection | None] = {}
        self.writes: list[Records] = []
        self.reports = 0
        """The number of the last report's request."""
        self.has_led = False
        super().__init__(replace(policy or Policy(), reconciles=True), **settings)

    @property
    def is_reconciled(self) -> bool:
        return self.machine.state.group is not None

    def take_lead(self, *evicted: Member, unread: Iterable[Member] = ()) -> None:
        self._do(
            ev.LeadTaken(
                self.saved, self.fold.snapshot(), tuple(evicted), tuple(unread), None, dict(self.log)
            )
        )
        self.has_led = False

    def round(self, *, deliver: bool = True, lost_to: Collection[str] = ()) -> None:
        is_offered = self.machine.offers_reconciliation or (not self.has_led and bool(self.log))
        unable = self.older | self.deaf
        able = [m for m in self.members.values() if m.is_agent and m.identity not in unable]
        self.protocol = RECONCILED if is_offered and len(able) == len(self.members) else "sessioned"
        self.has_led = True
        super().round(deliver=deliver, lost_to=lost_to)
        if self.is_reconciled and deliver:
            for member in [*self.members.values()]:
                if member.identity not in {*lost_to, *self.frozen}:
                    self.report(member)

    # --- members ---

    def reported(self, member: FakeMember) -> Member:
        said = replace(super().reported(member), reconciles=member.identity not in self.older)
        return said.having((), frozenset(), said.applied) if self.protocol == RECONCILED else said

    def report(self, member: FakeMember) -> None:
        """The member posts a report, as after every answer; none before its first round."""
        if member.member_id not in self.reporters:
            return
        reporter = self.reporters[member.member_id]
        owned = member.running | member.stopping
        reporter.side = replace(reporter.side, sent_ms=None)
        reporter.side, report = next_report(reporter.side, owned, self.now_ms, 0)
        if report is None:
            return
        self.reports += 1
        reporter.request = self.reports
        reporter.report = replace(
            report,
            stopping=frozenset(member.stopping),
            draining=member.draining,
            warmth=member.warmth,
        )
        self._do(ev.ReportsReceived(((self.reports, reporter.report),)))

    def freeze(self, identity: str) -> None:
        self.frozen.add(identity)

    def thaw(self, identity: str) -> None:
        self.frozen.remove(identity)
        if identity in self.unread:
            request, answer = self.unread.pop(identity)
            self._hear(self.of(identity), request, answer)
        else:
            self.report(self.of(identity))

    def is_held(self, identity: str) -> bool:
        """Whether the leader holds the last report of a member."""
        return self.reporters[self.of(identity).member_id].request not in self.report_answers

    def release(self, identity: str) -> None:
        """Finish the member's stops and report them."""
        member = self.of(identity)
        self.stop(member)
        self.report(member)

    def settle(self, rounds: int = 20) -> int:
        for count in range(rounds * 3):
            revoked = [m for m in self.members.values() if m.stopping]
            if self.is_reconciled:
                for member in revoked:
                    self.release(member.identity)
            if self.is_reconciled and not revoked and not self.asks_for_round():
                return count
            if not self.is_reconciled or self.rejoins:
                for member in revoked:
                    self.stop(member)
                if not revoked and not self.asks_for_round():
                    return count
                self.round()
        raise AssertionError(f"not at rest after {rounds} rounds; asked: {self.rejoins}")

    def _take_up(self, member: FakeMember, data: bytes) -> None:
        super()._take_up(member, data)
        assignment = decode_assignment(data)
        if assignment.error or assignment.agent is None:
            return
        if self.protocol != RECONCILED:
            self.reporters.pop(member.member_id, None)
            return
        fresh = Reporter(ReportingMember(member.identity, f"incarnation-{member.incarnation}"))
        reporter = self.reporters.setdefault(member.member_id, fresh)
        term = assignment.agent.epoch.term
        if term != reporter.side.term:
            reporter.side = replace(told_term(reporter.side, term), member_epoch=0)

    def _obey(self, request: int, answer: Answer | Rejection | None) -> None:
        assert request not in self.report_answers, "a report has one answer"
        self.report_answers[request] = answer
        for member in [*self.members.values()]:
            if member.identity in self.frozen and self._asked(member, request):
                self.unread[member.identity] = request, answer
            else:
                self._hear(member, request, answer)

    def _asked(self, member: FakeMember, request: int) -> bool:
        reporter = self.reporters.get(member.member_id)
        return reporter is not None and reporter.request == request

    def _hear(self, member: FakeMember, request: int, answer: Answer | Rejection | None) -> None:
        if answer is None or not self._asked(member, request):
            return
        reporter = self.reporters[member.member_id]
        self._apply(member, reporter, answer)
        # A draining member that has nothing leaves.
        is_over = member.draining and not reporter.report.owned
        is_asked = answer is Rejection.STALE_REPORT
        if (isinstance(answer, Answer) and not is_over) or is_asked:
            self.report(member)

    def _apply(self, member: FakeMember, reporter: Reporter, answer: Answer | Rejection) -> None:
        reporter.side, may_run = apply_answer(
            reporter.side, answer, reporter.side.sequence, self.now_ms, 40_000
        )
        if may_run is None:
            return
        group_epoch = answer.group_epoch if isinstance(answer, Answer) else 0
        member.stopping |= member.running - may_run
        member.running &= may_run
        for task in sorted(may_run - member.running):
            member.stopping.discard(task)
            member.running.add(task)
            member.starts.append(task)
            member.epochs[task] = Epoch(reporter.side.term, group_epoch)
            self.started.add((task, member.member_id, member.epochs[task]))
            self._say(member, task, TaskState.STARTING)
        self.check()

    # --- the wiring ---

    def _carry_out(self, instruction: ev.Instruction) -> bool:
        match instruction:
            case ev.SaveMemory(memory, records, number):
                if self.save_fails:
                    return False
                self._log(records)
                self.saved = memory
                self._step(ev.MemorySaved(memory, number))
                return True
            case ev.SaveGroup(number, records, memory):
                if self.save_fails:
                    return False
                self.writes.append(records)
                self._log(records)
                self.saved = memory or self.saved
                self._step(ev.GroupSaved(number))
                return True
            case ev.AnswerReport(request, answer):
                self.later.append(_Answered(self, request, answer))  # type: ignore[arg-type]
                return True
        return super()._carry_out(instruction)

    def _step(self, event: ev.Event) -> None:
        if isinstance(event, _Answered):
            event.arrive()
        else:
            super()._step(event)

    def _log(self, records: Records) -> None:
        self.log.update(records)
        self.log = {key: value for key, value in self.log.items() if value is not None}

    def _give(self, member: FakeMember, data: bytes, before: dict[TaskId, tuple[str, Epoch]]) -> None:
        if self.protocol != RECONCILED:
            super()._give(member, data, before)


@dataclass
class _Answered:
    """An answer on its way to a member."""

    group: ReconcilingGroup
    request: int
    answer: Answer | Rejection | None

    def arrive(self) -> None:
        self.group._obey(self.request, self.answer)


def reconciled_group(
    policy: Policy | None = None, members: int = 3, task_count: int = 6, **settings: Any
) -> ReconcilingGroup:
    """A settled group that runs connector ``a`` without rounds."""
    group = ReconcilingGroup(policy, **settings)
    for number in range(members):
        group.join(f"lake-{number}")
    group.round()
    group.desire(a=task_count)
    group.settle()
    assert group.post("a", *(f"u{n}" for n in range(task_count))) == 204
    group.settle()
    assert group.is_reconciled
    assert set(group.all_running()) == tasks("a", -1, *range(task_count))
    return group
