"""Figures that statuses and tables derive from a task's report."""

import json
from types import SimpleNamespace
from typing import Any

from cooperator.crd import Worker, parse
from cooperator.host.progress import Reported, learning, reported, total
from cooperator.host.status import WorkerFacts, connector_status, with_holds
from cooperator.model import LEARNERS_VALID_MS
from cooperator.model.status import RATE_VALID_MS
from cooperator.terminal.tables import task_words

LAKE = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: lake}
spec: {replicas: 1, runtime: spark}
"""
ORDERS = """
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: orders}
spec: {class: kafka-to-files, workerRef: {name: lake}, tasksMax: 200}
"""

NOW = 1_700_000_000_000
WAIT = {"for": "waiting for PostgreSQL at db:5432", "since_ms": NOW - 10_000}
LEADS = {"leading": True, "known": True}
TELLING = {
    "rows_in": 90,
    "rows_per_s": 12.6,
    "lag": 7,
    "units": {f"orders-{number}": {"batch": 10_000, "rows_in": 10_000} for number in range(50)},
    "last_error": {"at_ms": 1, "text": "ValueError: no such order"},
}


def task(number: int, state: str = "RUNNING", trace: str = "", **report: object) -> dict[str, object]:
    return {
        "name": f"orders-{number}",
        "connector": "orders",
        "task": number,
        "state": state,
        "member": "lake-0",
        "trace": trace,
        "at_ms": NOW - 1_000,
        "progress": json.dumps(report) if report else "",
    }


def test_a_long_report_is_shortened_and_stays_json() -> None:
    figures = reported(task(0, **TELLING), NOW)
    assert (figures.lag, figures.rows_per_second, figures.last_error) == (7, 13, "ValueError: no such order")
    assert len(figures.short) < 2_000
    assert json.loads(figures.short)["rows_in"] == 90


def test_the_current_failure_is_the_last_error() -> None:
    assert reported(task(0, "FAILED", "no disk\nmore", **TELLING), NOW).last_error == "no disk"


def test_an_invalid_report_yields_nothing() -> None:
    for text in ("", "10 rows", "[]", "null"):
        assert reported({"progress": text, "trace": ""}, NOW) == Reported(short=text)


def test_a_total_is_of_what_is_known() -> None:
    assert total([None, 3, 0]) == 3
    assert total([None]) is None


def test_a_connector_sums_up_the_lag_and_the_rates_of_all_its_tasks() -> None:
    (connector,) = parse(ORDERS, "orders.yaml")
    tasks = [task(number, lag=2, rows_per_s=1.0) for number in range(150)]
    status = connector_status(connector, (), {**LEADS, "tasks": [*tasks, task(150, "PAUSED", lag=40)]}, NOW)
    assert (status.lag, status.rows_per_second, len(status.task_statuses)) == (340, 150, 100)
    assert status.task_statuses[0].lag is not None
    assert connector_status(connector, (), {**LEADS, "tasks": [task(0)]}, NOW).lag is None


def test_a_connector_sums_up_the_state_of_all_its_tasks() -> None:
    (connector,) = parse(ORDERS, "orders.yaml")
    state = {"state_rows": 3, "state_bytes": 900, "state_commit_ms": 40}
    tasks = [*(task(number, **state) for number in range(150)), task(150, lag=1)]
    status = connector_status(connector, (), {**LEADS, "tasks": tasks}, NOW)
    assert (status.state_rows, status.state_bytes) == (450, 135_000)
    one, other = status.task_statuses[0], status.task_statuses[-1]
    assert (one.state_rows, one.state_bytes, one.state_commit_ms) == (3, 900, 40)
    assert one.reported_at, "it says when the figures were measured"
    without = connector_status(connector, (), {**LEADS, "tasks": [task(0, lag=1)]}, NOW)
    assert (without.state_rows, without.task_statuses[0].state_rows) == (None, None)
    assert other.id == 99


def learner(
    member: str, role: str = "warmup", behind_bytes: int | None = None, **more: Any
) -> dict[str, Any]:
    known = {"caught_up": False, "problem": "", "heard_ms": NOW - 1_000}
    return {"member": member, "role": role, "behind_bytes": behind_bytes, **known, **more}


def test_a_connector_says_who_learns_the_state_of_its_tasks() -> None:
    (connector,) = parse(ORDERS, "test")
    waits = {**task(0), "learners": [learner("lake-4", behind_bytes=12_300_000)]}
    also = {**task(1), "learners": [learner("lake-5"), learner("lake-2", "standby", 0, caught_up=True)]}
    cannot = {**task(2), "learners": [learner("lake-3", "standby", problem="no room")]}
    status = connector_status(connector, (), {**LEADS, "tasks": [waits, also, cannot, task(3)]}, NOW)
    assert [entry.learning for entry in status.task_statuses] == [
        "warming on lake-4, 12 MB behind",
        "warming on lake-5; standby on lake-2, caught up",
        "standby on lake-3: no room",
        "",
    ]
    assert status.warming_summary == "orders-0 on lake-4, 12 MB behind, 1 more"
    assert "warming on lake-4, 12 MB behind" in task_words(waits, NOW)


def test_a_learner_that_has_not_caught_up_is_not_shown_as_if_it_had() -> None:
    assert learning({"learners": [learner("lake-4", behind_bytes=400)]}, NOW) == (
        "warming on lake-4, less than 1 MB behind"
    )


def test_a_figure_of_a_learner_that_has_fallen_silent_is_not_shown() -> None:
    silent = learner("lake-4", behind_bytes=0, caught_up=True, heard_ms=NOW - LEARNERS_VALID_MS)
    assert learning({"learners": [silent]}, NOW) == "warming on lake-4"


def test_figures_of_state_that_are_none_are_left_out() -> None:
    for value in ("many", -1, 2**60, True, None, [1]):
        figures = reported(task(0, state_rows=value, state_bytes=7), NOW)
        assert (figures.state_rows or 0, figures.state_bytes) == (0, 7)


def test_a_sum_of_rates_leaves_out_what_has_expired_and_what_does_not_run() -> None:
    (connector,) = parse(ORDERS, "orders.yaml")
    old = {"at_ms": NOW - RATE_VALID_MS - 1}
    tasks = [
        task(0, rows_per_s=7.0),
        task(1, rows_per_s=7_089.0) | old,
        task(2, "STOPPING", rows_per_s=30.0),
    ]
    status = connector_status(connector, (), {**LEADS, "tasks": tasks}, NOW)
    assert status.rows_per_second == 7
    assert [entry.rows_per_second for entry in status.task_statuses] == [7, None, None]
    assert status.task_statuses[0].reported_at == "2023-11-14T22:13:19Z"
    later = connector_status(connector, (), {**LEADS, "tasks": tasks}, NOW + RATE_VALID_MS)
    assert later.rows_per_second is None, "they are not 0"


def test_a_rate_of_nothing_stays_true() -> None:
    (connector,) = parse(ORDERS, "orders.yaml")
    idle = task(0, rows_per_s=0.0) | {"at_ms": NOW - 840_000}
    assert connector_status(connector, (), {**LEADS, "tasks": [idle]}, NOW).rows_per_second == 0


def test_a_member_that_has_ended_leaves_no_figures_behind() -> None:
    lake, orders = parse(LAKE + "---" + ORDERS, "orders.yaml")
    assert isinstance(lake, Worker)
    leader = {
        "members": [{"identity": "lake-0", "incarnation": "one"}],
        "tasks": [task(0, rows_per_s=7_089.0, lag=11_247)],
    }
    incarnation = SimpleNamespace(incarnation="one", started_ms=0, ended_ms=NOW - 500, past=())
    seen = with_holds(WorkerFacts(incarnations={"lake-0": incarnation}, leader=leader), lake)  # type: ignore[dict-item]
    status = connector_status(orders, (lake,), seen.leader, NOW)
    assert status.task_statuses[0].state == "HELD"
    assert (status.rows_per_second, status.lag) == (None, None)


def test_the_connectors_condition_names_what_a_task_waits_for() -> None:
    lake, orders = parse(LAKE + "---" + ORDERS, "orders.yaml")
    assert isinstance(lake, Worker)
    tasks = [task(-1), task(0, "STARTING", waits=[WAIT])]
    status = connector_status(orders, (lake,), {**LEADS, "tasks": tasks}, NOW)
    [ready] = [condition for condition in status.conditions if condition.type == "Ready"]
    assert ready.message == (
        "waiting for PostgreSQL at db:5432 (orders-0; since 2023-11-14T22:13:10Z); of 1 task: 1 STARTING"
    )
    assert status.state == "STARTING"


def test_a_running_task_that_waits_is_not_ready_and_says_so_where_people_look_first() -> None:
    lake, orders = parse(LAKE + "---" + ORDERS, "orders.yaml")
    assert isinstance(lake, Worker)
    parts = [f"orders-{number}" for number in range(7)]
    tasks = [task(-1), task(0, waits=[WAIT | {"parts": parts}]), task(1), task(2, waits=[WAIT])]
    status = connector_status(orders, (lake,), {**LEADS, "tasks": tasks}, NOW)
    [ready] = [condition for condition in status.conditions if condition.type == "Ready"]
    assert (ready.status, ready.reason) == ("False", "Waiting")
    assert ready.message == (
        "waiting for PostgreSQL at db:5432 (orders-0, orders-2; orders-0, orders-1, orders-2 and 4 more; "
        "since 2023-11-14T22:13:10Z)"
    )
    assert status.state == "WAITING"
    assert status.task_summary == "3/3", "they run: none of them is missing"


def test_a_report_of_any_depth_is_none() -> None:
    assert reported({"progress": "[" * 100_000}, NOW) == Reported(short="{}")
