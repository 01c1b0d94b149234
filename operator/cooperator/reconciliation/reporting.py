"""The member's side of reports: when it sends one, and which answers it applies (the rules of
``reports``)."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from cooperator.model import TaskId
from cooperator.reconciliation.reports import Answer, Rejection, Report

NO_TERM = -1


@dataclass(frozen=True, slots=True)
class ReportingMember:
    """The memory that a member has of its reports.

    ``term``: of the leader that the last round named; NO_TERM before that. ``member_epoch``: of the last
    answer it applied; 0 after it was told to stop everything. ``sequence``: number of the last report.
    ``sent_ms``: when that was sent, while its answer may come; otherwise None.
    """

    identity: str
    incarnation: str
    term: int = NO_TERM
    member_epoch: int = 0
    sequence: int = 0
    sent_ms: int | None = None


def told_term(member: ReportingMember, term: int) -> ReportingMember:
    """Return the member after a round has named the leader's term, or NO_TERM when it left the group.

    Answers of the leader before are not applied any more.
    """
    return replace(member, term=term, sent_ms=None) if term != member.term else member


def next_report(
    member: ReportingMember, owned: Collection[TaskId], now_ms: int, retry_ms: int
) -> tuple[ReportingMember, Report | None]:
    """Return the report to send now; None if there is no leader, or while one is on its way.

    A report without an answer after ``retry_ms`` is given up: its answer is not applied when it comes.
    """
    waits = member.sent_ms is not None and now_ms < member.sent_ms + retry_ms
    if member.term == NO_TERM or waits:
        return member, None
    after = replace(member, sequence=member.sequence + 1, sent_ms=now_ms)
    report = Report(
        after.identity, after.incarnation, after.term, after.sequence, after.member_epoch, frozenset(owned)
    )
    return after, report


def apply_answer(
    member: ReportingMember, answer: Answer | Rejection, sequence: int, now_ms: int, lease_ms: int
) -> tuple[ReportingMember, frozenset[TaskId] | None]:
    """Return all tasks that the member may run from now on; None if nothing changes.

    ``sequence``: of the report that is answered. After a rejection the member may have
    to stop everything, which is an empty set.
    """
    if member.sent_ms is None or sequence != member.sequence:
        return member, None
    answered = replace(member, sent_ms=None)
    if now_ms >= member.sent_ms + lease_ms:
        return answered, None
    match answer:
        case Answer():
            return replace(answered, member_epoch=answer.member_epoch), frozenset(answer.assigned)
        case Rejection.UNKNOWN_MEMBER_ID | Rejection.FENCED_MEMBER_EPOCH:
            return replace(answered, member_epoch=0), frozenset()
        case _:
            return answered, None
