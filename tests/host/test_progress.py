"""What statuses and tables take from the report of a task."""

import json

from cooperator.crd import parse
from cooperator.host.progress import Reported, reported, total
from cooperator.host.status import connector_status

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
        "progress": json.dumps(report) if report else "",
    }


def test_a_long_report_is_shortened_and_stays_json() -> None:
    told = reported(task(0, **TELLING))
    assert (told.lag, told.rows_per_second, told.last_error) == (7, 13, "ValueError: no such order")
    assert len(told.short) < 2_000
    assert json.loads(told.short)["rows_in"] == 90


def test_what_a_task_fails_with_now_is_its_last_error() -> None:
    assert reported(task(0, "FAILED", "no disk\nmore", **TELLING)).last_error == "no disk"


def test_what_is_no_report_tells_nothing() -> None:
    for text in ("", "10 rows", "[]", "null"):
        assert reported({"progress": text, "trace": ""}) == Reported(short=text)


def test_a_total_is_of_what_is_known() -> None:
    assert total([None, 3, 0]) == 3
    assert total([None]) is None


def test_a_connector_sums_up_the_lag_and_the_rates_of_all_its_tasks() -> None:
    (connector,) = parse(
        """
        apiVersion: cooperator.dev/v1alpha1
        kind: Connector
        metadata: {name: orders}
        spec: {class: kafka-to-files, workerRef: {name: lake}, tasksMax: 200}
        """,
        "orders.yaml",
    )
    tasks = [task(number, lag=2, rows_per_s=1.0) for number in range(150)]
    status = connector_status(connector, (), {"tasks": [*tasks, task(150, "PAUSED", lag=40)]}, 0)
    assert (status.lag, status.rows_per_second, len(status.task_statuses)) == (340, 150, 100)
    assert status.task_statuses[0].lag is not None
    assert connector_status(connector, (), {"tasks": [task(0)]}, 0).lag is None
