"""The table of deaths: what is seen, and what is made of it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from cooperator.pool import Create, Decision, Delete, Node, Phase, PoolDesired, Remove, ReportReason, decide
from pool.world import World

Start = Callable[..., World]


def lives(world: World) -> dict[str, str]:
    return {identity: pod.incarnation for identity, pod in world.pods.items()}


def ended(decision: Decision) -> set[str]:
    return {incarnation for _, incarnation in decision.facts.ended}


def cut_off(world: World, identity: str) -> None:
    world.nodes[world.pods[identity].node] = Node(ready=False)


def alone_on_its_node(world: World, identity: str) -> None:
    world.nodes["island"] = Node(cordoned=True)
    world.pods[identity] = replace(world.pods[identity], node="island")
    world.running[identity, world.pods[identity].incarnation] = "island"


def test_an_empty_world_is_filled_from_zero(pool: Start) -> None:
    world = World(PoolDesired("lake", 3, "r1"))

    decision = world.decide()

    assert decision.actions == (Create("lake-0", "r1"), Create("lake-1", "r1"), Create("lake-2", "r1"))
    assert decision.facts.expected == {"lake-0", "lake-1", "lake-2"}
    assert decision.next_ms is not None


def test_a_life_that_hangs_is_told_to_end_and_its_successor_is_not(pool: Start) -> None:
    world = pool(3)
    pod = world.pods["lake-1"]
    group = world.observed().group
    assert group is not None
    observed = replace(world.observed(), group=replace(group, hung=frozenset({("lake-1", pod.incarnation)})))

    told = decide(world.desired, observed, world.memory, world.now_ms)

    assert told.actions == (Delete("lake-1", pod.incarnation),)
    later = replace(group, hung=frozenset({("lake-1", "an earlier life")}))
    again = decide(world.desired, replace(observed, group=later), world.memory, world.now_ms)
    assert again.actions == ()


def test_an_order_that_shows_no_effect_is_repeated_after_a_while(pool: Start) -> None:
    world = World(PoolDesired("lake", 1, "r1"))
    world.decide()
    world.now_ms += world.desired.policy.retry_ms - 1
    assert world.decide().actions == ()
    world.now_ms += 1
    assert world.decide().actions == (Create("lake-0", "r1"),)


def test_pods_of_other_names_are_not_touched(pool: Start) -> None:
    world = pool(1)
    for stranger in ("lake-00", "lake-x", "lake", "lakes-0", "pond-1", "lake-²"):
        world.pods[stranger] = replace(world.pods["lake-0"], identity=stranger)

    assert world.decide().actions == ()


def test_a_crash_is_proven_and_the_same_identity_is_back_at_once(pool: Start) -> None:
    world = pool(3)
    life = lives(world)["lake-1"]

    world.crash("lake-1")
    decision = world.decide()

    assert decision.actions == (Remove("lake-1", life),)
    assert ("lake-1", life) in decision.facts.ended
    assert "lake-1" in decision.facts.expected
    assert "lake-1" not in decision.facts.gone | decision.facts.leaving
    assert world.settle() == [Create("lake-1", "r1")]
    assert ("lake-1", life) in world.decide().facts.ended


def test_a_crash_loop_slows_down_and_is_reported(pool: Start) -> None:
    world = pool(2)
    pauses, told = [], []
    for _ in range(5):
        world.crash("lake-1")
        world.step()
        told.append(world.decide().reports)
        since_ms = world.now_ms
        while "lake-1" not in world.pods:
            world.wait()
            world.step()
        pauses.append(round((world.now_ms - since_ms) / 1000))
        world.settle()

    assert pauses == [1, 10, 20, 40, 80]
    assert told[0] == (), "the first crash is forgiven"
    (report,) = told[-1]
    assert (report.reason, report.subject) == (ReportReason.CRASH_LOOP, "lake-1")
    assert "5 times" in report.message
    assert world.decide().reports == (), "it is a member again"

    world.now_ms += world.desired.policy.healthy_after_ms
    assert world.decide().reports == ()
    world.crash("lake-1")
    world.step()
    assert world.decide().reports == (), "a first crash again"


def test_a_crash_after_a_long_life_is_a_first_one(pool: Start) -> None:
    world = pool(2)
    for _ in range(2):
        world.crash("lake-1")
        world.settle(200)
    world.now_ms += world.desired.policy.healthy_after_ms

    world.crash("lake-1")
    world.step()

    assert world.decide().actions == (Create("lake-1", "r1"),)


def test_being_told_to_end_is_no_crash(pool: Start) -> None:
    world = pool(1)
    for _ in range(3):
        pod = world.pods["lake-0"]
        world.pods["lake-0"] = replace(pod, phase=Phase.TERMINATING, terminating_since_ms=world.now_ms)
        world.settle()

    assert world.decide().reports == ()


def test_an_object_that_vanishes_proves_nothing(pool: Start) -> None:
    world = pool(2)
    life = lives(world)["lake-1"]

    world.force_delete("lake-1")
    decision = world.decide()

    assert life not in ended(decision)
    assert "lake-1" not in decision.facts.gone
    assert decision.actions == (Create("lake-1", "r1"),)
    world.settle()
    assert life not in ended(world.decide())


def test_another_object_in_its_place_proves_nothing(pool: Start) -> None:
    world = pool(2)
    life = lives(world)["lake-1"]

    world.pods["lake-1"] = replace(
        world.pods["lake-1"], uid="other", incarnation="other", started_ms=world.now_ms
    )

    assert life not in ended(world.decide())


def test_a_container_that_runs_again_in_its_pod_has_ended_before(pool: Start) -> None:
    world = pool(2, self_restarting=True)
    life = lives(world)["lake-1"]

    world.restart("lake-1")
    decision = world.decide()

    assert ended(decision) == {life}
    assert decision.actions == ()


def test_a_late_picture_of_an_earlier_life_does_not_end_the_living_one(pool: Start) -> None:
    world = pool(2, self_restarting=True)
    earlier = world.pods["lake-1"]
    world.restart("lake-1")
    world.decide()
    living = world.pods["lake-1"]

    world.pods["lake-1"] = earlier
    decision = world.decide()

    assert ended(decision) == {earlier.incarnation}
    world.pods["lake-1"] = living
    assert ended(world.decide()) == {earlier.incarnation}


def test_a_member_lives_whatever_its_node_says(pool: Start) -> None:
    world = pool(3)
    before = world.decide().facts
    cut_off(world, "lake-1")
    for _ in range(10):
        world.now_ms += 100_000
        decision = world.decide()
        assert decision.actions == ()
        assert decision.facts == before


def test_who_is_cut_off_for_long_gets_a_stand_in_and_is_not_declared_dead(pool: Start) -> None:
    world = pool(3)
    alone_on_its_node(world, "lake-1")
    life = lives(world)["lake-1"]
    cut_off(world, "lake-1")
    world.drop("lake-1")

    assert world.decide().actions == ()
    world.now_ms += world.desired.policy.stand_in_after_ms - 1
    assert world.decide().actions == ()
    world.now_ms += 1
    decision = world.decide()

    assert decision.actions == (Delete("lake-1", life), Create("lake-3", "r1"))
    assert decision.facts.expected == {"lake-0", "lake-2", "lake-3"}
    assert life not in ended(decision)
    assert "lake-1" not in decision.facts.gone | decision.facts.leaving
    assert [report.reason for report in decision.reports] == [ReportReason.STUCK_ON_NODE]
    world.settle()

    # The node is back, and the pod ends as it was told: the stand-in stays.
    world.nodes["island"] = Node()
    assert [type(action) for action in world.settle()] == [Remove]
    assert sorted(world.pods) == ["lake-0", "lake-2", "lake-3"]


def test_a_container_that_cannot_run_again_gets_a_stand_in_too(pool: Start) -> None:
    world = pool(3, self_restarting=True)
    alone_on_its_node(world, "lake-1")
    world.crash("lake-1")
    cut_off(world, "lake-1")
    world.decide()
    world.obey_facts()
    assert world.decide().actions == ()

    world.now_ms += world.desired.policy.stand_in_after_ms

    assert Create("lake-3", "r1") in world.decide().actions


def test_while_we_do_not_lead_nobody_is_taken_for_cut_off(pool: Start) -> None:
    world = pool(2)
    world.leading = False
    for name in world.nodes:
        world.nodes[name] = Node(ready=False)
    world.now_ms += 10 * world.desired.policy.stand_in_after_ms

    assert world.decide().actions == ()


def test_what_was_on_a_machine_that_is_out_of_service_is_dead_for_good(pool: Start) -> None:
    world = pool(3)
    alone_on_its_node(world, "lake-1")
    life = lives(world)["lake-1"]

    world.nodes["island"] = Node(ready=False, out_of_service=True)
    decision = world.decide()

    assert ended(decision) == {life}
    assert decision.facts.gone == {"lake-1"}
    assert decision.actions == (Delete("lake-1", life),)
    # The platform clears the object away, and the identity is made anew elsewhere.
    world.act()
    world.force_delete("lake-1")
    assert world.decide().facts.gone == frozenset()
    assert world.settle() == []
    assert sorted(world.pods) == ["lake-0", "lake-1", "lake-2"]


def test_what_has_not_run_yet_did_not_end_with_its_machine(pool: Start) -> None:
    world = World(PoolDesired("lake", 1, "r1"))
    world.decide()
    world.act()
    alone_on_its_node(world, "lake-0")

    world.nodes["island"] = Node(ready=False, out_of_service=True)

    assert ended(world.decide()) == set()


@pytest.mark.parametrize("trusted", [True, False])
def test_a_deleted_node_proves_an_end_only_where_the_cloud_is_trusted(pool: Start, trusted: bool) -> None:
    world = pool(3, trust_node_deletion=trusted)
    alone_on_its_node(world, "lake-1")
    life = lives(world)["lake-1"]

    del world.nodes["island"]
    decision = world.decide()

    assert (life in ended(decision)) == trusted
    assert "lake-1" not in decision.facts.gone


def test_who_was_told_to_end_leaves_unless_its_node_is_unreachable(pool: Start) -> None:
    world = pool(3)
    pod = world.pods["lake-1"]
    world.pods["lake-1"] = replace(pod, phase=Phase.TERMINATING, terminating_since_ms=world.now_ms)

    assert world.decide().facts.leaving == {"lake-1"}
    assert "lake-1" in world.decide().facts.expected

    cut_off(world, "lake-1")
    assert world.decide().facts.leaving == frozenset()


def test_announcements_of_nodes(pool: Start) -> None:
    world = pool(3)
    alone_on_its_node(world, "lake-1")
    assert world.decide().facts.cordoned == {"lake-1"}

    world.nodes["island"] = Node(cordoned=True, leaving=True)
    decision = world.decide()

    assert decision.facts.leaving == decision.facts.cordoned == {"lake-1"}
    assert decision.actions == ()


def test_zones_of_nodes(pool: Start) -> None:
    world = pool(2)
    alone_on_its_node(world, "lake-1")
    world.nodes["island"] = Node(zone="far")
    assert world.decide().facts.zones == {("lake-1", "far")}
