"""The layout is what rounds lead to, and every round is a step towards it."""

from hypothesis import HealthCheck, settings
from hypothesis import given as given_by
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from cooperator.model import Policy, TaskId
from cooperator.planner import Plan, View, default, plan
from cooperator.planner.assignors import BUILT_IN
from cooperator.planner.layout import layout_of
from tests.planner.test_histories import Histories
from tests.planner.unreliable_group import UnreliableGroup, owned


def layout(group: UnreliableGroup) -> dict[str, frozenset[TaskId]]:
    view = group.view()
    return dict(layout_of(view, default.decide(view, group.memory, group.workspace)))


def held_for_draining(view: View, decided: Plan) -> set[TaskId]:
    """A member releases these now, and has them back when it is."""
    draining = {member.identity for member in view.members}
    return {task for task, held in decided.held.items() if held.identity in draining}


class Layouts(Histories):
    """In any history, each round is a step towards a layout with one place for each task."""

    @invariant()
    def each_round_is_a_step_towards_it(self) -> None:
        group = getattr(self, "group", None)
        if group is None:
            return
        view = group.view()
        wanted = layout(group)
        placed = [task for tasks in wanted.values() for task in tasks]
        assert len(placed) == len(set(placed)), "a task has two places"
        assert set(placed) <= group.configured() - view.barred
        decided, memory = plan(view, group.memory, group.workspace)
        assert decided.held.keys() - view.barred - set(placed) <= held_for_draining(view, decided)
        for member in view.members:
            if memory.incarnations.get(member.identity) != member.incarnation:
                continue
            assignment = decided.assignments[member.member_id]
            assert wanted[member.identity].issuperset(assignment.assigned)
            assert wanted[member.identity].isdisjoint(assignment.revoked)
            assert memory.given[member.identity] - view.barred <= wanted[member.identity]


TestLayouts = Layouts.TestCase
TestLayouts.settings = settings(
    max_examples=50, stateful_step_count=30, suppress_health_check=list(HealthCheck)
)


@given_by(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 7), min_size=1),
    st.integers(1, 4),
    st.integers(0, 3),
)
def test_a_group_that_has_its_layout_keeps_it(counts, present, joining):
    """Kafka's assignors see targets, too, and not what still runs elsewhere on its way."""
    group = UnreliableGroup(**counts)
    for number in range(present):
        group.join(f"w{number}")
    group.settle()
    for number in range(joining):
        group.join(f"x{number}")
    wanted = layout(group)
    for process in group.members():
        process.running = set(wanted[process.identity])

    assert layout(group) == wanted
    assert group.settle().is_empty
    assert {identity: frozenset(tasks) for identity, tasks in owned(group).items()} == wanted
    group.check_complete_and_balanced()


def test_tasks_that_are_owed_have_one_place_under_every_assignor() -> None:
    """Some assignors place a returned member's tasks with others."""
    placed_elsewhere = 0
    for assignor in sorted(BUILT_IN):
        group = UnreliableGroup(Policy(assignor=assignor), a=7, b=4)
        for identity in ("w1", "w2", "w3"):
            group.join(identity)
        group.settle()
        group.kill(group.named("w2"), proven=True)
        group.round()
        lost = group.memory.holds["w2"].tasks
        group.join("w0")
        group.join("w2")

        wanted = layout(group)
        places = [task for tasks in wanted.values() for task in tasks]
        assert sorted(places) == sorted(group.configured()), assignor
        placed_elsewhere += not lost <= wanted["w2"]
    assert placed_elsewhere


def test_a_task_that_is_owed_is_not_held_for_another_member() -> None:
    """While an evicted member without a known past is away, every unreported task is held, also if owed."""
    group = UnreliableGroup(Policy(scheduled_rebalance_max_delay_ms=0), a=0)
    group.join("w0")
    group.round()
    group.join("w1")
    group.take_over()
    group.kill(group.named("w0"), proven=True)
    group.join("w0")

    [instance] = group.configured()
    assert layout(group) == {"w0": {instance}}
