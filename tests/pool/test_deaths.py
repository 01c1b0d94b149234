"""The table of deaths: observations of pods and nodes, and the decision on each."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from cooperator.pool import Create, Decision, Delete, Node, Phase, PoolDesired, Remove, ReportReason, decide
from tests.pool.unreliable_pods import UnreliablePods

Start = Callable[..., UnreliablePods]


def incarnations(pods: UnreliablePods) -> dict[str, str]:
    return {identity: pod.incarnation for identity, pod in pods.pods.items()}


def ended(decision: Decision) -> set[str]:
    return {incarnation for _, incarnation in decision.facts.ended}


def cut_off(pods: UnreliablePods, identity: str) -> None:
    pods.nodes[pods.pods[identity].node] = Node(ready=False)


def alone_on_its_node(pods: UnreliablePods, identity: str) -> None:
    pods.nodes["island"] = Node(cordoned=True)
    pods.pods[identity] = replace(pods.pods[identity], node="island")
    pods.running[identity, pods.pods[identity].incarnation] = "island"


def test_an_empty_pool_is_filled_from_ordinal_zero(pool: Start) -> None:
    pods = UnreliablePods(PoolDesired("lake", 3, "r1"))

    decision = pods.decide()

    assert decision.actions == (Create("lake-0", "r1"), Create("lake-1", "r1"), Create("lake-2", "r1"))
    assert decision.facts.expected == {"lake-0", "lake-1", "lake-2"}
    assert decision.next_ms is not None


def test_an_incarnation_that_hangs_is_deleted_and_its_successor_is_not(pool: Start) -> None:
    pods = pool(3)
    pod = pods.pods["lake-1"]
    group = pods.observed().group
    assert group is not None
    observed = replace(pods.observed(), group=replace(group, hung=frozenset({("lake-1", pod.incarnation)})))

    decided = decide(pods.desired, observed, pods.memory, pods.now_ms)

    assert decided.actions == (Delete("lake-1", pod.incarnation),)
    later = replace(group, hung=frozenset({("lake-1", "an earlier incarnation")}))
    again = decide(pods.desired, replace(observed, group=later), pods.memory, pods.now_ms)
    assert again.actions == ()


def test_an_action_without_effect_is_repeated_after_a_while(pool: Start) -> None:
    pods = UnreliablePods(PoolDesired("lake", 1, "r1"))
    pods.decide()
    pods.now_ms += pods.desired.policy.retry_ms - 1
    assert pods.decide().actions == ()
    pods.now_ms += 1
    assert pods.decide().actions == (Create("lake-0", "r1"),)


def test_pods_of_other_names_are_not_touched(pool: Start) -> None:
    pods = pool(1)
    for stranger in ("lake-00", "lake-x", "lake", "lakes-0", "pond-1", "lake-²"):
        pods.pods[stranger] = replace(pods.pods["lake-0"], identity=stranger)

    assert pods.decide().actions == ()


def test_a_crash_is_proven_and_the_same_identity_is_back_at_once(pool: Start) -> None:
    pods = pool(3)
    incarnation = incarnations(pods)["lake-1"]

    pods.crash("lake-1")
    decision = pods.decide()

    assert decision.actions == (Remove("lake-1", incarnation),)
    assert ("lake-1", incarnation) in decision.facts.ended
    assert "lake-1" in decision.facts.expected
    assert "lake-1" not in decision.facts.gone | decision.facts.leaving
    assert pods.settle() == [Create("lake-1", "r1")]
    assert ("lake-1", incarnation) in pods.decide().facts.ended


def test_a_crash_loop_slows_down_and_is_reported(pool: Start) -> None:
    pods = pool(2)
    pauses, decided = [], []
    for _ in range(5):
        pods.crash("lake-1")
        pods.step()
        decided.append(pods.decide().reports)
        since_ms = pods.now_ms
        while "lake-1" not in pods.pods:
            pods.wait()
            pods.step()
        pauses.append(round((pods.now_ms - since_ms) / 1000))
        pods.settle()

    assert pauses == [1, 10, 20, 40, 80]
    assert decided[0] == (), "the first crash does not delay the restart"
    (report,) = decided[-1]
    assert (report.reason, report.subject) == (ReportReason.CRASH_LOOP, "lake-1")
    assert "5 times" in report.message
    assert pods.decide().reports == (), "the pod is a member again"

    pods.now_ms += pods.desired.policy.healthy_after_ms
    assert pods.decide().reports == ()
    pods.crash("lake-1")
    pods.step()
    assert pods.decide().reports == (), "the count begins anew"


def test_a_crash_after_a_long_incarnation_counts_as_the_first(pool: Start) -> None:
    pods = pool(2)
    for _ in range(2):
        pods.crash("lake-1")
        pods.settle(200)
    pods.now_ms += pods.desired.policy.healthy_after_ms

    pods.crash("lake-1")
    pods.step()

    assert pods.decide().actions == (Create("lake-1", "r1"),)


def test_a_requested_end_is_no_crash(pool: Start) -> None:
    pods = pool(1)
    for _ in range(3):
        pod = pods.pods["lake-0"]
        pods.pods["lake-0"] = replace(pod, phase=Phase.TERMINATING)
        pods.settle()

    assert pods.decide().reports == ()


def test_an_object_that_vanishes_proves_nothing(pool: Start) -> None:
    pods = pool(2)
    incarnation = incarnations(pods)["lake-1"]

    pods.force_delete("lake-1")
    decision = pods.decide()

    assert incarnation not in ended(decision)
    assert "lake-1" not in decision.facts.gone
    assert decision.actions == (Create("lake-1", "r1"),)
    pods.settle()
    assert incarnation not in ended(pods.decide())


def test_another_object_in_its_place_proves_nothing(pool: Start) -> None:
    pods = pool(2)
    incarnation = incarnations(pods)["lake-1"]

    pods.pods["lake-1"] = replace(pods.pods["lake-1"], uid="other", incarnation="other", restarts=7)

    assert incarnation not in ended(pods.decide())


def test_a_container_that_runs_again_in_its_pod_has_ended_before(pool: Start) -> None:
    pods = pool(2, self_restarting=True)
    incarnation = incarnations(pods)["lake-1"]

    pods.restart("lake-1")
    decision = pods.decide()

    assert ended(decision) == {incarnation}
    assert decision.actions == ()


def test_a_late_observation_of_an_earlier_incarnation_does_not_end_the_running_one(pool: Start) -> None:
    pods = pool(2, self_restarting=True)
    earlier = pods.pods["lake-1"]
    pods.restart("lake-1")
    pods.decide()
    living = pods.pods["lake-1"]

    pods.pods["lake-1"] = earlier
    decision = pods.decide()

    assert ended(decision) == set(), "it is reported as running"
    pods.pods["lake-1"] = living
    assert ended(pods.decide()) == {earlier.incarnation}


def test_a_member_lives_whatever_its_node_says(pool: Start) -> None:
    pods = pool(3)
    before = pods.decide().facts
    cut_off(pods, "lake-1")
    for _ in range(10):
        pods.now_ms += 100_000
        decision = pods.decide()
        assert decision.actions == ()
        assert decision.facts == before


def test_a_member_unreachable_for_long_gets_a_stand_in_and_is_not_declared_dead(pool: Start) -> None:
    pods = pool(3)
    alone_on_its_node(pods, "lake-1")
    incarnation = incarnations(pods)["lake-1"]
    cut_off(pods, "lake-1")
    pods.drop("lake-1")

    assert pods.decide().actions == ()
    pods.now_ms += pods.desired.policy.stand_in_after_ms - 1
    assert pods.decide().actions == ()
    pods.now_ms += 1
    decision = pods.decide()

    assert decision.actions == (Delete("lake-1", incarnation), Create("lake-3", "r1"))
    assert decision.facts.expected == {"lake-0", "lake-2", "lake-3"}
    assert incarnation not in ended(decision)
    assert "lake-1" not in decision.facts.gone | decision.facts.leaving
    assert [report.reason for report in decision.reports] == [ReportReason.STUCK_ON_NODE]
    pods.settle()

    # The node is back, and the pod ends as requested; the stand-in stays.
    pods.nodes["island"] = Node()
    assert [type(action) for action in pods.settle()] == [Remove]
    assert sorted(pods.pods) == ["lake-0", "lake-2", "lake-3"]


def test_a_container_that_cannot_run_again_gets_a_stand_in_too(pool: Start) -> None:
    pods = pool(3, self_restarting=True)
    alone_on_its_node(pods, "lake-1")
    pods.crash("lake-1")
    cut_off(pods, "lake-1")
    pods.decide()
    pods.obey_facts()
    assert pods.decide().actions == ()

    pods.now_ms += pods.desired.policy.stand_in_after_ms

    assert Create("lake-3", "r1") in pods.decide().actions


def test_without_the_lead_no_member_counts_as_unreachable(pool: Start) -> None:
    pods = pool(2)
    pods.leading = False
    for name in pods.nodes:
        pods.nodes[name] = Node(ready=False)
    pods.now_ms += 10 * pods.desired.policy.stand_in_after_ms

    assert pods.decide().actions == ()


def test_members_on_a_machine_out_of_service_are_proven_dead(pool: Start) -> None:
    pods = pool(3)
    alone_on_its_node(pods, "lake-1")
    incarnation = incarnations(pods)["lake-1"]

    pods.nodes["island"] = Node(ready=False, out_of_service=True)
    decision = pods.decide()

    assert ended(decision) == {incarnation}
    assert decision.facts.gone == {"lake-1"}
    assert decision.actions == (Delete("lake-1", incarnation),)
    # The platform removes the object, and the identity is created elsewhere.
    pods.act()
    pods.force_delete("lake-1")
    assert pods.decide().facts.gone == frozenset()
    assert pods.settle() == []
    assert sorted(pods.pods) == ["lake-0", "lake-1", "lake-2"]


def test_a_pod_that_has_not_run_did_not_end_with_its_machine(pool: Start) -> None:
    pods = UnreliablePods(PoolDesired("lake", 1, "r1"))
    pods.decide()
    pods.act()
    alone_on_its_node(pods, "lake-0")

    pods.nodes["island"] = Node(ready=False, out_of_service=True)

    assert ended(pods.decide()) == set()


@pytest.mark.parametrize("trusted", [True, False])
def test_a_deleted_node_proves_an_end_only_where_the_cloud_is_trusted(pool: Start, trusted: bool) -> None:
    pods = pool(3, trust_node_deletion=trusted)
    alone_on_its_node(pods, "lake-1")
    incarnation = incarnations(pods)["lake-1"]

    del pods.nodes["island"]
    decision = pods.decide()

    assert (incarnation in ended(decision)) == trusted
    assert "lake-1" not in decision.facts.gone


def test_a_member_asked_to_end_leaves_unless_its_node_is_unreachable(pool: Start) -> None:
    pods = pool(3)
    pod = pods.pods["lake-1"]
    pods.pods["lake-1"] = replace(pod, phase=Phase.TERMINATING)

    assert pods.decide().facts.leaving == {"lake-1"}
    assert "lake-1" in pods.decide().facts.expected

    cut_off(pods, "lake-1")
    assert pods.decide().facts.leaving == frozenset()


def test_announcements_of_nodes(pool: Start) -> None:
    pods = pool(3)
    alone_on_its_node(pods, "lake-1")
    assert pods.decide().facts.cordoned == {"lake-1"}

    pods.nodes["island"] = Node(cordoned=True, leaving=True)
    decision = pods.decide()

    assert decision.facts.leaving == decision.facts.cordoned == {"lake-1"}
    assert decision.actions == ()


def test_zones_of_nodes(pool: Start) -> None:
    pods = pool(2)
    alone_on_its_node(pods, "lake-1")
    pods.nodes["island"] = Node(zone="far")
    assert pods.decide().facts.zones == {("lake-1", "far")}
