"""What members report and may not keep: deleted, suspended, doubled, or an earlier life's."""

from cooperator.model import Member, Memory, Policy, TaskId
from cooperator.planner import Facts, View, Why, plan
from planner.world import World, of, owned


def running(workers: int = 3, **task_counts: int) -> World:
    """A group of w0, w1, … at rest."""
    world = World(Policy(), **(task_counts or {"a": 4, "b": 4}))
    for number in range(workers):
        world.join(f"w{number}")
    world.settle()
    return world


def test_nothing_deleted_keeps_running_even_under_a_leader_that_never_knew_it() -> None:
    world = running(1, a=1)
    world.named("w0").running |= of("z", "z-0")
    decided = world.round()
    assert decided.revoked_why.keys() == of("z", "z-0")
    assert {reason.why for reason in decided.revoked_why.values()} == {Why.DELETED}


def test_fewer_tasks_are_revoked_and_the_rest_goes_on() -> None:
    world = running()
    world.task_counts["a"] = 2
    assert of("a-2", "a-3") <= world.round().revoked_why.keys()
    world.settle()
    world.check_complete_and_balanced()


def test_a_stopped_connector_keeps_its_instance() -> None:
    world = running()
    world.task_counts["a"] = 0
    world.settle()
    assert of("a") <= set().union(*owned(world).values())


def test_suspended_tasks_are_let_go_and_start_nowhere_until_they_are_not() -> None:
    world = running()
    world.suspended = of("a-0", "a-1")
    decided = world.round()
    assert decided.revoked_why.keys() == of("a-0", "a-1")
    assert {reason.why for reason in decided.revoked_why.values()} == {Why.SUSPENDED}
    for process in world.members():
        world.stopped(process)
    assert not world.round().assigned_why
    world.suspended.clear()
    again = world.round()
    assert again.assigned_why.keys() == of("a-0", "a-1")
    assert {reason.why for reason in again.assigned_why.values()} == {Why.SUSPENDED}


def test_a_task_in_quarantine_starts_nowhere_until_it_is_pardoned_and_then_at_its_own_member() -> None:
    world = running()
    bad = of("a-0")
    [holder] = (process for process in world.members() if bad <= process.running)
    world.kill(holder, proven=True)
    world.round()
    world.facts = Facts(poisoned=frozenset(bad))
    back = world.join(holder.identity)
    returned = world.round()
    assert not bad & returned.assigned_why.keys(), "not even where it belongs"
    assert not bad & returned.held.keys(), "it waits for nobody"
    world.settle()
    assert not bad & set().union(*owned(world).values())

    world.facts = Facts()
    pardoned = world.round()
    assert pardoned.assigned_why.keys() == bad <= back.running


def test_a_task_in_quarantine_that_runs_somewhere_stops() -> None:
    world = running()
    world.facts = Facts(poisoned=frozenset(of("a-0")))
    decided = world.round()
    assert decided.revoked_why.keys() == of("a-0")
    assert {reason.why for reason in decided.revoked_why.values()} == {Why.POISONED}


def test_what_was_not_delivered_and_is_suspended_meanwhile_is_not_forgotten() -> None:
    world = running(2, a=2)
    world.task_counts["b"] = 2
    world.named("w1").fails_next = True
    given = {task for task in world.round().assigned_why if task not in owned(world)["w0"]}
    world.suspended = set(given)
    assert not world.round().assigned_why
    world.suspended.clear()
    assert world.round().assigned_why.keys() == given <= owned(world)["w1"]


def test_of_duplicates_the_copy_that_was_given_stays() -> None:
    world = running()
    before = owned(world)
    stray = world.join("w9")
    stray.running |= before["w1"]
    decided = world.plan_only()
    assert decided.shares[stray.incarnation].revoked == tuple(sorted(before["w1"]))
    assert {decided.revoked_why[task].why for task in before["w1"]} == {Why.DUPLICATE}
    for process in world.members()[:3]:
        assert not before["w1"] & set(decided.shares[process.incarnation].revoked)


