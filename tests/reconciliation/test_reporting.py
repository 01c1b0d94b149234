"""A member's own rules: one report at a time, and only the answer to it, in time and from the same leader."""

from cooperator.model import TaskId
from cooperator.reconciliation import (
    Answer,
    MemberState,
    Rejection,
    ReportingMember,
    apply_answer,
    next_report,
    told_term,
)
from cooperator.reconciliation.reporting import NO_TERM

T = TaskId("c", 0)
RETRY_MS, LEASE_MS = 3_000, 40_000


def reporting(now_ms: int = 0) -> ReportingMember:
    """A member whose first report is on its way to the leader of term 5."""
    member, report = next_report(told_term(ReportingMember("a", "a#1"), 5), (), now_ms, RETRY_MS)
    assert report is not None
    assert (report.term, report.sequence, report.member_epoch) == (5, 1, 0)
    return member


def answer(sequence: int, epoch: int = 7) -> Answer:
    return Answer(sequence, epoch, MemberState.STABLE, {T: epoch})


def test_an_answer_is_applied_once_and_the_next_report_has_its_epoch() -> None:
    member, may_run = apply_answer(reporting(), answer(1), 1, 100, LEASE_MS)
    assert may_run == {T}
    assert apply_answer(member, answer(1), 1, 200, LEASE_MS) == (member, None)

    member, report = next_report(member, (T,), 300, RETRY_MS)
    assert (report.sequence, report.member_epoch, report.owned) == (2, 7, {T})


def test_without_a_leader_nothing_is_reported() -> None:
    member = ReportingMember("a", "a#1")
    assert next_report(member, (), 0, RETRY_MS) == (member, None)


def test_one_report_is_on_its_way() -> None:
    member = reporting()
    assert next_report(member, (), RETRY_MS - 1, RETRY_MS) == (member, None)


def test_the_answer_to_a_report_that_was_given_up_is_not_applied() -> None:
    member, again = next_report(reporting(), (), RETRY_MS, RETRY_MS)
    assert again.sequence == 2

    assert apply_answer(member, answer(1), 1, RETRY_MS + 1, LEASE_MS) == (member, None)
    _, may_run = apply_answer(member, answer(2), 2, RETRY_MS + 2, LEASE_MS)
    assert may_run == {T}


def test_an_answer_that_comes_after_the_lease_starts_nothing() -> None:
    _, may_run = apply_answer(reporting(1_000), answer(1), 1, 1_000 + LEASE_MS, LEASE_MS)
    assert may_run is None
    _, may_run = apply_answer(reporting(1_000), answer(1), 1, 999 + LEASE_MS, LEASE_MS)
    assert may_run == {T}


def test_after_a_round_of_another_leader_its_predecessor_is_not_obeyed() -> None:
    member = told_term(reporting(), 6)
    assert apply_answer(member, answer(1), 1, 100, LEASE_MS) == (member, None)
    assert told_term(member, NO_TERM).term == NO_TERM

    member, report = next_report(member, (), 100, RETRY_MS)
    assert (report.term, report.sequence) == (6, 2)


def test_a_rejected_member_stops_everything_and_starts_over() -> None:
    member, _ = apply_answer(reporting(), answer(1), 1, 100, LEASE_MS)
    member, report = next_report(member, (T,), 200, RETRY_MS)
    member, may_run = apply_answer(member, Rejection.FENCED_MEMBER_EPOCH, report.sequence, 300, LEASE_MS)
    assert may_run == frozenset()
    _, report = next_report(member, (), 400, RETRY_MS)
    assert report.member_epoch == 0


def test_a_rejection_for_an_earlier_leader_stops_nothing() -> None:
    member, may_run = apply_answer(reporting(), Rejection.FENCED_LEADER_EPOCH, 1, 100, LEASE_MS)
    assert may_run is None
    assert next_report(member, (), 101, RETRY_MS)[1] is not None
