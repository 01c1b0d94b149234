"""The command: scenarios in, files and tables out, and the refusal of invalid scenarios."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cooperator.cli.app import program
from cooperator.model import PolicyName
from cooperator.scenarios import run, run_comparison, run_story
from cooperator.scenarios.driver import drive
from cooperator.scenarios.report import metrics
from cooperator.scenarios.scenario import NEEDS, ScenarioError, parse_scenarios
from tests.scenarios.short_scenarios import DEFAULT, KAFKA, assigned, at, play, revoked

PLAY: dict[str, Any] = {
    "id": "x-1",
    "name": "bounce",
    "scheduled_rebalance_max_delay_ms": 300_000,
    "rejoin_ms": 1000,
    "config0": {"a": 2, "b-1": 1},
    "workers0": ["w00", 1, "w02"],
    "events": [
        {"time_ms": 60_000, "type": "leave", "pod": 1},
        {"time_ms": 120_000, "type": "join", "pod": "w01"},
    ],
    "some_other_field": "is ignored",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scenarios.jsonl"
    path.write_text(json.dumps(PLAY) + "\n\n")
    return path


@pytest.mark.parametrize("policy", PolicyName)
def test_rounds_and_metrics_are_written_as_lines(file: Path, policy: PolicyName) -> None:
    output = file.with_name("out.jsonl")
    table = run(file, policy, output)
    (line,) = output.read_text().splitlines()
    written = json.loads(line)
    assert written["id"] == "x-1"
    assert written["metrics"]["final_running_tasks"] == 3
    assert [round_["time_ms"] for round_ in written["rounds"]][:3] == [0, 60_000, 120_000]
    assert table.splitlines()[0].split()[:2] == ["scenario", "rebalances"]
    assert "bounce" in table


def test_a_story_shows_what_happened_to_one_task_and_why(file: Path) -> None:
    text = run_story(file, "b-1-0", DEFAULT)
    assert "assigned to w01: Created, by 1: start" in text
    assert "its member w01 has left" in text
    assert "held for w01 until 360 s: Departed, by 2: leave w01" in text
    assert "assigned to w01: Returned, by 3: join w01" in text
    assert "held until 360 s: Departed" in run_story(file, "a-1", KAFKA)


def test_an_instance_is_named_by_its_connector(file: Path) -> None:
    assert "bounce (Default): b-1\n" in run_story(file, "b-1")


def test_a_story_of_an_unknown_task_is_an_error(file: Path) -> None:
    with pytest.raises(ScenarioError, match="orders-0"):
        run_story(file, "zzz-7")


def test_a_comparison_is_a_document(file: Path) -> None:
    assert run_comparison(file).startswith("## Sums over 1 scenarios")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config0": None}, "config0 is None, but must be of type dict"),
        ({"config0": {"a": -1}}, "config0: a is -1, but must be at least 0"),
        ({"rejoin_ms": "1000"}, "rejoin_ms is '1000', but must be"),
        ({"workers0": ["first"]}, "workers0: 'first' is not a pod"),
        ({"events": [{"time_ms": 1}]}, r"events\[0\]: type is None"),
        (
            {"events": [{"time_ms": 1, "type": "explode"}]},
            "unknown type 'explode'; use one of cordon, delete",
        ),
        ({"events": [{"time_ms": 1, "type": "join"}]}, "pod is missing; an event of type join needs it"),
        ({"events": ["join"]}, "an event must be a JSON object"),
        (
            {"events": [{"time_ms": 1, "type": "join_with", "pod": 1, "connectors": [], "tasks": ["a"]}]},
            "'a' is not a task; use a name such as",
        ),
    ],
)
def test_a_bad_scenario_is_refused_by_line_and_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as refused:
        list(parse_scenarios(["", json.dumps(PLAY | change)], "file"))
    assert str(refused.value).startswith("file:2")


@pytest.mark.parametrize("line", ["{", "[1]"])
def test_a_line_that_is_no_json_object_is_refused(line: str) -> None:
    with pytest.raises(ScenarioError, match="file:1"):
        list(parse_scenarios([line], "file"))


def test_a_drained_pod_hands_over_before_it_goes() -> None:
    drained = play(DEFAULT, (60, "drain", 1), informed=False)
    moving = assigned(at(drained, 0), "w01")
    assert revoked(at(drained, 60)) == moving == assigned(at(drained, 61))
    assert "w01" not in {member.process.name for member in at(drained, 61).members}
    assert drained.group.meter.longest_ms == 1000


def test_a_cordoned_pod_gets_nothing_new_until_it_is_uncordoned() -> None:
    new = {"connector": "new", "tasks": 3}
    run_ = play(DEFAULT, (60, "cordon", 1), (60, "set", new), (120, "uncordon", 1), (120, "rebalance", {}))
    assert not assigned(at(run_, 60), "w01")
    assert revoked(at(run_, 120))


def test_expected_pods_are_waited_for() -> None:
    pods = {"pods": [0, 1, 2]}
    run_ = play(DEFAULT, (60, "expect", pods), (60, "join", 1), (80, "join", 2), workers=1, informed=False)
    assert not revoked(at(run_, 60))
    assert revoked(at(run_, 80))


def test_more_than_sixty_rounds_are_not_quiescent() -> None:
    restless = play(KAFKA, *((60 + number, "rebalance", {}) for number in range(70)))
    assert not restless.quiescent
    assert len(restless.rounds) == 60


def test_the_example_in_the_help_works(tmp_path: Path) -> None:
    printed = CliRunner().invoke(program(), ["simulate", "--example"])
    assert printed.exit_code == 0
    file = tmp_path / "scenarios.jsonl"
    file.write_text(printed.output)
    table = run(file)
    assert len(table.splitlines()) == 1 + len(printed.output.splitlines())
    assert "held for w01" in run_story(file, "orders-2")


def test_the_page_on_scenarios_has_every_event_and_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text()
    rows = [
        re.findall(r"`([a-z_0]+)`", line.rpartition("|")[0].rpartition("|")[0]) for line in page.splitlines()
    ]
    for name, needs in NEEDS.items():
        [row] = [row for row in rows if name in row[: 1 + (name in ("cordon", "uncordon"))]]
        assert {*needs} <= {*row}, name
    for field in ("config0", "workers0", "scheduled_rebalance_max_delay_ms", "rejoin_ms", "events"):
        assert f"**`{field}`**" in page


def test_a_stop_of_the_world_costs_what_the_stops_of_other_policies_cost() -> None:
    """Ten tasks are added to many: Eager stops all that run, each for as long as a hand-over takes."""
    line = json.dumps(
        {
            "id": "1",
            "name": "grows",
            "protocol": "sessioned",
            "scheduled_rebalance_max_delay_ms": 300_000,
            "rejoin_ms": 700,
            "config0": {"a": 90},
            "workers0": ["w00", "w01", "w02"],
            "events": [{"time_ms": 60_000, "type": "set", "connector": "a", "tasks": 100}],
        }
    )
    (scenario,) = parse_scenarios([line], "test")
    eager, default = (metrics(drive(scenario, policy)) for policy in (PolicyName.EAGER, PolicyName.DEFAULT))
    assert eager["task_stops"] >= 90
    assert eager["down_task_ms"] >= eager["task_stops"] * 700
    assert eager["max_one_task_down_ms"] >= 700
    assert (default["task_stops"], default["down_task_ms"]) == (0, 0)
