"""Default compared with Kafka on Kafka's own scenarios: nowhere worse without a known reason, better in
sum."""

from pathlib import Path

import pytest

from cooperator.scenarios.compare import MEASURES, Compared, compare, markdown, sums
from cooperator.scenarios.scenario import Scenario, parse_scenarios
from tests.harness.kafka_vectors import lines
from tests.scenarios.short_scenarios import scenario

DOCUMENT = Path(__file__).parents[2] / "docs" / "evidence" / "comparison.md"
AT_LEAST_AS_GOOD = (
    *("rebalances", "task_starts", "task_moves_by_pod", "last_change_ms"),
    *("final_total_spread", "final_worst_connector_skew", "final_task_spread"),
    *("unassigned_task_ms", "max_one_task_unassigned_ms", "duplicate_task_ms"),
)


@pytest.fixture(scope="module")
def compared() -> list[Compared]:
    return compare(parse_scenarios(lines("named"), "named"))


@pytest.mark.parametrize("measure", AT_LEAST_AS_GOOD)
def test_no_sum_over_all_scenarios_is_worse(compared: list[Compared], measure: str) -> None:
    kafka, default, _ = sums(compared, measure)
    assert default <= kafka


@pytest.mark.parametrize("measure", ["unassigned_task_ms", "max_one_task_unassigned_ms", "task_moves_by_pod"])
def test_even_without_facts_waits_and_moves_are_fewer(compared: list[Compared], measure: str) -> None:
    kafka, _, uninformed = sums(compared, measure)
    assert uninformed < kafka


def test_no_task_ever_runs_twice(compared: list[Compared]) -> None:
    for row in compared:
        assert row.default["duplicate_task_ms"] == row.uninformed["duplicate_task_ms"] == 0, row.scenario.name


def test_no_task_waits_longer_than_its_member_is_away_or_the_delay_and_a_hand_over(
    compared: list[Compared],
) -> None:
    for row in compared:
        allowed_ms = longest_wait_ms(row.scenario)
        for played in (row.default, row.uninformed):
            assert played["max_one_task_unassigned_ms"] <= allowed_ms, row.scenario.name


def longest_wait_ms(scenario: Scenario) -> int:
    """The longest min(absence, delay) of a member, plus one hand-over."""
    away_ms = [0]
    for i, event in enumerate(scenario.events):
        if event.type in ("leave", "kick"):
            later = scenario.events[i:]
            backs = [e.time_ms for e in later if e.pod == event.pod and e.type in ("join", "rejoin_running")]
            absence_ms = backs[0] - event.time_ms if backs else scenario.max_delay_ms
            away_ms.append(min(absence_ms, scenario.max_delay_ms))
    return max(away_ms) + scenario.rejoin_ms


def test_at_rest_everything_is_complete_and_as_balanced_as_kafka_s(compared: list[Compared]) -> None:
    for row in compared:
        assert row.default["quiescent"]
        assert row.default["final_running_tasks"] == row.default["final_configured_tasks"]
        assert row.default["final_task_spread"] <= row.kafka["final_task_spread"], row.scenario.name
        zombies = row.kafka["final_running_tasks"] > row.kafka["final_configured_tasks"]
        if not zombies:
            assert row.default["final_connector_spread"] <= row.kafka["final_connector_spread"]


def test_wherever_default_is_worse_the_reason_is_known(compared: list[Compared]) -> None:
    unexplained = [(row.scenario.name, title) for row in compared for title, why in row.worse() if not why]
    assert unexplained == []


def test_the_document_is_up_to_date(compared: list[Compared]) -> None:
    written = DOCUMENT.read_text("utf-8")
    assert written.endswith(markdown(compared)), (
        "docs/evidence/comparison.md is out of date: "
        "cooperator simulate --compare on tests/planner/vectors/named"
    )


def test_a_worse_measure_without_a_known_reason_is_marked() -> None:
    (row,) = compare([scenario((60, "leave", 1))])
    worse = Compared(
        row.scenario, row.kafka, row.default | {"last_change_ms": 10**9}, row.uninformed, row.leader_stays
    )
    assert worse.worse() == [("last change s", "")]
    assert "not explained" in markdown([worse])


def test_the_table_has_a_line_for_every_scenario_and_a_column_for_every_measure(
    compared: list[Compared],
) -> None:
    table = markdown(compared).split("## Every scenario")[1].splitlines()
    assert len([line for line in table if line.startswith("| ")]) == len(compared) + 1
    assert all(title in table[2] for title, _ in MEASURES)