def test_a_copy_on_a_leaver_is_not_the_one_that_stays() -> None:
    world = running()
    given = owned(world)["w1"]
    other = world.named("w0")
    other.running |= given
    world.facts = Facts(leaving=frozenset({"w1"}))
    decided = world.plan_only()
    assert given <= set(decided.shares[world.named("w1").incarnation].revoked)
    assert not given & set(decided.shares[other.incarnation].revoked)


def test_of_two_lives_only_the_newest_has_work_and_it_gets_what_the_older_lets_go() -> None:
    world = running()
    before = owned(world)["w1"]
    older = world.named("w1")
    newest = world.join("w1")
    first = world.round()
    assert set(first.shares[older.incarnation].revoked) == before
    assert {first.revoked_why[task].why for task in before} == {Why.SUPERSEDED}
    assert not first.shares[newest.incarnation].assigned
    world.stopped(older)
    # Somebody who runs nothing yet would be the better place, were it not its own.
    world.join("w7")
    second = world.round()
    assert set(second.shares[newest.incarnation].assigned) == before
    third = world.round()
    assert third.shares[older.incarnation].is_empty


def test_the_newest_life_is_the_one_that_memory_has_not_seen_wherever_it_stands() -> None:
    world = running()
    older = world.named("w1")
    world.processes.remove(older)
    newest = world.join("w1")
    world.processes.append(older)
    decided = world.round()
    assert set(decided.shares[older.incarnation].revoked) == older.stopping
    assert older.stopping
    assert newest.incarnation == world.memory.incarnations["w1"]


def test_an_old_life_that_comes_back_does_not_take_the_place_of_the_new_one() -> None:
    world = running()
    older = world.named("w1")
    world.drop(older)
    newest = world.join("w1")
    world.round()
    world.advance(45_000)
    world.settle()
    assert newest.running
    world.rejoin(older)
    decided = world.round()
    assert decided.shares[older.incarnation].is_empty
    assert decided.shares[newest.incarnation].is_empty


def test_a_life_whose_end_is_proven_is_no_member_even_if_the_broker_has_not_noticed() -> None:
    world = running()
    lost = owned(world)["w1"]
    dead = world.named("w1")
    world.proven.add((dead.identity, dead.incarnation))
    world.facts = Facts(gone=frozenset({"w1"}))
    decided = world.plan_only()
    assert decided.shares[dead.incarnation].is_empty
    assert decided.assigned_why.keys() == lost


def test_the_reason_of_a_move_and_its_cause_stay_with_it_until_the_task_starts() -> None:
    world = running(1, a=2)
    world.join("w1")
    world.cause = "w1-joined"
    moved = world.round().revoked_why
    assert {(r.why, r.cause) for r in moved.values()} == {(Why.BALANCE, "w1-joined")}
    world.stopped(world.named("w0"))
    world.cause = "w0-rejoined"
    decided = world.round()
    assert decided.assigned_why == moved


def test_a_member_may_report_what_it_was_never_given() -> None:
    """The first round after a stock group was adopted: everything stays where it runs."""
    world = World(Policy(), a=4)
    world.join("w0").running |= of("a", "a-0", "a-1")
    world.join("w1").running |= of("a-2", "a-3")
    decided = world.round()
    assert all(share.is_empty for share in decided.shares.values())
    assert world.memory.given["w1"] == {TaskId("a", 2), TaskId("a", 3)}


def test_what_is_let_go_again_moves_for_the_latest_reason_alone() -> None:
    busy = Member("m0", "w0", "1", (TaskId("a", 0), TaskId("a", 1)), draining=True)
    view = View(0, 1, (busy, Member("m1", "w1", "1")), {"a": 2}, cause="now")
    earlier = Memory(moving={"Balance:earlier": of("a-0", "a")})
    _, memory = plan(view, earlier)
    assert memory.moving == {"Drain:now": of("a-0", "a-1")}, "the instance starts, and moves no more"
