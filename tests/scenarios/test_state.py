"""Tasks with state in scenarios: moved warm as they are ready, and as Kafka Streams looks for them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cooperator.cli.app import program
from cooperator.scenarios.scenario import ScenarioError, parse_scenarios

MINUTE_MS = 60_000
SCALE_UP = {
    "name": "8 tasks with state move to a new member",
    "scheduled_rebalance_max_delay_ms": 300_000,
    "rejoin_ms": 1_000,
    "config0": {"counts": 16},
    "workers0": ["w00"],
    "state": {"counts": 1_000_000_000},
    "learn_bytes_per_s": 50_000_000,
    "events": [{"time_ms": MINUTE_MS, "type": "join", "pod": "w01"}],
}


def simulated(tmp_path: Path, policy: str) -> dict[str, int]:
    scenarios, output = tmp_path / "scenarios.jsonl", tmp_path / "out.jsonl"
    scenarios.write_text(json.dumps(SCALE_UP))
    arguments = ["simulate", str(scenarios), "--policy", policy, "--output", str(output)]
    finished = CliRunner().invoke(program(), arguments)
    assert finished.exit_code == 0, finished.output
    metrics: dict[str, int] = json.loads(output.read_text())["metrics"]
    return metrics


def test_eight_tasks_move_as_fast_as_they_are_learned(tmp_path: Path) -> None:
    found = simulated(tmp_path, "Default")
    assert found["task_moves_by_pod"] == 8
    assert found["task_cold_starts"] == 0
    # Two at a time, each for 19.8 s, and a second for each round.
    assert 79_000 < found["last_change_ms"] - MINUTE_MS < 95_000
    assert found["final_task_spread"] == 0


def test_they_take_kafka_streams_forty_minutes(tmp_path: Path) -> None:
    found = simulated(tmp_path, "Streams")
    assert found["task_moves_by_pod"] == 8
    assert found["task_cold_starts"] == 0
    assert 40 * MINUTE_MS <= found["last_change_ms"] - MINUTE_MS < 41 * MINUTE_MS
    assert found["final_task_spread"] == 0


def test_under_kafka_connect_s_rules_they_all_start_cold(tmp_path: Path) -> None:
    found = simulated(tmp_path, "Kip415")
    assert found["task_cold_starts"] == found["task_moves_by_pod"] == 8
    assert found["restoring_task_ms"] == 8 * 20_000


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"state": 5}, "state is 5, but must be of type dict"),
        ({"state": {"counts": -1}}, "state: counts is -1, but must be at least 0"),
        ({"learn_bytes_per_s": 0}, "learn_bytes_per_s is 0, but must be at least 1"),
    ],
)
def test_wrong_fields_are_refused_by_name(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        list(parse_scenarios([json.dumps({**SCALE_UP, **fields})], "x"))
