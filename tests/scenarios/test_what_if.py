"""Questions of the kind "what if", by example: who releases, who starts, what waits, and what is refused."""

import copy
from collections.abc import Sequence
from dataclasses import replace

import pytest

from cooperator.model import INSTANCE, Hold, Member, Memory, Policy, PolicyName, TaskId, Warmth
from cooperator.planner import Facts, View
from cooperator.scenarios.answer import PlayedRound, WhatIfAnswer, to_plain
from cooperator.scenarios.changes import (
    Add,
    Change,
    ChangeError,
    Delete,
    Die,
    Drain,
    Join,
    Leave,
    Resize,
    Restart,
    Vanish,
)
from cooperator.scenarios.meter import HAND_OVER_MS
from cooperator.scenarios.snapshot import LedBy, Snapshot, SnapshotError, fresh_memory, from_json, to_json
from cooperator.scenarios.what_if import under, what_if

NOW = 1_700_000_000_000
DELAY_MS, LEASE_MS = 300_000, 45_000
NAMES = ("w-0", "w-1", "w-2")
OF_W_1 = {TaskId("a", 1), TaskId("a", 4)}


def member(identity: str, *owned: TaskId, **more: object) -> Member:
    return Member(f"{identity}-id", identity, f"{identity}-incarnation", owned, **more)  # type: ignore[arg-type]


def group(led_by: LedBy = LedBy.OPERATOR, **more: object) -> Snapshot:
    """Three members at rest with two tasks of ``a`` each; w-0 has the instance."""
    members = tuple(
        member(name, *([TaskId("a", INSTANCE)] if n == 0 else []), TaskId("a", n), TaskId("a", n + 3))
        for n, name in enumerate(NAMES)
    )
    facts = Facts(expected=frozenset(NAMES)) if led_by is LedBy.OPERATOR else Facts()
    view = View(NOW, 7, members, {"a": 6}, facts=facts, leader_id="w-0-id" if led_by is LedBy.STOCK else "")
    view = replace(view, **more)  # type: ignore[arg-type]
    return Snapshot("lake", led_by, view, fresh_memory(view))


def started(round_: PlayedRound) -> dict[TaskId, str]:
    return {step.task: step.member for step in round_.starts}


def after_s(answer: WhatIfAnswer) -> list[float]:
    return [(round_.at_ms - NOW) / 1000 for round_ in answer.rounds]


