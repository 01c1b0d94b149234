"""Reported tasks that a member may not keep: deleted, suspended, duplicate, or of an earlier incarnation."""

from cooperator.model import Member, Memory, Policy, TaskId
from cooperator.planner import Facts, View, Why, plan
from tests.planner.unreliable_group import UnreliableGroup, of, owned


def running(workers: int = 3, **task_counts: int) -> UnreliableGroup:
    """A group of w0, w1, … at rest."""
    group = UnreliableGroup(Policy(), **(task_counts or {"a": 4, "b": 4}))
    for number in range(workers):
        group.join(f"w{number}")
    group.settle()
    return group


def test_nothing_deleted_keeps_running_even_under_a_leader_that_never_knew_it() -> None:
    group = running(1, a=1)
    group.named("w0").running |= of("z", "z-0")
    decided = group.round()
    assert decided.revoked_why.keys() == of("z", "z-0")
    assert {reason.why for reason in decided.revoked_why.values()} == {Why.DELETED}


def test_fewer_tasks_are_revoked_and_the_rest_goes_on() -> None:
    group = running()
    group.task_counts["a"] = 2
    assert of("a-2", "a-3") <= group.round().revoked_why.keys()
    group.settle()
    group.check_complete_and_balanced()


def test_a_stopped_connector_keeps_its_instance() -> None:
    group = running()
    group.task_counts["a"] = 0
    group.settle()
    assert of("a") <= set().union(*owned(group).values())


def test_suspended_tasks_are_let_go_and_start_nowhere_until_they_are_not() -> None:
    group = running()
    group.suspended = of("a-0", "a-1")
    decided = group.round()
    assert decided.revoked_why.keys() == of("a-0", "a-1")
    assert {reason.why for reason in decided.revoked_why.values()} == {Why.SUSPENDED}
    for process in group.members():
        group.stopped(process)
    assert not group.round().assigned_why
    group.suspended.clear()
    again = group.round()
    assert again.assigned_why.keys() == of("a-0", "a-1")
    assert {reason.why for reason in again.assigned_why.values()} == {Why.SUSPENDED}


def test_a_task_in_quarantine_starts_nowhere_until_it_is_pardoned_and_then_at_its_own_member() -> None:
    group = running()
    bad = of("a-0")
    [holder] = (process for process in group.members() if bad <= process.running)
    group.kill(holder, proven=True)
    group.round()
    group.facts = Facts(poisoned=frozenset(bad))
    back = group.join(holder.identity)
    returned = group.round()
    assert not bad & returned.assigned_why.keys(), "not even where it belongs"
    assert not bad & returned.held.keys(), "it waits for nobody"
    group.settle()
    assert not bad & set().union(*owned(group).values())

    group.facts = Facts()
    pardoned = group.round()
    assert pardoned.assigned_why.keys() == bad <= back.running


def test_a_task_in_quarantine_that_runs_somewhere_stops() -> None:
    group = running()
    group.facts = Facts(poisoned=frozenset(of("a-0")))
    decided = group.round()
    assert decided.revoked_why.keys() == of("a-0")
    assert {reason.why for reason in decided.revoked_why.values()} == {Why.POISONED}


def test_an_undelivered_task_that_is_suspended_is_not_forgotten() -> None:
    group = running(2, a=2)
    group.task_counts["b"] = 2
    group.named("w1").fails_next = True
    given = {task for task in group.round().assigned_why if task not in owned(group)["w0"]}
    group.suspended = set(given)
    assert not group.round().assigned_why
    group.suspended.clear()
    assert group.round().assigned_why.keys() == given <= owned(group)["w1"]


def test_the_assigned_copy_of_duplicates_stays() -> None:
    group = running()
    before = owned(group)
    stray = group.join("w9")
    stray.running |= before["w1"]
    decided = group.plan_only()
    assert decided.assignments[stray.incarnation].revoked == tuple(sorted(before["w1"]))
    assert {decided.revoked_why[task].why for task in before["w1"]} == {Why.DUPLICATE}
    for process in group.members()[:3]:
        assert not before["w1"] & set(decided.assignments[process.incarnation].revoked)


