"""Answers come true: one change is simulated, and also made to a group with a real leader."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cooperator.model import Policy, TaskId
from cooperator.planner.view import Facts
from cooperator.scenarios.answer import WhatIfAnswer
from cooperator.scenarios.changes import Add, Change, Delete, Die, Drain, Join, Leave, Resize, Restart, Vanish
from cooperator.scenarios.snapshot import LedBy, Snapshot, from_json, to_json
from cooperator.scenarios.what_if import what_if
from tests.harness.examples import examples
from tests.harness.fake_group import FakeGroup

IDENTITIES = tuple(f"lake-{number}" for number in range(5))
Work = dict[str, tuple[str, ...]]
"""Maps a connector to the units of its tasks."""


def snapshot_of(group: FakeGroup) -> Snapshot:
    view = group.machine.view(group.now_ms, "what if")
    asked = Snapshot("lake", LedBy.OPERATOR, view, group.machine.state.memory)
    return from_json(to_json(asked), "the same by way of a file")


def a_group(
    members: int, work: Work, history: list[tuple[str, bool, int]], midway: bool = False
) -> FakeGroup:
    """Members that run ``work``; then some die, with or without proof, some time apart. With ``midway``, one
    has joined while others are still stopping tasks that it will get."""
    group = FakeGroup(Policy(scheduled_rebalance_max_delay_ms=60_000))
    for identity in IDENTITIES[:members]:
        group.join(identity)
    group.facts(Facts(expected=frozenset(IDENTITIES[:members])))
    group.round()
    group.desire(**{name: len(units) for name, units in work.items()})
    group.settle()
    for name, units in work.items():
        assert group.post(name, *units) == 204
    group.settle()
    for identity, proven, ms in history:
        if identity in present(group):
            group.die(identity, proven=proven)
            group.round()
            group.settle()
            group.advance(ms)
            group.settle()
    if midway:
        group.join("late")
        group.facts(replace(group.machine.state.facts, expected=frozenset(present(group))))
        group.round()
    return group


def present(group: FakeGroup) -> list[str]:
    return sorted(member.identity for member in group.members.values())


def make(group: FakeGroup, change: Change, work: Work) -> None:
    """Makes ``change`` happen as a host reports it, without a round."""
    facts = group.machine.state.facts
    expected = facts.expected or frozenset()
    match change:
        case Leave(identity):
            group.facts(replace(facts, expected=expected - {identity}, gone=facts.gone | {identity}))
            group.die(identity)
        case Die(identity):
            group.die(identity)
        case Vanish(identity):
            group.die(identity, proven=False)
        case Drain(identity):
            group.facts(replace(facts, expected=expected - {identity}, leaving=facts.leaving | {identity}))
            group.of(identity).draining = True
        case Join(count):
            newcomers = [f"new-{number}" for number in range(count)]
            group.facts(replace(facts, expected=expected | set(newcomers)))
            for identity in newcomers:
                group.join(identity)
        case Add(connector):
            group.desire(**{name: len(units) for name, units in work.items()}, **{connector: 1})
        case Delete(connector):
            group.desire(**{name: len(units) for name, units in work.items() if name != connector})
        case _:
            raise AssertionError(f"{change} is played elsewhere")


def to_rest(group: FakeGroup) -> None:
    """Rounds and times until the group is settled."""
    for _ in range(50):
        group.settle()
        empty = [m for m in group.members.values() if m.draining and not m.running | m.stopping]
        for member in empty:
            group.die(member.identity)
            group.round()
        plan = group.machine.state.plan
        assert plan is not None
        if plan.rejoin_at_ms is None and not empty:
            return
        if plan.rejoin_at_ms is not None:
            group.advance(max(0, plan.rejoin_at_ms - group.now_ms))
    raise AssertionError("no rest")


def placed(group: FakeGroup) -> dict[TaskId, str]:
    return {task: member.identity for member in group.members.values() for task in member.running}


def compare_round(answer: WhatIfAnswer, group: FakeGroup, before: Mapping[TaskId, object]) -> None:
    """Compares the first simulated round with the one just held."""
    plan = group.machine.state.plan
    assert plan is not None
    identity_of = {member.member_id: member.identity for member in group.machine.state.members}
    assignments = {identity_of[member_id]: assignment for member_id, assignment in plan.assignments.items()}
    assigned = {(i, task) for i, assignment in assignments.items() for task in assignment.assigned}
    revoked = {(i, task) for i, assignment in assignments.items() for task in assignment.revoked}
    held = {task: (wait.identity, wait.until_ms, wait.reason.value) for task, wait in plan.held.items()}
    if not assigned and not revoked and held.keys() == before.keys():
        later = [r for r in answer.rounds if r.at_ms > group.now_ms or "have stopped" in r.cause]
        assert [*answer.rounds] == later
        return
    first = answer.rounds[0]
    assert first.at_ms == group.now_ms
    assert {(step.member, step.task) for step in first.starts} == assigned
    assert {(step.member, step.task) for step in first.lets_go} == revoked
    assert {w.task: (w.held_for, w.until_ms, w.why) for w in first.held} == held
    whys = {
        task: reason.why.value for task, reason in (*plan.assigned_why.items(), *plan.revoked_why.items())
    }
    assert {step.task: step.why for step in (*first.starts, *first.lets_go)} == whys


groups = st.fixed_dictionaries(
    {
        "members": st.integers(1, 5),
        "work": st.dictionaries(
            st.sampled_from("abc"),
            st.integers(1, 5).map(lambda count: tuple(f"u{n}" for n in range(count))),
            max_size=3,
        ),
        "history": st.lists(
            st.tuples(st.sampled_from(IDENTITIES), st.booleans(), st.sampled_from([1_000, 30_000, 50_000])),
            max_size=2,
        ),
        "midway": st.booleans(),
    }
)


@settings(max_examples=examples(60, long=250))
@given(arguments=groups, data=st.data())
def test_the_simulated_rounds_are_those_that_then_happen(
    arguments: dict[str, object], data: st.DataObject
) -> None:
    group = a_group(**arguments)  # type: ignore[arg-type]
    work: Work = arguments["work"]  # type: ignore[assignment]
    kinds: list[st.SearchStrategy[Change]] = [st.builds(Join, st.integers(1, 3)), st.just(Add("z", 0))]
    if present(group):
        of_member = st.sampled_from(present(group))
        kinds += [st.builds(kind, of_member) for kind in (Leave, Die, Vanish, Drain)]
    if work:
        kinds.append(st.builds(Delete, st.sampled_from(sorted(work))))
    change = data.draw(st.one_of(kinds), label="change")

    snapshot = snapshot_of(group)
    answer = what_if(snapshot, [change])
    assert what_if(snapshot, [change]) == answer
    # An expired hold ends in the next round, whatever its cause.
    holds = [hold for hold in snapshot.memory.holds.values() if hold.until_ms > group.now_ms]
    held = {task: hold for hold in holds for task in hold.tasks}

    make(group, change, work)
    group.round()
    compare_round(answer, group, held)
    to_rest(group)
    assert answer.at_rest
    assert answer.placed == placed(group)


@settings(max_examples=examples(20, long=60))
@given(arguments=groups)
def test_an_answer_for_a_group_at_rest_without_changes_is_empty(arguments: dict[str, object]) -> None:
    group = a_group(**arguments)  # type: ignore[arg-type]
    to_rest(group)
    snapshot = snapshot_of(group)
    answer = what_if(snapshot)
    assert answer.rounds == ()
    assert answer.placed == placed(group)


@pytest.mark.parametrize("back_ms", [5_000, 59_000])
def test_a_member_that_returns_within_its_hold(back_ms: int) -> None:
    group = a_group(3, {"a": ("u0", "u1", "u2", "u3")}, [])
    answer = what_if(snapshot_of(group), [Restart("lake-1", back_ms)])
    group.die("lake-1")
    group.round()
    group.settle()
    group.advance(back_ms)
    group.join("lake-1")
    group.round()
    to_rest(group)
    assert answer.placed == placed(group)


def test_a_regrouping_takes_the_rounds_that_the_leader_takes() -> None:
    old = ("u0", "u1", "u2+u3", "u4")
    new = ("u0", "u1+u2", "u3")
    group = a_group(2, {"a": old}, [])
    answer = what_if(snapshot_of(group), [Resize("a", 3, frozenset({1, 2, 3}))])
    assert group.post("a", *new) == 202
    assert group.asks_for_round()
    group.round()
    first = answer.rounds[0]
    stopping = {(m.identity, task) for m in group.members.values() for task in m.stopping}
    assert {(step.member, step.task) for step in first.lets_go} == stopping
    to_rest(group)
    assert answer.placed == placed(group)