class TestMembers:
    def test_a_group_at_rest_without_changes_stays_at_rest(self) -> None:
        answer = what_if(group())
        assert answer.rounds == ()
        assert answer.moved == ()
        assert answer.at_rest
        assert all(load.before == load.after for load in answer.loads)

    def test_tasks_of_a_dead_member_are_held_and_then_move(self) -> None:
        answer = what_if(group(), [Die("w-1")])
        first, last = answer.rounds
        assert {w.task: (w.held_for, w.until_ms) for w in first.held} == dict.fromkeys(
            OF_W_1, ("w-1", NOW + DELAY_MS)
        )
        assert after_s(answer) == [0, 300]
        assert started(last).keys() == OF_W_1
        assert {moved.task: moved.before for moved in answer.moved} == dict.fromkeys(OF_W_1, "w-1")
        assert answer.longest_unassigned_ms == DELAY_MS
        assert {load.member: load.after for load in answer.loads} == {
            "w-0": (1, 3),
            "w-1": None,
            "w-2": (0, 3),
        }

    def test_tasks_of_a_member_that_leaves_for_good_are_not_held(self) -> None:
        answer = what_if(group(), [Leave("w-1")])
        [only] = answer.rounds
        assert started(only).keys() == OF_W_1
        assert answer.longest_unassigned_ms == 0

    def test_a_member_that_vanishes_may_run_on_until_its_lease_ends(self) -> None:
        policy = Policy(scheduled_rebalance_max_delay_ms=0)
        assert after_s(what_if(group(policy=policy), [Die("w-1")])) == [0]
        answer = what_if(group(policy=policy), [Vanish("w-1")])
        assert after_s(answer) == [0, LEASE_MS / 1000]
        assert {waiting.why for waiting in answer.rounds[0].held} == {"Unproven"}

    def test_a_member_back_in_time_gets_its_own_tasks_and_nothing_moves(self) -> None:
        answer = what_if(group(), [Restart("w-1", 60_000)])
        assert after_s(answer) == [0, 60]
        assert started(answer.rounds[1]) == dict.fromkeys(OF_W_1, "w-1")
        assert answer.moved == ()
        assert answer.longest_unassigned_ms == 60_000

    def test_a_member_back_too_late_gets_its_part_of_the_load(self) -> None:
        answer = what_if(group(), [Restart("w-1", 400_000)])
        assert after_s(answer)[:3] == [0, 300, 400]
        assert {load.member: load.after for load in answer.loads}["w-1"] == (0, 2)

    def test_a_draining_member_hands_over_first(self) -> None:
        answer = what_if(group(), [Drain("w-1")])
        first, second = answer.rounds
        assert {step.task for step in first.lets_go} == OF_W_1
        assert {step.why for step in first.lets_go} == {"Drain"}
        assert started(second).keys() == OF_W_1
        assert answer.longest_unassigned_ms == HAND_OVER_MS

    def test_new_members_get_names_and_tasks(self) -> None:
        taken = group()
        view = replace(taken.view, members=(*taken.view.members, member("new-0")))
        answer = what_if(replace(taken, view=view), [Join(2)])
        assert {"new-0", "new-1", "new-2"} <= set(answer.placed.values())

    def test_a_cold_member_is_simulated_as_warm_with_a_note(self) -> None:
        view = group().view
        cold = replace(view, members=(*view.members, member("w-3", warmth=Warmth.WARMING)))
        answer = what_if(replace(group(), view=cold))
        assert sum(step.member == "w-3" for round_ in answer.rounds for step in round_.starts) == 1
        assert "these members are warming up and simulated as warm: w-3" in answer.notes

    def test_a_stalled_member_gets_nothing(self) -> None:
        view = group().view
        broken = replace(view, members=(*view.members, member("w-3", warmth=Warmth.STALLED)))
        assert what_if(replace(group(), view=broken)).rounds == ()

    def test_several_changes_at_once(self) -> None:
        answer = what_if(group(), [Drain("w-0"), Join(1), Add("b", 2), Die("w-2")])
        assert answer.unassigned == ()
        assert {load.member: load.after for load in answer.loads} == {
            "w-0": None,
            "w-1": (1, 4),
            "w-2": None,
            "new-0": (1, 4),
        }

    def test_without_members_everything_waits_and_then_runs_nowhere(self) -> None:
        answer = what_if(group(), [Leave(name) for name in NAMES])
        assert len(answer.unassigned) == 7
        assert answer.at_rest

    def test_moves_under_way_continue(self) -> None:
        at_rest = group()
        lost = frozenset({TaskId("a", 2), TaskId("a", 5)})
        hold = Hold(lost, NOW - 100_000, NOW + 200_000, incarnation="w-2-incarnation")
        stopping = member("w-0", *at_rest.view.members[0].owned, stopping=frozenset({TaskId("a", 3)}))
        view = replace(at_rest.view, members=(stopping, at_rest.view.members[1]))
        given = {i: tasks for i, tasks in at_rest.memory.given.items() if i != "w-2"}
        given["w-0"] -= {TaskId("a", 3)}
        snapshot = replace(
            at_rest, view=view, memory=replace(at_rest.memory, given=given, holds={"w-2": hold})
        )
        answer = what_if(snapshot)
        assert TaskId("a", 3) in started(answer.rounds[0]), (
            "a task starts as soon as it has stopped elsewhere"
        )
        assert started(answer.rounds[-1]).keys() == lost
        assert after_s(answer)[-1] == 200
        assert {moved.before for moved in answer.moved if moved.task in lost} == {"w-2"}


