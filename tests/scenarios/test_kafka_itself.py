"""Kip415 compared with Kafka's own leader, round by round in random scenarios."""

from collections.abc import Iterator

import pytest

from benchmarks.kafka_leader import Decision, KafkaLeader
from cooperator.model import Assignment, PolicyName, TaskId
from cooperator.scenarios.driver import ScenarioRound, ScenarioRun, drive
from tests.scenarios.random_scenarios import scenario

pytestmark = pytest.mark.real

SCENARIOS = 120


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaLeader]:
    with KafkaLeader() as leader:
        yield leader


def test_every_round_is_kafkas(kafka: KafkaLeader) -> None:
    rounds = 0
    for seed in range(SCENARIOS):
        run = drive(scenario(seed), PolicyName.KIP415)
        kafka.incarnation(run.scenario.max_delay_ms)
        for round_ in run.rounds:
            asked = ask(kafka, run, round_)
            outcome = round_.outcome
            where = f"seed {seed}, round {round_.number}"
            assert (asked.error, asked.delay_ms) == (outcome.error, outcome.plan.delay_ms), where
            assert as_sets(asked.assignments) == as_sets(outcome.plan.assignments), where
            rounds += 1
    assert rounds > 5 * SCENARIOS, "the scenarios have too few rounds to compare"


def ask(kafka: KafkaLeader, run: ScenarioRun, round_: ScenarioRound) -> Decision:
    """Kafka's decision in this round, from the same reports."""
    leader = next(member for member in round_.members if member.member_id == round_.outcome.leader)
    kafka.configure(round_.outcome.config)
    return kafka.decide(
        [(member.member_id, member.offset, member.items) for member in round_.members],
        now_ms=1_000_000 + round_.time_ms,
        generation=round_.generation,
        completed=round_.outcome.leader_last_completed,
        leader=leader.member_id,
        process=leader.process.incarnation,
        offset=leader.offset,
    )


def as_sets(assignments: dict[str, Assignment]) -> dict[str, tuple[set[TaskId], set[TaskId]]]:
    return {
        member_id: (set(assignment.assigned), set(assignment.revoked))
        for member_id, assignment in assignments.items()
    }
