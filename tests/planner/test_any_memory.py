"""Any memory, whatever wrote it: a plan is safe.

Histories of one leader (``test_histories``) reach only memories that the planner made of its own reports. A
memory that was merged with what evicted members said (``leader.absences``), one that is older than the rounds
of a stock leader, or one that went by another clock contradicts itself: two identities are given one task, a
hold names what a present member is owed. So memories are made up here, part by part.
"""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cooperator.model import (
    INSTANCE,
    Fencing,
    Hold,
    HoldReason,
    Member,
    Memory,
    Policy,
    StateReplicas,
    TaskId,
    Unstopped,
    Warmth,
    Warmup,
)
from cooperator.planner import Facts, View, Why, plan
from tests.harness.examples import examples
from tests.planner.unreliable_group import check_safe

NOW_MS = 1_000_000
IDENTITIES = ("w0", "w1", "w2", "w3")
INCARNATIONS = ("1", "2")
TASKS = tuple(TaskId(connector, number) for connector in "ab" for number in range(INSTANCE, 3))
TASKS_WITH_STATE = tuple(task for task in TASKS if not task.is_instance)

identities = st.sampled_from(IDENTITIES)
incarnations = st.sampled_from(INCARNATIONS)
some_tasks = st.frozensets(st.sampled_from(TASKS), max_size=4)
times_ms = st.sampled_from([0, NOW_MS - 60_000, NOW_MS - 1_000, NOW_MS, NOW_MS + 1_000, NOW_MS + 60_000])
ended_incarnations = st.frozensets(st.tuples(identities, incarnations), max_size=2)
some_identities = st.frozensets(identities, max_size=2)

holds = st.builds(
    Hold,
    tasks=some_tasks,
    since_ms=times_ms,
    deadline_ms=times_ms,
    not_before_ms=times_ms,
    incarnation=incarnations,
    reason=st.sampled_from(HoldReason),
    blanket=st.booleans(),
)
memories = st.builds(
    Memory,
    term=st.just(1),
    generation=st.just(4),
    given=st.dictionaries(identities, some_tasks, max_size=3),
    incarnations=st.dictionaries(identities, incarnations),
    holds=st.dictionaries(identities, holds, max_size=2),
    returns=st.dictionaries(identities, st.tuples(times_ms), max_size=1),
    former=st.dictionaries(identities, st.tuples(incarnations), max_size=2),
    joins=st.dictionaries(identities, times_ms, max_size=2),
    unstopped=st.lists(
        st.builds(Unstopped, identities, incarnations, some_tasks, st.none() | times_ms, st.booleans()),
        max_size=2,
    ).map(tuple),
    moving=st.dictionaries(st.sampled_from([f"{why}:" for why in (Why.BALANCE, Why.DRAIN)]), some_tasks),
    stock=st.booleans(),
    leaseless=some_identities.map(lambda found: tuple(sorted(found))),
)


@st.composite
def members(draw: st.DrawFn) -> tuple[Member, ...]:
    """At most one member per incarnation; two may report one task, as two incarnations of an identity do."""
    found = draw(st.lists(st.tuples(identities, incarnations), max_size=4, unique=True))
    made = []
    for identity, incarnation in found:
        owned = draw(some_tasks)
        made.append(
            Member(
                member_id=f"{identity}#{incarnation}",
                identity=identity,
                incarnation=incarnation,
                owned=tuple(sorted(owned)),
                stopping=frozenset(task for task in owned if draw(st.booleans())) if owned else owned,
                draining=draw(st.sampled_from([False, False, True])),
                is_agent=draw(st.booleans()),
                warmth=draw(st.sampled_from(Warmth)),
            )
        )
    return tuple(made)


facts = st.builds(
    Facts,
    expected=st.none() | st.just(frozenset(IDENTITIES)),
    leaving=some_identities,
    gone=some_identities,
    ended=ended_incarnations,
    cordoned=some_identities,
    returning=some_identities,
    poisoned=st.frozensets(st.sampled_from(TASKS), max_size=1),
)
policies = st.builds(
    Policy,
    assignor=st.sampled_from(["Sticky", "Weighted", "Even"]),
    scheduled_rebalance_max_delay_ms=st.sampled_from([0, 3_000, 300_000]),
    fencing=st.sampled_from(Fencing),
    max_returns=st.integers(0, 2),
)
views = st.builds(
    View,
    now_ms=st.just(NOW_MS),
    generation=st.just(5),
    members=members(),
    tasks=st.dictionaries(st.sampled_from("ab"), st.integers(0, 3)),
    policy=policies,
    facts=facts,
    suspended=st.frozensets(st.sampled_from(TASKS), max_size=2),
    unstarted=st.frozensets(st.sampled_from(TASKS), max_size=2),
    awaited=st.dictionaries(identities, times_ms, max_size=2),
)