class TestConnectors:
    def test_a_new_connector_is_assigned(self) -> None:
        answer = what_if(group(), [Add("b", 3)])
        assert {task for task in answer.placed if task.connector == "b"} == {
            TaskId("b", n) for n in range(-1, 3)
        }
        assert answer.moved == ()

    def test_a_deleted_connector_stops(self) -> None:
        answer = what_if(group(), [Delete("a")])
        assert answer.placed == {}
        assert {step.why for step in answer.rounds[0].lets_go} == {"Deleted"}
        assert answer.unassigned == ()

    def test_tasks_that_keep_their_configuration_run_on(self) -> None:
        answer = what_if(group(), [Resize("a", 8)])
        [only] = answer.rounds
        assert started(only).keys() == {TaskId("a", 6), TaskId("a", 7)}

    def test_tasks_that_change_stop_everywhere_before_one_of_them_starts_anew(self) -> None:
        answer = what_if(group(), [Resize("a", 5, frozenset({0, 4, 5}))])
        first, second = answer.rounds
        assert {step.task.task for step in first.lets_go} == {0, 4, 5}
        assert first.starts == ()
        assert {step.task.task for step in second.starts} == {0, 4}

    def test_a_change_of_tasks_waits_for_the_lease_of_a_vanished_member_that_ran_them(self) -> None:
        answer = what_if(group(), [Vanish("w-1"), Resize("a", 4, frozenset({1, 2, 4, 5}))])
        changed = next(r for r in answer.rounds if TaskId("a", 2) in started(r))
        assert changed.at_ms == NOW + LEASE_MS


class TestLeaders:
    def test_a_leading_member_has_no_proofs_and_the_answer_notes_it(self) -> None:
        policy = Policy(scheduled_rebalance_max_delay_ms=0)
        answer = what_if(group(LedBy.MEMBER, policy=policy), [Die("w-1")])
        assert after_s(answer) == [0, LEASE_MS / 1000]
        assert any("a member leads" in note for note in answer.notes)

    def test_a_stock_leader_plans_by_its_own_rules(self) -> None:
        stock = group(LedBy.STOCK, policy=Policy(PolicyName.KIP415))
        assert what_if(stock).rounds == ()
        answer = what_if(stock, [Restart("w-1", 60_000)])
        assert after_s(answer) == [0, 300]
        assert answer.longest_unassigned_ms == DELAY_MS, (
            "the tasks wait for the whole delay, although w-1 is back"
        )

    def test_a_stock_leader_that_leaves_loses_its_memory(self) -> None:
        answer = what_if(group(LedBy.STOCK, policy=Policy(PolicyName.KIP415)), [Die("w-0")])
        assert after_s(answer)[0] == 0
        assert started(answer.rounds[0]).keys() >= {TaskId("a", 0), TaskId("a", 3)}

    def test_a_stock_group_under_our_planner(self) -> None:
        stock = group(LedBy.STOCK, policy=Policy(PolicyName.KIP415))
        answer = what_if(under(stock, Policy()), [Restart("w-1", 60_000)])
        assert answer.led_by is LedBy.OPERATOR
        assert after_s(answer) == [0, 60]

    def test_a_group_of_ours_under_kafkas_planner(self) -> None:
        answer = what_if(under(group(), Policy(PolicyName.KIP415)), [Restart("w-1", 60_000)])
        assert after_s(answer) == [0, 300]

    def test_the_eager_protocol_stops_the_world(self) -> None:
        answer = what_if(group(LedBy.STOCK, policy=Policy(PolicyName.EAGER)), [Die("w-1")])
        assert len(answer.rounds[0].starts) == 7
        assert (answer.stops, answer.unassigned_task_ms) == (4, 4 * HAND_OVER_MS), "w-0's and w-2's tasks"

    @pytest.mark.parametrize("led_by", LedBy)
    @pytest.mark.parametrize("policy", PolicyName)
    @pytest.mark.parametrize(
        "change", [Add("b", 10), Join(1), Drain("w-1"), Resize("a", 9), Die("w-1"), Restart("w-1", 60_000)]
    )
    def test_no_policy_is_cheaper_than_what_it_stops(
        self, led_by: LedBy, policy: PolicyName, change: Change
    ) -> None:
        answer = what_if(under(group(led_by), Policy(policy)), [change])
        assert answer.unassigned_task_ms >= answer.stops * HAND_OVER_MS
        if policy is PolicyName.EAGER:
            assert answer.stops >= 4, "every round stops the world"
            default = what_if(under(group(led_by), Policy()), [change])
            assert answer.stops > default.stops

    def test_an_assignor_that_is_not_installed_is_named(self) -> None:
        answer = what_if(group(policy=Policy(assignor="Mine")), [Join(1)])
        assert any("'Mine' is not installed here" in note for note in answer.notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([Leave("w-9")], "--leave w-9: no such member; members are: w-0, w-1, w-2"),
        ([Restart("w-9", 5)], "--restart w-9: no such member"),
        ([Restart("w-1", -1000)], "--restart w-1=-1: use a number of seconds of at least 0"),
        ([Join(0)], "--join 0: use a number from 1 to 1000"),
        (
            [Add("a", 3)],
            "--add a: the connector already exists; use another name, or .* --tasks-max a=3",
        ),
        ([Add("b", -1)], "--add b=-1: use NAME=TASKS"),
        ([Add("", 1)], "--add =1: use NAME=TASKS"),
        ([Resize("b", 3)], "--tasks-max b: no such connector; connectors are: a"),
        ([Resize("a", 0)], "--tasks-max a=0: use a number of at least 1"),
        ([Delete("b")], "--delete b: no such connector"),
        ([Die("w-1"), Drain("w-1")], "several options name the member w-1"),
        ([Delete("a"), Resize("a", 2)], "several options name the connector a"),
    ],
)
def test_an_impossible_change_is_refused_by_option_value_and_remedy(
    changes: Sequence[Change], message: str
) -> None:
    with pytest.raises(ChangeError, match=message):
        what_if(group(), changes)


