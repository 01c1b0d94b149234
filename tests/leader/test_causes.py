"""Causes of rounds: ids of events that a leader receives, and reports with its rounds."""

from dataclasses import replace

from cooperator.leader import events as ev
from cooperator.leader.causes import HEARD_MS, Causes, ids, joined
from cooperator.model import Hold, Memory, TaskId
from cooperator.wire import decode_assignment
from tests.harness.fake_group import FakeGroup, running_group

DEATH = "Pod/lake-1/4711"
A0 = TaskId("a", 0)


def hold(*items: TaskId, cause: str = DEATH) -> Hold:
    return Hold(frozenset(items), 0, 1, cause=cause)


def test_an_event_is_the_cause_of_the_next_round_only() -> None:
    causes = Causes()
    causes.hear(DEATH, 1_000)
    causes.hear("", 1_000)
    assert causes.pending(2_000) == DEATH
    assert causes.of_round(DEATH, Memory(), Memory()) == DEATH
    assert causes.pending(2_000) == ""


def test_events_without_a_round_are_forgotten() -> None:
    causes = Causes()
    causes.hear(DEATH, 1_000)
    assert causes.pending(1_000 + HEARD_MS) == ""


def test_a_hold_that_ends_brings_back_by_what_it_had_begun() -> None:
    causes = Causes()
    before = Memory(holds={"lake-1": hold(A0), "lake-2": hold(A0, cause="members changed")})
    assert causes.of_round("", before, before) == ""
    assert causes.of_round("", before, Memory()) == DEATH
    assert causes.of_round("Node/m/5", before, Memory()) == f"Node/m/5,{DEATH}"
    assert causes.of_round("", Memory(holds={"lake-1": hold(A0)}), Memory(holds={"lake-1": hold()})) == DEATH


def test_a_move_goes_on_with_its_event() -> None:
    before = Memory(moving={f"Drain:{DEATH}": frozenset({A0}), "Balance:members changed": frozenset({A0})})
    assert Causes().of_round("", before, Memory()) == DEATH


def test_causes_in_words_are_no_ids() -> None:
    assert ids("members have read more of the config log than the leader") == []
    assert ids(f"{DEATH},Node/m/5") == [DEATH, "Node/m/5"]
    assert joined(f"Pod/p/{n % 7}" for n in range(20)) == "Pod/p/0,Pod/p/1,Pod/p/2,Pod/p/3"


def the_last_round(group: FakeGroup) -> tuple[str, str]:
    last = group.machine.state.history.rebalances[-1]
    return last.events, last.cause


def causes_sent(group: FakeGroup) -> set[str]:
    """Returns what the assignments of the last round say to members."""
    assignments = [decode_assignment(data).agent for data in (group.answers or {}).values()]
    return {assignment.events for assignment in assignments if assignment is not None}


class TestInAGroup:
    def test_a_death_is_followed_to_the_round_that_ends_its_hold(self) -> None:
        group = running_group()
        assert causes_sent(group) == {""}
        group.die("lake-1", by=DEATH)
        group.round()
        assert the_last_round(group) == (DEATH, "members changed")
        assert {held.cause for held in group.machine.state.plan.held.values()} == {DEATH}
        group.advance(group.machine.state.policy.scheduled_rebalance_max_delay_ms)
        assert group.asks_for_round()
        group.round()
        assert the_last_round(group) == (DEATH, "HoldEnded")
        assert causes_sent(group) == {DEATH}
        group.settle()

    def test_and_to_the_return_of_its_member(self) -> None:
        group = running_group()
        group.die("lake-1", by=DEATH)
        group.round()
        group.join("lake-1")
        group.round()
        assert the_last_round(group)[0] == DEATH
        assert causes_sent(group) == {DEATH}

    def test_the_next_leader_knows_it_by_the_log(self) -> None:
        group = running_group()
        group.die("lake-1", by=DEATH)
        group.round()
        group.machine.handle(ev.LeadLost("another leads"), group.now_ms)
        next_one = FakeGroup(leading=False)
        next_one.saved, next_one.fold, next_one.now_ms = group.saved, group.fold, group.now_ms
        next_one.members, next_one.generation, next_one.offset = group.members, group.generation, group.offset
        next_one.take_lead()
        next_one.round()
        next_one.join("lake-1")
        next_one.round()
        assert next_one.machine.state.history.rebalances[-1].events == DEATH

    def test_a_drain_is_followed_from_what_is_let_go_to_where_it_starts(self) -> None:
        group = running_group()
        facts = group.machine.state.facts
        group.facts(replace(facts, leaving=frozenset({"lake-1"})), DEATH)
        group.settle()
        moves = [each for each in group.machine.state.history.rebalances if each.revoked or each.moved]
        assert [each.events for each in moves[-2:]] == [DEATH, DEATH]
