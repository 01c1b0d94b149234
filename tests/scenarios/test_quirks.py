"""Kafka's quirks one by one: Kip415 has each of them, Default has none."""

from cooperator.planner import Why
from tests.scenarios.short_scenarios import DEFAULT, KAFKA, assigned, at, measured, play, revoked, runs_before


def test_the_delay_is_applied_to_workers_that_leave_for_good() -> None:
    leaves = (60, "leave", 1)
    assert measured(KAFKA, leaves)["max_one_task_unassigned_ms"] == 300_000
    assert measured(DEFAULT, leaves)["max_one_task_unassigned_ms"] == 0
    assert measured(DEFAULT, leaves, informed=False)["max_one_task_unassigned_ms"] == 300_000


def test_a_worker_that_is_back_idles_until_the_delay_ends() -> None:
    bounce = ((60, "leave", 1), (120, "join", 1))
    assert measured(KAFKA, *bounce)["max_one_task_unassigned_ms"] == 300_000
    better = measured(DEFAULT, *bounce)
    assert better["max_one_task_unassigned_ms"] == 60_000
    assert better["task_moves_by_pod"] == 0


def test_even_a_worker_that_is_back_within_the_same_round_idles() -> None:
    bounce = ((60, "leave", 1), (60, "join", 1))
    assert measured(KAFKA, *bounce)["max_one_task_unassigned_ms"] == 300_000
    assert measured(DEFAULT, *bounce)["max_one_task_unassigned_ms"] == 0


def test_one_timer_serves_the_whole_group() -> None:
    leaves = ((60, "leave", 2), (260, "leave", 3), (800, "join", 2), (800, "join", 3))
    kafka = play(KAFKA, *leaves, workers=4)
    assert [round_.time_ms for round_ in kafka.rounds if "scheduled" in round_.trigger] == [360_000]
    default = play(DEFAULT, *leaves, workers=4)
    ends = [round_.time_ms for round_ in default.rounds if "scheduled" in round_.trigger]
    assert ends == [360_000, 560_000]


def test_one_returning_worker_gets_the_lost_tasks_of_all_others() -> None:
    events = ((60, "leave", 2), (60, "leave", 3), (120, "join", 2), (400, "join", 3))
    kafka, default = play(KAFKA, *events, workers=4), play(DEFAULT, *events, workers=4)
    lost = assigned(at(kafka, 0), "w02") | assigned(at(kafka, 0), "w03")
    dealt = at(kafka, 360)
    assert assigned(dealt) == assigned(dealt, "w02")
    assert assigned(dealt) | revoked(dealt) >= lost
    assert assigned(at(default, 120)) == assigned(at(default, 0), "w02")


def test_idle_workers_are_candidates_although_they_never_left() -> None:
    kafka = play(KAFKA, (60, "leave", 1), workers=5, a=2)
    state = at(kafka, 60).outcome.after.kip415
    assert state is not None
    assert [member_id[:3] for member_id in state.candidates] == ["w02", "w03", "w04"]
    default = play(DEFAULT, (60, "leave", 1), (120, "join", 1), workers=5, a=2)
    assert assigned(at(default, 120)) == assigned(at(default, 0), "w01")


def test_a_new_leader_forgets_the_hold() -> None:
    """Its tasks move at once, which costs a revocation round when the old leader is back."""
    bounce = ((60, "leave", 0), (90, "join", 0))
    kafka, default = measured(KAFKA, *bounce), measured(DEFAULT, *bounce)
    assert kafka["max_one_task_unassigned_ms"] == 1000
    assert kafka["task_moves_by_pod"] > 0
    assert default["max_one_task_unassigned_ms"] == 30_000
    assert default["task_moves_by_pod"] == 0
    assert default["task_revocations"] == 0


def test_a_new_leader_forgets_a_running_delay_of_others() -> None:
    leaves = ((60, "leave", 2), (100, "leave", 0), (500, "join", 2), (500, "join", 0))
    assert at(play(KAFKA, *leaves), 100).outcome.plan.delay_ms == 0
    default = play(DEFAULT, *leaves)
    assert not assigned(at(default, 100))
    assert at(default, 100).outcome.plan.rejoin_at_ms == 360_000


def test_successive_joins_are_delayed_by_a_back_off() -> None:
    joins = ((60, "join", 1), (61, "join", 2), (61.04, "join", 3))
    kafka, default = play(KAFKA, *joins, workers=1), play(DEFAULT, *joins, workers=1)
    assert [round_.outcome.plan.delay_ms for round_ in kafka.rounds[2:4]] == [40, 0]
    assert len([r for r in default.rounds if revoked(r)]) == 1


def test_two_incidental_rounds_cancel_the_back_off() -> None:
    joins = tuple((60 + number, "join", number + 1) for number in range(3))
    rounds = ((62.1, "rebalance", {}), (62.2, "rebalance", {}))
    kafka = play(KAFKA, *joins, *rounds, workers=1, a=12)
    delayed = [round_ for round_ in kafka.rounds if round_.outcome.plan.delay_ms]
    assert delayed
    assert any(round_.trigger == ("event",) and revoked(round_) for round_ in kafka.rounds[3:])


