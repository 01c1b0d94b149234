"""New tasks run soon, whatever a member does: one that is frozen, slow to release, or about to freeze."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from cooperator.leader import held_reports
from cooperator.leader.observability.projection import is_settled, project
from cooperator.model import INSTANCE, Policy, TaskId
from cooperator.planner.view import Facts
from cooperator.reconciliation import Rejection, handle_report
from cooperator.reconciliation.patience import PATIENCE_MS
from tests.harness.reconciling_group import ReconcilingGroup, reconciled_group

SOON_MS = PATIENCE_MS + 100
LONG_MS = 9_000


def new(name: str) -> TaskId:
    return TaskId(name, INSTANCE)


def next_in_line(group: ReconcilingGroup) -> str:
    """The member that gets the next new connector."""
    group.desire(a=6, probe=1)
    group.advance(100)
    [owner] = [m.identity for m in group.members.values() if new("probe") in m.running]
    group.desire(a=6)
    group.advance(100)
    group.settle()
    return owner


def runs_within(group: ReconcilingGroup, ms: int, **names: int) -> bool:
    """Want these connectors, too; whether their instances run within ``ms``."""
    group.desire(a=6, **names)
    group.advance(ms)
    return {new(name) for name in names} <= {*group.all_running()}


def test_a_new_connector_does_not_wait_for_a_frozen_member() -> None:
    group = reconciled_group()
    frozen = next_in_line(group)
    group.freeze(frozen)
    assert runs_within(group, SOON_MS, b=1)
    assert new("b") not in group.runs(frozen)


def test_a_frozen_member_that_goes_on_starts_nothing_that_has_gone_to_another_one() -> None:
    group = reconciled_group()
    frozen = next_in_line(group)
    group.freeze(frozen)
    assert runs_within(group, SOON_MS, b=1)
    group.thaw(frozen)
    group.check()
    group.settle()
    assert group.all_running().count(new("b")) == 1
    loads = [len(member.running) for member in group.members.values()]
    assert max(loads) - min(loads) <= 2, "instances and tasks are even, each for itself"


def test_it_gets_new_tasks_again_once_it_has_reported() -> None:
    group = reconciled_group()
    frozen = next_in_line(group)
    group.freeze(frozen)
    assert runs_within(group, SOON_MS, b=1)
    assert runs_within(group, 200, b=1, c=1), "it is known to be frozen now"
    group.thaw(frozen)
    group.advance(100)
    group.settle()
    assert runs_within(group, 200, b=1, c=1, d=1, e=1)
    assert {new(name) for name in "bcde"} & group.runs(frozen)


def test_a_member_that_froze_after_an_answer_is_late_as_well() -> None:
    """Its report is on its way for ever, so there is none to answer."""
    group = reconciled_group()
    frozen = next_in_line(group)
    group.desire(a=6, b=1)
    group.freeze(frozen)
    group.advance(SOON_MS)
    others = [m for m in group.members.values() if m.identity != frozen]
    if new("b") not in {*group.all_running()}:
        assert group.machine.state.group is not None
    assert runs_within(group, SOON_MS, b=1, c=1)
    assert any(new("c") in member.running for member in others)


def test_a_new_connector_does_not_wait_for_a_member_that_releases_slowly() -> None:
    group = reconciled_group(members=2)
    group.join("lake-2")
    group.join("lake-3")
    group.round()
    group.advance(100)
    slow = [member for member in group.members.values() if member.stopping]
    assert slow
    waited = 0
    for name in "bcdefgh":
        names = {each: 1 for each in "bcdefgh" if each <= name}
        at_once = runs_within(group, 100, **names)
        waited += not at_once
        assert at_once or runs_within(group, PATIENCE_MS, **names), name
    assert waited == 1, "a connector does not wait for one slow member after the other"
    assert all(member.stopping for member in slow), "they release until the end"
    group.settle()
    loads = [len(member.running) for member in group.members.values()]
    assert max(loads) - min(loads) <= 2


def test_a_task_that_was_given_stays_where_it_was_given() -> None:
    """Only a proof or a lease can tell that a frozen member does not run it."""
    group = reconciled_group(Policy(scheduled_rebalance_max_delay_ms=0))
    owner = next_in_line(group)
    group.desire(a=6, b=1)
    group.advance(100)
    assert new("b") in group.runs(owner)
    group.freeze(owner)
    group.advance(LONG_MS)
    assert new("b") in group.runs(owner)
    group.check()


def test_no_task_stops_for_a_member_that_has_joined_and_has_never_reported() -> None:
    group = reconciled_group()
    starts = {m.identity: [*m.starts] for m in group.members.values()}
    joined = group.join("lake-3")
    group.freeze("lake-3")
    group.round()
    group.advance(LONG_MS)
    assert not [m for m in group.members.values() if m.stopping]
    status = project(group.machine.state, group.statuses)
    assert status["reconciliation"]["state"] == "Assigning"
    assert not is_settled(status)
    assert runs_within(group, 100, b=1), "new tasks go elsewhere"
    assert {m: group.of(m).starts[: len(known)] for m, known in starts.items()} == starts
    group.thaw("lake-3")
    group.settle()
    assert joined.running, "it reports, and gets its share"
    assert not {*joined.running} & {new("b")}


@pytest.mark.parametrize("late_ms", [0, 400])
def test_no_task_moves_twice_as_several_members_join(late_ms: int) -> None:
    group = reconciled_group(task_count=29)
    before = Counter(task for m in group.members.values() for task in m.starts)
    group.join("lake-3")
    group.join("lake-4")
    group.freeze("lake-4")
    group.round()
    group.advance(late_ms)
    for giver in [m.identity for m in group.members.values() if m.stopping]:
        group.release(giver)
    group.advance(50)
    group.thaw("lake-4")
    group.advance(100)
    group.settle()
    started = Counter(task for m in group.members.values() for task in m.starts) - before
    assert group.runs("lake-3") | group.runs("lake-4") == {*started}
    assert group.runs("lake-4")
    assert {*started.values()} == {1}


def test_a_task_that_another_one_releases_for_a_frozen_member_goes_elsewhere() -> None:
    group = reconciled_group()
    group.join("lake-3")
    group.round()
    group.advance(100)
    [giver] = [m for m in group.members.values() if m.stopping]
    moved = set(giver.stopping)
    group.freeze("lake-3")
    group.release(giver.identity)
    group.advance(SOON_MS)
    assert moved <= {*group.all_running()}
    assert not moved & group.runs("lake-3")


def test_with_no_other_member_they_wait_for_the_one_there_is() -> None:
    group = reconciled_group(members=1)
    group.freeze("lake-0")
    writes = len(group.writes)
    assert not runs_within(group, LONG_MS, b=1)
    assert len(group.writes) <= writes + 2, "the leader does not try again and again"
    group.thaw("lake-0")
    group.advance(100)
    assert new("b") in group.runs("lake-0")


def test_a_report_that_was_held_is_answered_with_a_question_that_waits_for_no_log() -> None:
    group = reconciled_group()
    requests = {group.reporters[m.member_id].request for m in group.members.values()}
    group.desire(a=6, b=1)
    group.save_fails = True
    group.advance(100)
    asked = [group.report_answers[request] for request in requests if request in group.report_answers]
    assert asked == [Rejection.STALE_REPORT]
    group.save_fails = False
    group.advance(5_000)
    assert new("b") in {*group.all_running()}


def test_a_member_that_ends_is_no_more_waited_for() -> None:
    group = reconciled_group()
    frozen = next_in_line(group)
    group.freeze(frozen)
    group.desire(a=6, b=1)
    group.advance(60)
    group.die(frozen)
    group.round()
    group.facts(Facts(ended=frozenset(group.dead)))
    group.advance(SOON_MS)
    assert new("b") in {*group.all_running()}


def gives_to_held_reports(group: Any, report: Any, now_ms: int, timeout_ms: int, is_held: bool) -> Any:
    return handle_report(group, report, now_ms, timeout_ms)


def has_endless_patience(until_ms: Any, group: Any, now_ms: int) -> frozenset[str]:
    return frozenset()


@pytest.mark.parametrize(
    ("name", "bug"), [("handle_report", gives_to_held_reports), ("late", has_endless_patience)]
)
def test_each_rule_is_needed(name: str, bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_reports, name, bug)
    group = reconciled_group()
    group.freeze(next_in_line(group))
    assert not runs_within(group, SOON_MS, b=1)


def test_an_earlier_leader_s_question_changes_nothing() -> None:
    group = reconciled_group()
    member = group.of("lake-1")
    group.report(member)
    held = group.reporters[member.member_id].report
    known = group.machine.state.group
    assert known is not None
    assert held is not None
    asked, answer = handle_report(known, replace(held, sequence=held.sequence + 1), 0, 0, is_held=True)
    assert not isinstance(answer, Rejection), "nothing is new"
    assert asked.occupants == known.occupants
