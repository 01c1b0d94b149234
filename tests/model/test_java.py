"""Java's orders, against what JDK 17 made of the same strings (``java_orders.jsonl``)."""

import json
from pathlib import Path

import pytest

from cooperator.model import TaskId
from cooperator.model.java import hash_map_order, hash_set_order, sort_strings, sort_tasks

CASES = [
    json.loads(line) for line in (Path(__file__).parent / "java_orders.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=[f"{len(case['in'])} keys" for case in CASES])
def test_orders_are_those_of_the_jvm(case: dict[str, list[str]]) -> None:
    assert hash_map_order(case["in"]) == case["map"]
    assert hash_set_order(case["in"]) == case["set"]
    assert sort_strings(case["in"]) == case["sorted"]


def test_tasks_are_sorted_by_code_unit_and_then_by_number() -> None:
    beyond, private = "\U0001f600", "\ue000"
    tasks = [TaskId(private, 10), TaskId(private, 9), TaskId(beyond, 0), TaskId(beyond, -1)]
    assert sort_tasks(tasks) == [
        TaskId(beyond, -1),
        TaskId(beyond, 0),
        TaskId(private, 9),
        TaskId(private, 10),
    ]