def test_joins_one_by_one_cost_more_moves_than_joins_together() -> None:
    one_by_one = tuple((60 + 5 * number, "join", number + 1) for number in range(5))
    together = tuple((60, "join", number + 1) for number in range(5))
    config = {f"c{number}": 10 for number in range(12)}
    assert measured(KAFKA, *one_by_one, workers=1, **config)["task_moves"] > 100
    for joins in (one_by_one, together):
        assert measured(DEFAULT, *joins, workers=1, **config)["task_moves"] == 100


def test_revocations_take_the_front_of_the_list_and_connectors_cluster() -> None:
    events = ((60, "join", 1), (61, "join", 2))
    config = {"connector1": 4, "connector2": 4, "connector3": 4}
    assert measured(KAFKA, *events, workers=1, delay_s=0, **config)["final_worst_connector_skew"] == 2
    assert measured(DEFAULT, *events, workers=1, delay_s=0, **config)["final_worst_connector_skew"] == 0


def test_tasks_and_instances_are_balanced_apart_and_their_sum_is_not() -> None:
    config = {f"c{number}": 1 for number in range(4)}
    assert measured(KAFKA, workers=3, **config)["final_total_spread"] == 2
    assert measured(DEFAULT, workers=3, **config)["final_total_spread"] == 1


def test_copies_are_revoked_from_all_holders() -> None:
    stray = {"pod": 1, "connectors": ["connector1"], "tasks": [f"connector1-{n}" for n in range(4)]}
    kafka = play(KAFKA, (60, "join_with", stray), workers=1)
    default = play(DEFAULT, (60, "join_with", stray), workers=1)
    copies = runs_before(at(kafka, 60), "w01")
    assert all(
        copies <= set(assignment.revoked) for assignment in at(kafka, 60).outcome.plan.assignments.values()
    )
    first, stray_assignment = at(default, 60).outcome.plan.assignments.values()
    assert copies == set(stray_assignment.revoked)
    assert {at(default, 60).outcome.plan.revoked_why[item].why for item in first.revoked} == {Why.BALANCE}


def test_a_dropped_worker_s_tasks_run_twice() -> None:
    events = ((60, "kick", 2), (400, "rejoin_running", 2))
    assert measured(KAFKA, *events)["duplicate_task_ms"] > 0
    assert measured(DEFAULT, *events)["duplicate_task_ms"] == 0


def test_new_tasks_wait_for_the_full_delay_if_a_member_left_too() -> None:
    events = ((60, "join", 2), (61, "fail_next", {"pods": [2], "dead": True}), (71, "leave", 2))
    config = {"connector1": 4, "connector2": 4, "connector3": 6}
    assert measured(KAFKA, *events, workers=2, **config)["max_one_task_unassigned_ms"] == 311_000
    known, unknown = (
        measured(DEFAULT, *events, workers=2, informed=informed, **config) for informed in (True, False)
    )
    assert known["max_one_task_unassigned_ms"] == 0, "a member about to leave gets nothing"
    assert unknown["max_one_task_unassigned_ms"] == 11_000


def test_phantoms_are_revoked_from_members_that_never_ran_them() -> None:
    """If a member leaves just then, its tasks wait for a second full delay."""
    events = ((60, "leave", 2), (60, "leave", 3), (120, "join", 2), (360.5, "leave", 1))
    kafka = play(KAFKA, *events, workers=4)
    phantoms = revoked(at(kafka, 360)) - runs_before(at(kafka, 360), "w02")
    assert phantoms & {item for item in revoked(at(kafka, 360)) if item not in assigned(at(kafka, 360))}
    assert measured(KAFKA, *events, workers=4)["max_one_task_unassigned_ms"] == 600_500
    default = play(DEFAULT, *events, workers=4, informed=False)
    for round_ in default.rounds:
        reported = {item for member in round_.members for item in member.items}
        assert revoked(round_) <= reported
    assert measured(DEFAULT, *events, workers=4, informed=False)["max_one_task_unassigned_ms"] == 300_000


def test_zombies_of_deleted_connectors_survive_a_change_of_leader() -> None:
    events = ((60, "delete", "z"), (60, "leave", 0))
    kafka, default = measured(KAFKA, *events, a=8, z=1), measured(DEFAULT, *events, a=8, z=1)
    assert kafka["final_running_tasks"] > kafka["final_configured_tasks"]
    assert default["final_running_tasks"] == default["final_configured_tasks"]


def test_a_leader_that_lags_behind_the_config_log_costs_a_round() -> None:
    events = ((30, "freeze", 0), (60, "set", {"connector": "connector3", "tasks": 4}))
    kafka, default = play(KAFKA, *events, workers=2), play(DEFAULT, *events, workers=2)
    assert [round_.outcome.error for round_ in kafka.rounds] == [0, 1, 0]
    assert [round_.outcome.error for round_ in default.rounds] == [0, 0]


def test_an_old_leader_leads_again_with_its_old_memory() -> None:
    events = ((60, "kick", 0), (90, "rejoin_running", 0), (150, "leave", 1))
    kafka = play(KAFKA, *events, workers=2)
    assert at(kafka, 150).outcome.state == "stale"
    assert {round_.outcome.leader for round_ in play(DEFAULT, *events, workers=2).rounds} == {"operator"}


def test_deleted_and_recreated_at_once_nothing_waits() -> None:
    events = ((60, "delete", "connector2"), (65, "set", {"connector": "connector2", "tasks": 4}))
    for policy in (KAFKA, DEFAULT):
        assert measured(policy, *events, workers=2)["unassigned_task_ms"] == 0
