"""Tasks with state: who learns them, when they move, and what happens when that takes too long (KIP-441)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cooperator.model import Policy, StateReplicas, TaskId, Warmth
from cooperator.planner import Facts, Plan, Why
from cooperator.planner.learners import learned_by
from tests.planner.unreliable_group import UnreliableGroup, owned

SECOND_MS = 1_000
TIMEOUT_MS = StateReplicas().warmup_timeout_ms


def with_state(
    members: int, *, learns: bool = True, policy: Policy | None = None, standbys: int = 0, **task_counts: int
) -> UnreliableGroup:
    """A group of w0, w1, … at rest; all connectors have state."""
    group = UnreliableGroup(policy or Policy(), **(task_counts or {"s": 6}))
    replicas = StateReplicas(standbys=standbys, acceptable_lag_bytes=10)
    group.stateful = dict.fromkeys(group.task_counts, replicas)
    for number in range(members):
        group.join(f"w{number}", learns=learns)
    group.settle()
    return group


def revoked(plan: Plan) -> set[TaskId]:
    return {task for assignment in plan.assignments.values() for task in assignment.revoked}


def learners(group: UnreliableGroup) -> dict[TaskId, str]:
    return {warmup.item: warmup.identity for warmup in group.memory.warmups}


def everything_stops(group: UnreliableGroup) -> None:
    for process in group.members():
        group.stopped(process)


def test_a_newcomer_learns_two_tasks_and_gets_each_when_it_has_caught_up() -> None:
    group = with_state(2)
    newcomer = group.join("w2", learns=True)
    assert not {task for task in revoked(group.round()) if not task.is_instance}
    first = learners(group)
    assert len(first) == 2
    assert set(first.values()) == {"w2"}
    group.learn(newcomer, 50)
    assert not revoked(group.round()), "half of it is not all of it"
    assert learners(group) == first
    done, other = sorted(first)
    group.learn(newcomer, 0)
    newcomer.behind_bytes[done] = 0
    assert revoked(group.round()) == {done}
    assert learners(group) == first, "a task on its way is still learned"
    everything_stops(group)
    moved = group.round()
    assert moved.assigned_why[done].why is Why.BALANCE
    assert done in owned(group)["w2"]
    assert learners(group) == {other: "w2"}, "two tasks are w2's fair part, and one of them is there"


def test_the_next_warm_up_begins_when_the_one_before_is_over() -> None:
    group = with_state(1, s=8)
    group.stateful["s"] = replace(group.stateful["s"], max_warmups=1)
    newcomer = group.join("w1", learns=True)
    group.settle()
    assert sum(not task.is_instance for task in newcomer.running) == 4
    assert not group.memory.warmups


def test_members_that_cannot_learn_are_given_tasks_as_before() -> None:
    group = with_state(2)
    group.join("w2", learns=False)
    assert len([task for task in revoked(group.round()) if not task.is_instance]) == 2
    assert not group.memory.warmups


def test_a_task_that_cannot_be_learned_there_moves_without_it() -> None:
    group = with_state(2)
    newcomer = group.join("w2", learns=True)
    group.round()
    newcomer.cannot_learn = frozenset(learners(group))
    assert revoked(group.round()) == newcomer.cannot_learn


def test_tasks_without_state_do_not_wait() -> None:
    group = with_state(2, s=4, a=4)
    del group.stateful["a"]
    group.join("w2", learns=True)
    gone = revoked(group.round())
    assert {task.connector for task in gone if not task.is_instance} <= {"a"}


def test_a_warm_up_that_does_not_end_is_given_up() -> None:
    group = with_state(2)
    group.join("w2", learns=True)
    waits = group.round()
    assert waits.rejoin_at_ms == group.now_ms + TIMEOUT_MS
    slow = learners(group)
    group.advance(TIMEOUT_MS)
    assert revoked(group.round()) == set(slow)
    assert not learned_by(group.memory, group.stateful, "w2", group.now_ms)
    everything_stops(group)
    group.round()
    assert set(slow) <= owned(group)["w2"]


def test_a_learner_that_restarts_has_no_more_time() -> None:
    group = with_state(2)
    newcomer = group.join("w2", learns=True)
    group.round()
    group.advance(TIMEOUT_MS - SECOND_MS)
    group.kill(newcomer, proven=True)
    group.join("w2", learns=True)
    group.round()
    group.advance(SECOND_MS)
    assert revoked(group.round())


def test_a_learner_that_dies_ends_its_warm_ups() -> None:
    group = with_state(2)
    newcomer = group.join("w2", learns=True)
    group.round()
    group.kill(newcomer, proven=True)
    group.facts = Facts(gone=frozenset({"w2"}))
    group.settle()
    assert not group.memory.warmups
    group.check_complete_and_balanced()


@pytest.mark.parametrize("announced_by", ["member", "host"])
def test_a_departing_member_runs_on_until_others_have_caught_up(announced_by: str) -> None:
    group = with_state(3, s=6)
    mine = {task for task in owned(group)["w2"] if not task.is_instance}
    if announced_by == "member":
        group.named("w2").draining = True
    else:
        group.facts = Facts(leaving=frozenset({"w2"}))
    waits = group.round()
    assert not revoked(waits) & mine
    assert set(learners(group)) == mine
    assert waits.rejoin_at_ms == group.now_ms + group.policy.depart_warm_ms
    for identity in ("w0", "w1"):
        group.learn(group.named(identity), 100)
    assert revoked(group.round()) == mine
    everything_stops(group)
    aims = learners(group)
    moved = group.round()
    assert {moved.assigned_why[task].why for task in mine} == {Why.DRAIN}
    assert all(task in owned(group)[aims[task]] for task in mine)


def test_a_departure_that_is_called_off_ends_its_warm_ups() -> None:
    group = with_state(3, s=6)
    group.facts = Facts(leaving=frozenset({"w2"}))
    group.round()
    assert learners(group)
    group.facts = Facts()
    for identity in ("w0", "w1"):
        group.learn(group.named(identity), 100)
    assert not {task for task in revoked(group.round()) if not task.is_instance}
    assert not learners(group)


def test_a_member_that_is_back_keeps_its_tasks_whoever_has_learned_them() -> None:
    group = with_state(3, s=6)
    mine = {task for task in owned(group)["w2"] if not task.is_instance}
    group.facts = Facts(leaving=frozenset({"w2"}))
    group.round()
    group.facts = Facts()
    group.kill(group.named("w2"), proven=True)
    group.join("w2", learns=True)
    group.settle()
    assert mine <= owned(group)["w2"]


def test_a_departing_member_s_deadline_outranks_warmth() -> None:
    group = with_state(3, s=6)
    mine = {task for task in owned(group)["w2"] if not task.is_instance}
    group.named("w2").draining = True
    group.round()
    group.advance(group.policy.depart_warm_ms)
    assert revoked(group.round()) == mine


def test_half_of_a_notice_is_left_to_hand_over() -> None:
    group = with_state(3, s=6)
    mine = {task for task in owned(group)["w2"] if not task.is_instance}
    group.facts = Facts(leaving=frozenset({"w2"}), notices_ms=frozenset({("w2", 30 * SECOND_MS)}))
    assert group.round().rejoin_at_ms == group.now_ms + 15 * SECOND_MS
    group.advance(15 * SECOND_MS)
    assert revoked(group.round()) == mine


def test_a_standby_takes_over_at_once_when_the_death_is_proven() -> None:
    group = with_state(3, s=6, standbys=1)
    mine = {task for task in owned(group)["w2"] if not task.is_instance}
    has = {task: identity for identity, tasks in group.memory.standbys.items() for task in tasks}
    group.kill(group.named("w2"), proven=True)
    decided = group.round()
    assert {decided.assigned_why[task].why for task in mine} == {Why.STANDBY}
    assert all(task in owned(group)[has[task]] for task in mine)
    assert {task for task in decided.held if not task.is_instance} == set()


def test_a_standby_waits_for_the_proof() -> None:
    group = with_state(3, s=6, standbys=1)
    mine = {task for task in owned(group)["w2"] if not task.is_instance}
    group.kill(group.named("w2"), proven=False)
    decided = group.round()
    assert mine <= decided.held.keys()


def test_without_a_standby_a_task_is_held_for_its_member() -> None:
    group = with_state(3, s=6)
    mine = owned(group)["w2"]
    group.kill(group.named("w2"), proven=True)
    assert group.round().held.keys() == mine


def test_a_standby_that_is_behind_does_not_take_over() -> None:
    group = with_state(3, s=6, standbys=1)
    mine = {task for task in owned(group)["w2"] if not task.is_instance}
    for process in group.members():
        process.behind_bytes = dict.fromkeys(process.behind_bytes, 11)
    group.kill(group.named("w2"), proven=True)
    assert mine <= group.round().held.keys()


def test_a_standby_that_restarts_is_none_that_another_replaces() -> None:
    group = with_state(3, s=6, standbys=1)
    group.facts = Facts(expected=frozenset(owned(group)))
    before = group.memory.standbys
    group.kill(group.named("w2"), proven=True)
    group.round()
    assert set() < group.memory.standbys["w2"] <= before["w2"]
    group.join("w2", Warmth.WARMING, learns=True)
    group.round()
    assert group.memory.standbys["w2"]
    for identity in ("w0", "w1"):
        assert len(group.memory.standbys[identity]) <= 3, "nobody learns what w2 has"


@given(
    members=st.integers(1, 5),
    tasks=st.integers(0, 9),
    standbys=st.integers(0, 3),
    zones=st.lists(st.sampled_from(["", "x", "y"]), min_size=5, max_size=5),
)
def test_standbys_are_as_many_as_can_be_spread_and_left_alone(
    members: int, tasks: int, standbys: int, zones: Sequence[str]
) -> None:
    group = UnreliableGroup(Policy(), s=tasks)
    group.stateful = {"s": StateReplicas(standbys=standbys)}
    for number in range(members):
        group.join(f"w{number}", learns=True)
    group.facts = Facts(zones=frozenset((f"w{number}", zone) for number, zone in enumerate(zones)))
    group.settle()
    learned = group.memory.standbys
    for task in (TaskId("s", number) for number in range(tasks)):
        assert sum(task in each for each in learned.values()) == min(standbys, members - 1)
    if len(set(zones)) == 1:
        loads = [len(learned.get(f"w{number}", ())) for number in range(members)]
        assert max(loads) - min(loads) <= 2
    group.round()
    assert group.memory.standbys == learned


@settings(max_examples=30)
@given(
    before=st.integers(1, 4),
    joined=st.integers(1, 3),
    tasks=st.integers(1, 14),
    max_warmups=st.integers(1, 3),
)
def test_scaling_up_ends_where_cold_moves_would_end_with_as_few_moves(
    before: int, joined: int, tasks: int, max_warmups: int
) -> None:
    """Lemmas 2 and 3: sticky but balanced."""

    def scaled_up(learns: bool) -> tuple[list[int], int]:
        group = with_state(before, learns=learns, s=tasks)
        group.stateful["s"] = replace(group.stateful["s"], max_warmups=max_warmups)
        was = {task: identity for identity, tasks in owned(group).items() for task in tasks}
        for number in range(joined):
            group.join(f"n{number}", learns=learns)
        group.settle()
        group.check_complete_and_balanced()
        group.check_at_rest()
        assert not group.memory.warmups
        now = owned(group)
        moves = sum(task not in now[was[task]] for task in was)
        return sorted(sum(not task.is_instance for task in tasks) for tasks in now.values()), moves

    assert scaled_up(learns=True) == scaled_up(learns=False)


@given(
    before=st.integers(2, 6),
    counts=st.dictionaries(st.sampled_from("abcd"), st.integers(1, 6), min_size=1),
    joined=st.integers(1, 2),
    max_warmups=st.integers(1, 3),
)
def test_a_warm_up_begins_once(before: int, counts: dict[str, int], joined: int, max_warmups: int) -> None:
    """Lemma 2, also where several members are tied for the move that balance needs."""
    group = with_state(before, **counts)
    for name, replicas in group.stateful.items():
        group.stateful[name] = replace(replicas, max_warmups=max_warmups)
    for number in range(joined):
        group.join(f"n{number}", learns=True)
    everything_stops(group)
    group.round()
    begun = group.memory.warmups
    for _ in range(3):
        group.advance(SECOND_MS)
        everything_stops(group)
        group.round()
        assert group.memory.warmups == begun
