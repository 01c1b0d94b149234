"""Properties of one step of a member, and of its way to a target."""

from hypothesis import given
from hypothesis import strategies as st

from cooperator.model import TaskId
from cooperator.reconciliation import CurrentAssignment, MemberState, next_assignment

TASKS = tuple(TaskId(connector, number) for connector in ("c0", "c1") for number in (-1, 0, 1, 2))

tasks = st.frozensets(st.sampled_from(TASKS))


@st.composite
def currents(draw: st.DrawFn) -> CurrentAssignment:
    """Any consistent state of a member whose epoch is at most 5."""
    epoch = draw(st.integers(0, 5))
    assigned = draw(st.dictionaries(st.sampled_from(TASKS), st.integers(0, epoch)))
    others = [task for task in TASKS if task not in assigned]
    if others and draw(st.booleans()):
        pending = draw(st.dictionaries(st.sampled_from(others), st.integers(0, epoch), min_size=1))
        return CurrentAssignment(epoch, epoch, MemberState.UNREVOKED_TASKS, assigned, pending)
    state = draw(st.sampled_from([MemberState.STABLE, MemberState.UNRELEASED_TASKS]))
    return CurrentAssignment(epoch, epoch, state, assigned)


@given(currents(), tasks, st.integers(0, 7), st.none() | tasks, tasks)
def test_a_step_gives_nothing_that_others_may_run(current, target, target_epoch, owned, elsewhere):
    elsewhere -= current.occupied
    occupied = elsewhere | current.occupied

    after = next_assignment(current, target, target_epoch, owned, occupied.__contains__)

    assert not after.occupied & elsewhere
    assert not after.assigned.keys() & after.pending_revocation.keys()
    assert (after.state is MemberState.UNREVOKED_TASKS) == bool(after.pending_revocation)
    if after is not current:
        assert after.assigned.keys() <= target
        assert after.previous_member_epoch == current.member_epoch


@given(currents(), tasks, st.integers(0, 7), st.none() | tasks, tasks)
def test_nothing_is_freed_that_the_member_owns(current, target, target_epoch, owned, elsewhere):
    """Tasks that the member owns stay occupied, and all of its tasks do if it does not say."""
    elsewhere -= current.occupied
    after = next_assignment(current, target, target_epoch, owned, (elsewhere | current.occupied).__contains__)

    mine = current.occupied if owned is None else current.occupied & owned
    assert mine <= after.occupied


@given(currents(), tasks)
def test_a_member_that_obeys_reaches_its_target_in_two_steps(current, target):
    """It releases what it must, and then all of the target is free for it."""
    epoch = 8
    released = next_assignment(current, target, epoch, None, current.occupied.__contains__)
    # A member that was already revoking first finishes that.
    for _ in range(2):
        owned = frozenset(released.assigned)
        released = next_assignment(released, target, epoch, owned, released.occupied.__contains__)

    assert (released.state, released.member_epoch) == (MemberState.STABLE, epoch)
    assert released.assigned.keys() == target


@given(currents(), tasks, tasks)
def test_tasks_that_stay_keep_their_epoch(current, target, elsewhere):
    elsewhere -= current.occupied
    owned = frozenset(current.assigned)
    after = next_assignment(current, target, 8, owned, (elsewhere | current.occupied).__contains__)

    assert all(after.assigned[task] == epoch for task, epoch in current.assigned.items() if task in target)


@given(currents(), tasks, tasks)
def test_only_what_others_have_is_waited_for(current, target, elsewhere):
    """A slow member delays its own tasks alone: the rest of the target is given at once."""
    elsewhere -= current.occupied
    owned = frozenset[TaskId]()
    after = next_assignment(current, target, 8, owned, (elsewhere | current.occupied).__contains__)

    assert after.assigned.keys() == target - elsewhere
    assert (after.state is MemberState.UNRELEASED_TASKS) == bool(target & elsewhere)