def test_a_copy_on_a_leaver_is_not_the_one_that_stays() -> None:
    group = running()
    given = owned(group)["w1"]
    other = group.named("w0")
    other.running |= given
    group.facts = Facts(leaving=frozenset({"w1"}))
    decided = group.plan_only()
    assert given <= set(decided.assignments[group.named("w1").incarnation].revoked)
    assert not given & set(decided.assignments[other.incarnation].revoked)


def test_only_the_newest_incarnation_has_work_and_it_gets_what_the_older_releases() -> None:
    group = running()
    before = owned(group)["w1"]
    older = group.named("w1")
    newest = group.join("w1")
    first = group.round()
    assert set(first.assignments[older.incarnation].revoked) == before
    assert {first.revoked_why[task].why for task in before} == {Why.SUPERSEDED}
    assert not first.assignments[newest.incarnation].assigned
    group.stopped(older)
    # Somebody who runs nothing yet would be the better place, were it not its own.
    group.join("w7")
    second = group.round()
    assert set(second.assignments[newest.incarnation].assigned) == before
    third = group.round()
    assert third.assignments[older.incarnation].is_empty


def test_the_newest_incarnation_is_the_one_that_memory_has_not_seen_wherever_it_stands() -> None:
    group = running()
    older = group.named("w1")
    group.processes.remove(older)
    newest = group.join("w1")
    group.processes.append(older)
    decided = group.round()
    assert set(decided.assignments[older.incarnation].revoked) == older.stopping
    assert older.stopping
    assert newest.incarnation == group.memory.incarnations["w1"]


def test_an_old_incarnation_that_comes_back_does_not_take_the_place_of_the_new_one() -> None:
    group = running()
    older = group.named("w1")
    group.drop(older)
    newest = group.join("w1")
    group.round()
    group.advance(45_000)
    group.settle()
    assert newest.running
    group.rejoin(older)
    decided = group.round()
    assert decided.assignments[older.incarnation].is_empty
    assert decided.assignments[newest.incarnation].is_empty


def test_an_incarnation_whose_end_is_proven_is_no_member_even_if_the_broker_has_not_noticed() -> None:
    group = running()
    lost = owned(group)["w1"]
    dead = group.named("w1")
    group.proven.add((dead.identity, dead.incarnation))
    group.facts = Facts(gone=frozenset({"w1"}))
    decided = group.plan_only()
    assert decided.assignments[dead.incarnation].is_empty
    assert decided.assigned_why.keys() == lost


def test_the_reason_of_a_move_and_its_cause_stay_with_it_until_the_task_starts() -> None:
    group = running(1, a=2)
    group.join("w1")
    group.cause = "w1-joined"
    moved = group.round().revoked_why
    assert {(r.why, r.cause) for r in moved.values()} == {(Why.BALANCE, "w1-joined")}
    group.stopped(group.named("w0"))
    group.cause = "w0-rejoined"
    decided = group.round()
    assert decided.assigned_why == moved


def test_a_member_may_report_what_it_was_never_given() -> None:
    """The first round after a stock group was adopted: everything stays where it runs."""
    group = UnreliableGroup(Policy(), a=4)
    group.join("w0").running |= of("a", "a-0", "a-1")
    group.join("w1").running |= of("a-2", "a-3")
    decided = group.round()
    assert all(assignment.is_empty for assignment in decided.assignments.values())
    assert group.memory.given["w1"] == {TaskId("a", 2), TaskId("a", 3)}


def test_a_task_released_twice_moves_for_the_latest_reason() -> None:
    busy = Member("m0", "w0", "1", (TaskId("a", 0), TaskId("a", 1)), draining=True)
    view = View(0, 1, (busy, Member("m1", "w1", "1")), {"a": 2}, cause="now")
    earlier = Memory(moving={"Balance:earlier": of("a-0", "a")})
    _, memory = plan(view, earlier)
    assert memory.moving == {"Drain:now": of("a-0", "a-1")}, "the instance starts, and moves no more"
