"""The duration of a round: from its cause until all assigned tasks run."""

import logging
import re
from collections.abc import Mapping
from typing import Any

import pytest

from cooperator.leader.observability.durations import Durations
from cooperator.leader.observability.projection import project
from cooperator.leader.rebalance_lines import RebalanceLines
from cooperator.model import Policy
from cooperator.planner.view import Facts
from tests.harness.fake_group import FakeGroup
from tests.harness.reconciling_group import reconciled_group


def rounds(group: FakeGroup) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = project(group.machine.state, {})["rebalances"]
    return listed


def test_a_round_is_counted_from_when_its_cause_was_known() -> None:
    group = FakeGroup()
    group.join("lake-0")
    group.join("lake-1")
    group.round()
    group.desire(a=4)
    group.settle()
    group.post("a", "u0", "u1", "u2", "u3")
    group.settle()

    group.advance(10_000)
    death_ms = group.now_ms
    group.die("lake-1")
    group.advance(400)
    group.round()
    assert rounds(group)[-1]["since_ms"] == death_ms
    assert rounds(group)[-1]["at_ms"] == death_ms + 400


def test_the_second_round_of_a_move_is_counted_from_the_cause_of_the_first() -> None:
    group = FakeGroup()
    for name in ("lake-0", "lake-1"):
        group.join(name)
    group.round()
    group.desire(a=4)
    group.settle()
    group.post("a", "u0", "u1", "u2", "u3")
    group.settle()
    told_ms = group.now_ms
    before = len(rounds(group))

    group.facts(Facts(leaving=frozenset({"lake-1"})))
    assert group.asks_for_round()
    group.round()
    group.advance(3_000)
    group.settle()
    moved = [each for each in rounds(group)[before:] if each["assigned"] or each["revoked"]]
    assert [bool(each["revoked"]) for each in moved] == [True, False]
    assert {each["since_ms"] for each in moved} == {told_ms}

    group.advance(10_000)
    later_ms = group.now_ms
    group.facts(Facts())
    group.settle()
    assert rounds(group)[-2]["since_ms"] == later_ms, "later events change nothing"


def projected(*tasks: Mapping[str, Any], **last: Any) -> dict[str, Any]:
    first = {"term": 1, "generation": 4, "since_ms": 1_000, "at_ms": 1_200, "assigned": 0, "revoked": 0}
    named = [{"name": f"a-{number}", **each} for number, each in enumerate(tasks)]
    return {"rebalances": [first, {**first, "generation": 5, "assigned": 2, **last}], "tasks": named}


def task(state: str, at_ms: int, epoch: str = "1.5") -> dict[str, Any]:
    return {"state": state, "at_ms": at_ms, "epoch": epoch}


def durations(noted: Mapping[str, Any]) -> list[int]:
    return [each["duration_ms"] for each in noted["rebalances"]]


def test_a_round_is_over_when_the_last_task_that_it_gave_runs() -> None:
    known = Durations()
    looks = [
        projected(task("RUNNING", 3_000), task("STARTING", 2_000), task("RUNNING", 1, "1.4")),
        projected(task("RUNNING", 3_500), task("RUNNING", 4_000), task("RUNNING", 1, "1.4")),
        # Later words are of its progress.
        projected(task("RUNNING", 9_000), task("RUNNING", 9_500), task("RUNNING", 1, "1.4")),
    ]
    seen = []
    for look in looks:
        known.note(look)
        seen.append(durations(look))
    assert seen == [[200, 0], [200, 3_000], [200, 3_000]]


@pytest.mark.parametrize("state", ["PAUSED", "STOPPED", "FAILED"])
def test_a_task_that_will_not_run_is_not_awaited(state: str) -> None:
    look = projected(task("RUNNING", 3_000), task(state, 5_000))
    Durations().note(look)
    assert durations(look) == [200, 4_000]


def test_clocks_that_disagree_give_no_time_before_the_plan() -> None:
    look = projected(task("RUNNING", 10), task("RUNNING", 20))
    Durations().note(look)
    assert durations(look) == [200, 200]