def test_a_snapshot_round_trips_through_a_file() -> None:
    snapshot = group()
    poisoned = frozenset({TaskId("a", 0)})
    facts = Facts(frozenset(NAMES), ended=frozenset({("w-1", "before")}), poisoned=poisoned)
    snapshot = replace(
        snapshot,
        view=replace(snapshot.view, facts=facts, weights={"a": 2.5}, suspended=poisoned),
        memory=replace(snapshot.memory, holds={"w-9": Hold(poisoned, 1, 2)}, returns={"w-9": (1, 2)}),
        units={"a": (("u-0", "u-1"), ("u-2",))},
        classes={"a": "noop"},
        notes=("one",),
    )
    written = to_json(snapshot)
    assert from_json(written, "here") == snapshot
    assert to_json(from_json(written, "here")) == written
    assert to_plain(what_if(from_json(written, "here"), [Die("w-1")])) == to_plain(
        what_if(snapshot, [Die("w-1")])
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("{", "["), "f.json: not valid JSON"),
        (("cooperator-plan/1", "cooperator-plan/9"), "f.json: format is 'cooperator-plan/9', not"),
        (('"now_ms": 17', '"now_ms": "x17'), "f.json: not valid JSON"),
        (('"generation": 7', '"generation": "seven"'), r"f.json: view.generation: Input should be .* --save"),
        (('"operator"', '"nobody"'), "f.json: led_by: Input should be 'operator', 'member' or 'stock'"),
    ],
)
def test_a_file_that_is_no_snapshot_is_refused_by_field(change: tuple[str, str], message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        from_json(to_json(group()).replace(*change, 1), "f.json")


def test_unknown_fields_of_a_newer_version_are_ignored() -> None:
    text = to_json(group()).replace('"group":', '"altitude": 12, "group":')
    assert from_json(text, "f") == group()


def test_the_snapshot_is_never_changed() -> None:
    snapshot = group()
    before = copy.deepcopy(snapshot)
    changes = [Die("w-1"), Join(2), Add("b", 3), Resize("a", 4, frozenset({3, 4, 5}))]
    assert what_if(snapshot, changes) == what_if(snapshot, changes)
    assert snapshot == before


def test_a_group_without_memory_is_assumed_to_own_what_it_runs() -> None:
    forgotten = replace(group(), memory=Memory(generation=7))
    assert what_if(forgotten).rounds == ()
