"""More and fewer replicas: who comes, who leaves, and when."""

from collections.abc import Callable
from dataclasses import replace

from cooperator.pool import Create, Delete, Drain, Kill, MarkReason, Remove, ReportReason, UnDrain
from pool.world import World

Start = Callable[..., World]


def scale(world: World, replicas: int) -> None:
    world.desired = replace(world.desired, replicas=replicas)


def wait_out_the_delay(world: World) -> None:
    assert world.decide().actions == ()
    world.now_ms += world.desired.policy.scale_down_delay_ms


def test_the_highest_ordinals_drain_together_end_and_are_cleared_away(pool: Start) -> None:
    world = pool(4)
    two, three = (world.pods[f"lake-{n}"].incarnation for n in (2, 3))
    scale(world, 2)
    wait_out_the_delay(world)

    decision = world.decide()
    assert decision.actions == (
        Drain("lake-2", two, MarkReason.SCALE_DOWN),
        Drain("lake-3", three, MarkReason.SCALE_DOWN),
    )
    assert decision.facts.leaving == {"lake-2", "lake-3"}
    assert decision.facts.expected == {"lake-0", "lake-1"}

    world.act()
    assert world.decide().actions == ()
    world.obey_facts()
    assert world.settle() == [
        Delete("lake-2", two),
        Delete("lake-3", three),
        Remove("lake-2", two),
        Remove("lake-3", three),
    ]


def test_a_sawtooth_moves_nothing(pool: Start) -> None:
    world = pool(3)
    for _ in range(20):
        scale(world, 2)
        assert world.decide().actions == ()
        world.now_ms += world.desired.policy.scale_down_delay_ms - 1
        assert world.decide().actions == ()
        scale(world, 3)
        assert world.decide().actions == ()
        world.now_ms += 1_000


def test_whoever_is_still_leaving_stays_after_all(pool: Start) -> None:
    world = pool(3)
    life = world.pods["lake-2"].incarnation
    scale(world, 2)
    wait_out_the_delay(world)
    world.decide()
    world.act()

    scale(world, 4)
    decision = world.decide()

    assert decision.actions == (UnDrain("lake-2", life), Create("lake-3", "r1"))
    assert decision.facts.leaving == frozenset()


def test_whoever_is_still_leaving_stays_rather_than_that_another_comes(pool: Start) -> None:
    world = pool(3)
    world.crash("lake-1")
    scale(world, 1)
    world.step()
    world.held.clear()
    world.now_ms += world.desired.policy.scale_down_delay_ms
    world.decide()
    world.act()
    assert world.pods["lake-2"].mark is not None

    scale(world, 2)
    assert world.decide().actions == (UnDrain("lake-2", world.pods["lake-2"].incarnation),)


def test_a_reversal_overtakes_the_order_to_drain(pool: Start) -> None:
    world = pool(3)
    scale(world, 2)
    wait_out_the_delay(world)
    world.decide()

    scale(world, 3)
    decision = world.decide()

    assert decision.facts.leaving == frozenset()
    world.settle()
    assert world.pods["lake-2"].mark is None


def test_nobody_leaves_while_tasks_are_held_or_moving(pool: Start) -> None:
    world = pool(3)
    world.held["lake-9"] = world.now_ms
    scale(world, 2)
    world.decide()
    world.now_ms += 100_000

    decision = world.decide()
    assert decision.actions == ()
    assert [report.reason for report in decision.reports] == [ReportReason.SCALE_DOWN_WAITS]

    world.held.clear()
    assert [type(action) for action in world.settle()] == [Drain, Delete, Remove]


def test_a_group_that_never_rests_puts_it_off_for_so_long(pool: Start) -> None:
    world = pool(3)
    world.held["lake-9"] = world.now_ms
    scale(world, 2)
    world.decide()
    world.now_ms += world.desired.policy.scale_down_wait_max_ms

    assert [type(action) for action in world.decide().actions] == [Drain]


def test_nobody_leaves_while_we_do_not_lead(pool: Start) -> None:
    world = pool(3)
    scale(world, 2)
    wait_out_the_delay(world)
    world.decide()
    world.act()
    world.leading = False
    assert world.decide().actions == ()

    world = pool(3)
    world.leading = False
    scale(world, 2)
    world.decide()
    world.now_ms += 10 * world.desired.policy.scale_down_wait_max_ms
    assert world.decide().actions == ()


def test_who_does_not_live_leaves_first_and_at_once(pool: Start) -> None:
    world = pool(3)
    life = world.pods["lake-0"].incarnation
    world.crash("lake-0")
    scale(world, 2)

    decision = world.decide()

    assert decision.actions == (Remove("lake-0", life),)
    assert decision.facts.expected == {"lake-1", "lake-2"}
    world.act()
    world.progress()
    assert world.decide().facts.gone == {"lake-0"}
    assert world.settle() == []


def test_tasks_that_do_not_move_away_do_not_keep_a_pod_for_ever(pool: Start) -> None:
    world = pool(2)
    life = world.pods["lake-1"].incarnation
    scale(world, 1)
    wait_out_the_delay(world)
    world.decide()
    world.act()
    world.now_ms += world.desired.policy.drain_timeout_ms - 1
    assert world.decide().actions == ()

    world.now_ms += 1
    assert world.decide().actions == (Delete("lake-1", life),)


def test_to_nothing_at_once(pool: Start) -> None:
    world = pool(2)
    lives = [world.pods[f"lake-{n}"].incarnation for n in (0, 1)]
    scale(world, 0)

    assert world.decide().actions == (Delete("lake-0", lives[0]), Delete("lake-1", lives[1]))


def test_who_does_not_end_is_killed_where_the_platform_does_not(pool: Start) -> None:
    world = pool(1, kill_after_ms=90_000)
    life = world.pods["lake-0"].incarnation
    scale(world, 0)
    world.decide()
    world.act()
    world.now_ms += 89_999
    assert world.decide().actions == ()
    world.now_ms += 1
    assert world.decide().actions == (Kill("lake-0", life),)

    patient = pool(1)
    scale(patient, 0)
    patient.decide()
    patient.act()
    patient.now_ms += 10_000_000
    assert patient.decide().actions == ()