def test_a_round_whose_tasks_were_given_to_others_before_they_ran_has_no_duration() -> None:
    look = projected(task("RUNNING", 3_000), task("RUNNING", 3_100, "1.6"))
    Durations().note(look)
    assert durations(look) == [200, 0]


def test_the_first_report_of_each_task_counts_though_others_start_later() -> None:
    known = Durations()
    known.note(projected(task("RUNNING", 1_700), task("STARTING", 1_300)))
    known.note(projected(task("RUNNING", 61_000), task("RUNNING", 61_200)))
    rounds, starts = known.rounds.shown(), known.starts.shown()
    assert (rounds["counts"][-1], rounds["sum_s"]) == (2, 0.2 + 60.2)
    assert (starts["counts"][-1], starts["sum_s"]) == (2, 0.5 + 60.0)


def test_targets_without_rounds_are_told_apart_by_their_epochs() -> None:
    """A moved task starts when it is released, at a later epoch that no target has."""
    first = {"term": 2, "generation": 7, "since_ms": 1_000, "at_ms": 1_000, "assigned": 1, "revoked": 1}
    second = {**first, "since_ms": 5_000, "at_ms": 5_000, "revoked": 0}
    look = {
        "rebalances": [{**first, "epoch": 3}, {**second, "epoch": 6}],
        "tasks": [
            {"name": "a-0", **task("RUNNING", 3_000, "2.4")},
            {"name": "a-1", **task("RUNNING", 5_200, "2.6")},
            {"name": "a-2", **task("RUNNING", 900, "2.2")},
            {"name": "a-3", **task("RUNNING", 900, "1.6")},
        ],
    }
    known = Durations()
    known.note(look)
    assert durations(look) == [2_000, 200]
    assert known.rounds.shown()["sum_s"] == 2.2


def test_a_change_without_a_round_counts_from_its_own_cause_and_has_its_moves() -> None:
    group = reconciled_group()
    before = dict(group.machine.state.history.counters)
    group.join("lake-3")
    group.round()
    group.settle()
    group.advance(10_000)
    group.desire(a=6, b=1)
    told_ms = group.now_ms
    group.settle()
    counters = group.machine.state.history.counters
    grown = {name: counters[name] - before[name] for name in counters}
    assert grown == {"rebalances": 3, "assigned": 2, "revoked": 1, "moved": 1}
    last = project(group.machine.state, group.statuses)["rebalances"][-1]
    assert 0 <= last["since_ms"] - told_ms <= 50
    assert last["epoch"] > 0
    assert last["cause"] == "Created"


def test_tasks_of_a_member_whose_end_was_known_before_the_round_count_as_moved() -> None:
    group = reconciled_group(Policy(scheduled_rebalance_max_delay_ms=20_000))
    before = dict(group.machine.state.history.counters)
    lost = group.runs("lake-1")
    incarnation = group.of("lake-1").incarnation
    group.facts(Facts(ended=frozenset({("lake-1", f"incarnation-{incarnation}")})))
    group.advance(500)
    group.die("lake-1")
    group.round()
    group.advance(25_000)
    group.settle()
    counters = group.machine.state.history.counters
    assert counters["moved"] - before["moved"] == len(lost)
    assert group.machine.state.history.rebalances[-1].cause == "HoldEnded"
    assert counters["assigned"] - before["assigned"] == len(lost)


def test_rounds_of_a_term_are_not_mistaken_for_targets() -> None:
    look = projected(task("RUNNING", 3_000), task("RUNNING", 3_100, "1.9"))
    Durations().note(look)
    assert durations(look) == [200, 0]


def test_each_change_has_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    group = reconciled_group()
    lines = RebalanceLines()
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            lines.say(group.machine.state.history.rebalances)
            group.desire(a=6, b=1)
            group.settle()
        lines.say(group.machine.state.history.rebalances)
    said = [record.getMessage() for record in caplog.records if "assigned" in record.getMessage()]
    assert len(said) == len(group.machine.state.history.rebalances)
    assert said[0] == "generation 1: 0 assigned, 0 revoked, 0 held: members changed"
    assert re.fullmatch(r"epoch \d+: 1 assigned, 0 revoked, 0 held: Created", said[-1])