@st.composite
def groups_that_learn(draw: st.DrawFn) -> tuple[View, Memory]:
    """All tasks have state, most members learn them, and a few have caught up."""
    learning = tuple(replace(member, learns=draw(st.booleans())) for member in draw(members()))
    view = replace(
        draw(views),
        members=learning,
        tasks={"a": 3, "b": 3},
        stateful=dict.fromkeys("ab", StateReplicas(standbys=draw(st.integers(0, 2)))),
        behind_bytes={
            (member.identity, member.incarnation): draw(
                st.dictionaries(st.sampled_from(TASKS_WITH_STATE), st.sampled_from([0, 10**9]))
            )
            for member in learning
        },
    )
    memory = draw(memories)
    warmups = st.builds(Warmup, st.sampled_from("ab"), st.integers(0, 2), identities, times_ms)
    return view, replace(
        memory,
        # Where nothing may start at all, there is nothing to see.
        holds={identity: replace(hold, blanket=False) for identity, hold in memory.holds.items()},
        warmups=tuple(draw(st.lists(warmups, max_size=2, unique_by=lambda warmup: warmup.item))),
        standbys=draw(st.dictionaries(identities, some_tasks, max_size=2)),
        departing=draw(st.dictionaries(identities, times_ms, max_size=1)),
    )


EVICTED: Mapping[str, Hold] = {
    "w1": Hold(frozenset({TaskId("a", 0)}), NOW_MS - 7_000, NOW_MS - 1_000, incarnation="1")
}


def of_awaited_incarnations(view: View, memory: Memory) -> set[TaskId]:
    """Tasks of evicted stock incarnations that are not back while another of the same identity is."""
    present = {(m.identity, m.incarnation) for m in view.members} - view.facts.ended
    entries = [*memory.unstopped]
    for identity, tasks in memory.given.items():
        leased = identity not in memory.leaseless
        entries.append(Unstopped(identity, memory.incarnations.get(identity, ""), tasks, leased=leased))
    return {
        task
        for entry in entries
        if not entry.leased
        and view.awaited.get(entry.identity, 0) > view.now_ms
        and entry.identity in {identity for identity, _ in present}
        and (entry.identity, entry.incarnation) not in present | view.facts.ended
        for task in entry.tasks
    }


@settings(max_examples=examples(80, long=250), deadline=None)
@given(views, memories)
@example(
    # Seed 777545 of the simulation: the hold of one identity has ended, and the task is owed to another one.
    View(NOW_MS, 5, (Member("w0#1", "w0", "1"), Member("w2#1", "w2", "1")), {"a": 1}),
    Memory(1, 4, {"w0": frozenset({TaskId("a", 0)})}, {"w0": "1", "w1": "1"}, EVICTED),
)
@example(
    # Its tasks wait for one that drains and returns, though memory has never heard of it; the other is cold.
    View(
        NOW_MS,
        5,
        (
            Member("w0#1", "w0", "1", warmth=Warmth.WARMING),
            Member("w1#1", "w1", "1", (TaskId("a", 0),), draining=True),
        ),
        {"a": 1},
        facts=Facts(returning=frozenset({"w1"})),
    ),
    Memory(),
)
@example(
    # Seed 801376: another incarnation of the stock worker that was given the task is back first.
    View(NOW_MS, 5, (Member("w0#2", "w0", "2", is_agent=False),), {"a": 1}, awaited={"w0": NOW_MS + 1_000}),
    Memory(1, 4, {"w0": frozenset({TaskId("a", 0)})}, {"w0": "1"}, leaseless=("w0",)),
)
def test_a_plan_from_any_memory_is_safe(view: View, memory: Memory) -> None:
    check_plan(view, memory)


@settings(max_examples=examples(80, long=250), deadline=None)
@given(groups_that_learn())
@example(
    # Seed 2010479 of the simulation: another member has caught up on a task that is barred; its own one is
    # dead.
    (
        View(
            NOW_MS,
            5,
            (Member("w0#1", "w0", "1", learns=True),),
            {"a": 1},
            facts=Facts(ended=frozenset({("w1", "1")})),
            suspended=frozenset({TaskId("a", 0)}),
            stateful={"a": StateReplicas(standbys=1)},
            behind_bytes={("w0", "1"): {TaskId("a", 0): 0}},
        ),
        Memory(1, 4, {"w1": frozenset({TaskId("a", 0)})}, {"w1": "1"}),
    ),
)
def test_a_plan_for_members_that_learn_from_any_memory_is_safe(group: tuple[View, Memory]) -> None:
    check_plan(*group)


def check_plan(view: View, memory: Memory) -> None:
    decided, after = plan(view, memory)
    check_safe(view, decided)
    for member in view.members:
        assignment = decided.assignments[member.member_id]
        assert len(assignment.assigned) == len(set(assignment.assigned)), (
            f"{member.member_id} is given a task twice"
        )
        assert not set(assignment.assigned) & set(assignment.revoked)
    given = {task for assignment in decided.assignments.values() for task in assignment.assigned}
    assert not given & of_awaited_incarnations(view, memory), "an evicted incarnation may still run it"
    given_by = [task for identity, tasks in after.given.items() for task in tasks]
    assert len(given_by) == len(set(given_by)), "two identities are said to have one task"
    assert decided.rejoin_at_ms is None or decided.rejoin_at_ms > view.now_ms
