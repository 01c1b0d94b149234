"""Default compared with Kafka on random scenarios."""

import pytest

from cooperator.scenarios.compare import MEASURES, Compared, compare, sums
from tests.scenarios.random_scenarios import scenario

SCENARIOS = 200


@pytest.fixture(scope="module", params=[False, True], ids=["without faults", "with faults"])
def compared(request: pytest.FixtureRequest) -> list[Compared]:
    return compare(scenario(seed, faults=request.param) for seed in range(SCENARIOS))


def test_no_sum_is_worse_than_kafkas(compared: list[Compared]) -> None:
    for title, measure in MEASURES:
        kafka, default, _ = sums(compared, measure)
        assert default <= kafka, title


def test_no_scenario_runs_anything_twice_or_ends_less_balanced(compared: list[Compared]) -> None:
    for row in compared:
        assert row.default["quiescent"], row.scenario.name
        assert row.default["duplicate_task_ms"] == 0, row.scenario.name
        # Kafka's figures count deleted items that still run.
        if row.kafka["final_running_tasks"] <= row.kafka["final_configured_tasks"]:
            assert row.default["final_task_spread"] <= row.kafka["final_task_spread"], row.scenario.name
            spread = "final_connector_spread"
            assert row.default[spread] <= row.kafka[spread], row.scenario.name
