"""``cooperator plan`` from a file: answers and refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cooperator.cli.app import program
from cooperator.model import INSTANCE, Member, TaskId
from cooperator.planner import Facts, View
from cooperator.scenarios.snapshot import LedBy, Snapshot, fresh_memory, to_json

NOW = 1_700_000_000_000


def snapshot() -> Snapshot:
    """Two members; ``a`` has four units in four tasks, ``legacy`` is of an unknown class."""
    owned = (
        (TaskId("a", INSTANCE), TaskId("a", 0), TaskId("a", 2), TaskId("legacy", 0)),
        (TaskId("legacy", INSTANCE), TaskId("a", 1), TaskId("a", 3), TaskId("legacy", 1)),
    )
    members = tuple(
        Member(f"w-{n}-id", f"w-{n}", f"w-{n}-incarnation", items) for n, items in enumerate(owned)
    )
    facts = Facts(expected=frozenset({"w-0", "w-1"}))
    view = View(NOW, 5, members, {"a": 4, "legacy": 2}, facts=facts)
    units = {"a": (("u0",), ("u1",), ("u2",), ("u3",))}
    classes = {"a": "noop", "legacy": "org.example.Legacy"}
    return Snapshot("lake", LedBy.OPERATOR, view, fresh_memory(view), units, classes, notes=("seen at noon",))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lake.json"
    path.write_text(to_json(snapshot()))
    return path


def run(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(program(), ["plan", *map(str, words)])
    assert result.exit_code == code, result.output
    return result.output


def answer(file: Path, *words: object) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(run("--file", file, *words, "--output", "json"))
    return value


def test_a_group_at_rest_without_changes(file: Path) -> None:
    text = run("--file", file)
    assert "group lake, led by the operator, policy Default, 2 members" in text
    assert "nothing changes" in text
    assert "note: seen at noon" in text


def test_a_table_shows_waits_with_their_ends_and_starts(file: Path) -> None:
    text = run("--file", file, "--die", "w-1")
    lines = [line.split() for line in text.splitlines()]
    [held] = [line for line in lines if line[2:4] == ["held", "for"]]
    assert held[:2] == ["1", "0s"]
    assert held[4:] == [
        "w-1",
        "a-1,",
        "a-3,",
        "legacy,",
        "legacy-1",
        *["Departed,", "until", "300s", "what", "is", "asked"],
    ]
    [starts] = [line for line in lines if line[2:3] == ["starts"]]
    assert starts[:4] == ["2", "300s", "starts", "w-0"]
    assert ["w-1", "3", "->", "gone", "1", "->", "gone"] in lines
    assert ["w-0", "3", "->", "6", "1", "->", "2"] in lines
    assert "comes to rest after 2 rounds and 300 s" in text
    assert "0 running tasks are stopped; " in text
    assert "none longer than 300 s" in text


def test_long_ranges_of_tasks_are_abbreviated(file: Path) -> None:
    assert "b, b-[0..8]" in run("--file", file, "--add", "b=9", "--leave", "w-1")


def test_the_answer_as_json_has_the_documented_form(file: Path) -> None:
    answered = answer(file, "--restart", "w-1=20", "--join", 1)
    assert list(answered) == [
        "format",
        "group",
        "led_by",
        "policy",
        "now_ms",
        "changes",
        "rounds",
        "members",
        "moved",
        "task_starts",
        "task_stops",
        "unassigned_task_ms",
        "longest_unassigned_ms",
        "placed",
        "unassigned",
        "at_rest",
        "rest_after_ms",
        "notes",
    ]
    assert answered["format"] == "cooperator-answer/1"
    assert (answered["led_by"], answered["policy"], answered["now_ms"]) == ("operator", "Default", NOW)
    assert answered["changes"] == ["w-1 dies and is back 20 s later", "a new member joins"]
    first, *_ = answered["rounds"]
    assert list(first) == ["after_ms", "cause", "lets_go", "starts", "held"]
    assert first["held"][0] == {
        "name": "a-1",
        "connector": "a",
        "task": 1,
        "held_for": "w-1",
        "until_ms": NOW + 300_000,
        "why": "Departed",
    }
    back = [round_ for round_ in answered["rounds"] if round_["cause"] == "w-1 is back"]
    assert back[0]["after_ms"] == 20_000
    assert {"name", "connector", "task", "member", "why"} == back[0]["starts"][0].keys()
    assert [load["name"] for load in answered["members"]] == ["new-0", "w-0", "w-1"]
    assert answered["members"][0]["before"] is None
    assert answered["members"][1]["before"] == {"connectors": 1, "tasks": 3}
    assert answered["members"][0]["after"].keys() == {"connectors", "tasks"}
    assert len(answered["placed"]) == 8
    assert answered["longest_unassigned_ms"] == 20_000


def test_several_changes_and_options_given_again(file: Path) -> None:
    answered = answer(file, "--join", 1, "--join", 2, "--drain", "w-0", "--drain", "w-1", "--add", "b=1")
    assert {load["name"] for load in answered["members"] if load["after"]} == {"new-0", "new-1", "new-2"}
    assert answered["unassigned"] == []


def test_a_new_tasks_max_groups_units_as_the_connector_does(file: Path) -> None:
    answered = answer(file, "--tasks-max", "a=3")
    first, second = answered["rounds"]
    assert sorted(step["name"] for step in first["lets_go"]) == ["a-0", "a-3"], "u3 goes to task 0"
    assert [step["name"] for step in second["starts"]] == ["a-0"]
    capped = answer(file, "--tasks-max", "a=9")
    assert capped["rounds"] == []
    assert "--tasks-max a=9 exceeds its number of units: there will be 4 tasks" in capped["notes"]


def test_tasks_of_a_class_that_is_not_installed_are_assumed_unchanged(file: Path) -> None:
    answered = answer(file, "--tasks-max", "legacy=3")
    assert [step["name"] for round_ in answered["rounds"] for step in round_["starts"]] == ["legacy-2"]
    assert any("legacy: remaining tasks" in note for note in answered["notes"])


def test_other_planners_for_the_same_change(file: Path) -> None:
    assert answer(file, "--restart", "w-1=20")["rest_after_ms"] == 20_000
    kafka = answer(file, "--restart", "w-1=20", "--policy", "Kip415")
    assert (kafka["policy"], kafka["longest_unassigned_ms"]) == ("Kip415", 300_000)
    assert answer(file, "--die", "w-1", "--max-delay-ms", 60_000)["rest_after_ms"] == 60_000


def test_a_saved_file_is_the_snapshot(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.json"
    before = file.read_text()
    run("--file", file, "--save", copy, "--die", "w-1")
    assert copy.read_text() == file.read_text() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--leave", "w-9"), "--leave w-9: no such member; members are: w-0, w-1"),
        (("--restart", "w-1"), "--restart 'w-1' is not NAME=NUMBER: write, for example, --restart w-1=30"),
        (("--restart", "w-1=soon"), "--restart 'w-1=soon' is not NAME=NUMBER"),
        (("--restart", "w-1=inf"), "--restart 'w-1=inf' is not NAME=NUMBER"),
        (("--restart", "w-1=-5"), "--restart w-1=-5: use a number of seconds of at least 0"),
        (("--join", "many"), "--join 'many' is not a number: write, for example, --join 2"),
        (("--join", "0"), "--join 0: use a number from 1 to 1000"),
        (("--add", "b"), "--add 'b' is not NAME=NUMBER: write, for example, --add orders=4"),
        (("--add", "a=2"), "--add a: the connector already exists"),
        (("--tasks-max", "b=2"), "--tasks-max b: no such connector; connectors are: a, legacy"),
        (("--tasks-max", "a=0"), "--tasks-max a=0: use a number of at least 1"),
        (("--delete", "b"), "--delete b: no such connector"),
        (("--die", "w-1", "--drain", "w-1"), "several options name the member w-1"),
        (("--save", "/no/such/place"), "--save /no/such/place cannot be written: No such file or directory"),
    ],
)
def test_a_bad_option_is_named_with_its_value_and_a_remedy(
    file: Path, words: tuple[str, ...], message: str
) -> None:
    assert message in " ".join(run("--file", file, *words, code=1).split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "select a group with --bootstrap-servers and --group, with --worker"),
        (("--file", "x", "--worker", "lake"), "select a group"),
        (("--group", "lake"), "--bootstrap-servers is missing"),
        (("--bootstrap-servers", "k:1"), "--group is missing"),
        (("--bootstrap-servers", "kafka", "--group", "lake"), "--bootstrap-servers 'kafka' is not host:port"),
        (("--file", "/no/such/file"), "--file /no/such/file cannot be read: No such file or directory"),
        (("--worker", "lake", "--state-dir", "/no/such/dir"), "there is no state directory /no/such/dir"),
    ],
)
def test_an_invalid_group_argument_is_refused(words: tuple[str, ...], message: str) -> None:
    assert message in " ".join(run(*words, code=1).split())


def test_a_file_without_a_snapshot_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"format": "something"}')
    assert "format is 'something', not 'cooperator-plan/1'" in " ".join(run("--file", file, code=1).split())


def test_a_broker_that_does_not_answer_is_named_within_ten_seconds() -> None:
    text = run("--bootstrap-servers", "127.0.0.1:1", "--group", "lake", code=1)
    assert "Kafka at 127.0.0.1:1" in text
    assert "--bootstrap-servers" in text
