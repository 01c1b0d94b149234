"""Kafka's scenarios from their events alone: every round, state and metric equals that of the JVM."""

import json
from typing import Any

import pytest

from cooperator.model import PolicyName
from cooperator.scenarios.driver import drive
from cooperator.scenarios.report import report
from cooperator.scenarios.scenario import parse_scenarios
from tests.harness.kafka_vectors import scenarios

READ = (
    *("id", "name", "protocol", "scheduled_rebalance_max_delay_ms", "rejoin_ms"),
    *("config0", "workers0", "events"),
)


def cases() -> list[Any]:
    pairs = ((PolicyName.KIP415, "named"), (PolicyName.EAGER, "eager"))
    return [
        pytest.param(policy, scenario, id=f"{policy}-{scenario['name']}")
        for policy, name in pairs
        for scenario in scenarios(name)
    ]


@pytest.mark.parametrize(("policy", "wanted"), cases())
def test_a_scenario_runs_as_on_the_jvm(policy: PolicyName, wanted: dict[str, Any]) -> None:
    given = json.dumps({field: wanted[field] for field in READ})
    (scenario,) = parse_scenarios([given], "vectors")
    played = json.loads(json.dumps(report(drive(scenario, policy))))

    for round_, wanted_round in zip(played["rounds"], wanted["rounds"], strict=False):
        for field, value in wanted_round.items():
            assert round_[field] == value, f"round {wanted_round['round']}: {field}"
    assert len(played["rounds"]) == len(wanted["rounds"])
    for metric, value in wanted["metrics"].items():
        assert played["metrics"][metric] == value, metric
