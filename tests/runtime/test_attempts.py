"""Conversations with a runtime about start, stop and pause, by the events of its listener."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from cooperator.connectors.base import SessionLost
from cooperator.model import INSTANCE, TaskId
from cooperator.runtime import RuntimeSettings, TaskSpec
from cooperator.runtime.attempt import Attempt, Run
from cooperator.runtime.inline import InlineRuntime
from tests.harness.support import eventually
from tests.runtime.heard import Heard

TASK = TaskId("noop", 0)


def spec(task: TaskId = TASK, *, paused: bool = False, **config: object) -> TaskSpec:
    values = {name.replace("_", "."): str(value) for name, value in config.items()}
    return TaskSpec(task, {"connector.class": "noop", "task.units": "unit-0,unit-1", **values}, paused)


def journal(settings: RuntimeSettings) -> list[dict[str, Any]]:
    path = settings.journal
    assert path is not None
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def assert_no_unit_ran_twice(entries: list[dict[str, Any]]) -> None:
    """Between the start and the stop of a unit, no other incarnation of it writes anything."""
    holder: dict[str, tuple[str, int]] = {}
    for entry in entries:
        attempt = (entry["incarnation"], entry["attempt"])
        if entry["event"] == "start":
            assert entry["unit"] not in holder, f"{entry} started while {holder} ran"
            holder[entry["unit"]] = attempt
        else:
            assert holder.get(entry["unit"]) == attempt, f"{entry} while {holder} ran"
            if entry["event"] == "stop":
                del holder[entry["unit"]]


def test_a_task_starts_all_its_units_and_stops_them(
    inline: InlineRuntime, heard: Heard, settings: RuntimeSettings
) -> None:
    inline.start(spec(), 1)
    heard.wait(TASK, ("started", 1))
    inline.stop(TASK, 1)
    heard.wait(TASK, ("started", 1), ("stopped", 1))
    events = [(entry["unit"], entry["event"]) for entry in journal(settings) if entry["event"] != "beat"]
    assert sorted(events) == [
        ("unit-0", "start"),
        ("unit-0", "stop"),
        ("unit-1", "start"),
        ("unit-1", "stop"),
    ]


def test_stopped_is_reported_only_when_nothing_runs(
    inline: InlineRuntime, heard: Heard, settings: RuntimeSettings
) -> None:
    inline.start(spec(stop_delay_ms=300), 1)
    heard.wait(TASK, ("started", 1))
    inline.stop(TASK, 1)
    heard.wait(TASK, ("started", 1), ("stopped", 1))
    stops = [entry["unit"] for entry in journal(settings) if entry["event"] == "stop"]
    assert sorted(stops) == ["unit-0", "unit-1"]


def test_a_newer_attempt_waits_for_the_end_of_the_older(
    inline: InlineRuntime, heard: Heard, settings: RuntimeSettings
) -> None:
    inline.start(spec(stop_delay_ms=300), 1)
    heard.wait(TASK, ("started", 1))
    inline.start(spec(), 2)
    inline.stop(TASK, 1)
    heard.wait(TASK, ("started", 1), ("stopped", 1), ("started", 2))
    assert_no_unit_ran_twice(journal(settings))


def test_pause_keeps_the_task_and_resume_runs_it_again(
    inline: InlineRuntime, heard: Heard, settings: RuntimeSettings
) -> None:
    inline.start(spec(paused=True), 1)
    heard.wait(TASK, ("paused", 1))
    assert journal(settings) == []
    inline.resume(TASK)
    heard.wait(TASK, ("paused", 1), ("started", 1))
    inline.pause(TASK)
    heard.wait(TASK, ("paused", 1), ("started", 1), ("paused", 1))
    assert [entry["event"] for entry in journal(settings)].count("stop") == 2
    inline.stop(TASK, 1)
    heard.wait(TASK, ("paused", 1), ("started", 1), ("paused", 1), ("stopped", 1))


def test_a_unit_that_fails_ends_the_others_and_then_the_task(
    inline: InlineRuntime, heard: Heard, settings: RuntimeSettings
) -> None:
    inline.start(spec(fail_after_ms=0), 1)
    heard.wait(TASK, ("failed", 1))
    assert "failed as configured" in heard.traces[TASK, 1]
    assert "in unit unit-" in heard.traces[TASK, 1]
    running = [entry["unit"] for entry in journal(settings) if entry["event"] == "start"]
    stopped = [entry["unit"] for entry in journal(settings) if entry["event"] == "stop"]
    assert sorted(running) == sorted(stopped)
    inline.stop(TASK, 1)
    heard.wait(TASK, ("failed", 1), ("stopped", 1))


def test_a_failure_at_start_is_reported_with_its_trace(inline: InlineRuntime, heard: Heard) -> None:
    inline.start(spec(start_failure="no such bucket"), 1)
    heard.wait(TASK, ("failed", 1))
    assert "no such bucket" in heard.traces[TASK, 1]


def test_a_class_that_needs_spark_is_refused_by_name(inline: InlineRuntime, heard: Heard) -> None:
    inline.start(TaskSpec(TASK, {"connector.class": "files-to-kafka"}), 1)
    heard.wait(TASK, ("failed", 1))
    assert heard.traces[TASK, 1] == (
        "member lake-0 of the Worker's group cooperator: option 'connector.class' = 'files-to-kafka': needs "
        "Spark, which this runtime does not have; use noop, or runtime: spark"
    )


def test_secrets_reach_the_task_but_no_report(
    inline: InlineRuntime, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALLOWED", "hunter2")
    inline.start(spec(start_failure="password ${env:ALLOWED} refused"), 1)
    heard.wait(TASK, ("failed", 1))
    assert "password *** refused" in heard.traces[TASK, 1]
    assert "hunter2" not in heard.traces[TASK, 1]


def test_close_ends_everything_and_refuses_new_starts(settings: RuntimeSettings, heard: Heard) -> None:
    runtime = InlineRuntime(settings, heard)
    others = [TaskId("noop", number) for number in range(5)]
    for task in others:
        runtime.start(spec(task), 1)
    assert runtime.close(10)
    for task in others:
        assert heard.of(task)[-1] == ("stopped", 1)


def test_close_reports_what_does_not_end(settings: RuntimeSettings, heard: Heard) -> None:
    runtime = InlineRuntime(settings, heard)
    runtime.start(spec(stop_delay_ms=3_000), 1)
    heard.wait(TASK, ("started", 1))
    assert runtime.close(0.1) is False


STEPS = st.lists(st.sampled_from(["start", "stop", "restart", "pause", "resume"]), min_size=1, max_size=12)


@given(steps=STEPS, delays=st.tuples(st.integers(0, 3), st.integers(0, 3)))
@hypothesis_settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_in_any_order_of_calls_no_unit_runs_twice_and_every_attempt_ends(
    settings: RuntimeSettings, tmp_path: Path, steps: list[str], delays: tuple[int, int]
) -> None:
    heard = Heard()
    path = tmp_path / "journal.jsonl"
    path.unlink(missing_ok=True)
    runtime = InlineRuntime(settings, heard)
    config = {"start_delay_ms": delays[0], "stop_delay_ms": delays[1]}
    attempt = 1
    for step in steps:
        if step == "stop":
            runtime.stop(TASK, attempt)
        elif step == "pause":
            runtime.pause(TASK)
        elif step == "resume":
            runtime.resume(TASK)
        else:
            attempt += step == "restart"
            runtime.start(spec(**config), attempt)
    runtime.stop(TASK, attempt)
    assert runtime.close(10)
    assert_no_unit_ran_twice(journal(settings))
    reports = heard.of(TASK)
    assert reports[-1] == ("stopped", attempt)
    for number in {number for _, number in reports}:
        events = [event for event, other in reports if other == number]
        first_end = events.index("stopped")
        assert set(events[first_end:]) == {"stopped"}, "there was an event of an attempt after its end"


def test_an_instance_reports_its_task_configurations(inline: InlineRuntime, heard: Heard) -> None:
    instance = TaskId("noop", INSTANCE)
    config = {"connector.class": "noop", "name": "noop", "units": "5", "tasks.max": "2"}
    inline.start(TaskSpec(instance, config), 1)
    eventually(lambda: heard.configs.get("noop"))
    common = {"connector.class": "noop", "units": "5"}
    assert heard.configs["noop"] == [
        [
            {**common, "task.units": "unit-0,unit-1,unit-2"},
            {**common, "task.units": "unit-3,unit-4"},
        ]
    ]
    inline.stop(instance, 1)
    heard.wait(instance, ("started", 1), ("stopped", 1))


def test_tasks_beyond_the_number_of_units_are_dropped_with_a_message(
    inline: InlineRuntime, heard: Heard
) -> None:
    instance = TaskId("noop", INSTANCE)
    inline.start(TaskSpec(instance, {"connector.class": "noop", "units": "2", "tasks.max": "5"}), 1)
    eventually(lambda: heard.progress_of(instance))
    assert len(heard.configs["noop"][0]) == 2
    assert heard.progress_of(instance) == {
        "units": 2,
        "tasks": 2,
        "note": "tasks.max is 5, but there are only 2 units: 2 tasks run",
    }


def test_a_fixed_option_that_changes_fails_the_instance(inline: InlineRuntime, heard: Heard) -> None:
    instance = TaskId("noop", INSTANCE)
    inline.start(TaskSpec(instance, {"connector.class": "noop", "units": "2"}), 1)
    eventually(lambda: heard.configs.get("noop"))
    inline.stop(instance, 1)
    inline.start(TaskSpec(instance, {"connector.class": "noop", "units": "3"}), 2)
    heard.wait(instance, ("started", 1), ("stopped", 1), ("started", 2), ("failed", 2))
    assert heard.traces[instance, 2] == (
        "option 'units' = '3': is fixed: it was '2' when the connector was created; "
        "change it back, or stop the connector and reset its offsets (it then starts over)"
    )


def test_a_task_whose_session_is_lost_runs_again_without_a_failure() -> None:
    heard, runs = Heard(), SimpleNamespace(count=0)

    def job(run: Run) -> None:
        runs.count += 1
        run.started()
        if runs.count <= runs.lost:
            raise SessionLost("Spark's JVM has ended")
        run.cancelled.wait()

    def attempt(lost: int) -> Attempt:
        runs.count, runs.lost = 0, lost
        made = Attempt(TASK, lost, job, heard, idle=job, paused=False, previous=None)
        made.begin()
        return made

    again = attempt(3)
    eventually(lambda: runs.count == 4)
    again.end(3)
    again.wait()
    assert heard.of(TASK) == [*[("started", 3)] * 4, ("stopped", 3)]
    # It may be what ends them.
    attempt(4).wait()
    assert heard.of(TASK)[-1] == ("failed", 4)
