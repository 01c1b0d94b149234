"""All metrics with their labels, read from the metrics pages of operator and members."""

import asyncio
from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from prometheus_client.parser import text_string_to_metric_families

from cooperator.agent.metrics import MemberMetrics, MetricsListener
from cooperator.host.metrics import WorkerMetrics
from cooperator.leader.distribution import Distribution
from cooperator.leader.endpoint import MetricsPage
from cooperator.model import INSTANCE, TaskId

Labels = Mapping[str, frozenset[str]]
"""The labels of each metric, by the name of its samples."""


class _Silent:
    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def _of(page: MetricsPage) -> dict[str, frozenset[str]]:
    answer = asyncio.run(page.answer(make_mocked_request("GET", "/metrics")))
    assert isinstance(answer, web.Response)
    return {
        sample.name: frozenset(sample.labels)
        for family in text_string_to_metric_families(answer.text or "")
        for sample in family.samples
    }


@cache
def of_the_operator() -> Labels:
    """The page of an operator that leads a Worker with a waiting task."""
    tasks = [
        {"connector": "a", "task": INSTANCE, "state": "RUNNING"},
        {"connector": "a", "task": 0, "state": "HELD", "held_for": "lake-1", "held_until_ms": 1},
    ]
    status = {
        "leading": True,
        "known": True,
        **dict.fromkeys(("generation", "term", "settled"), 1),
        "members": ["lake-0"],
        "tasks": tasks,
        "reasons": {"Joined": 1},
        "counters": {},
        "totals": {
            **dict.fromkeys(("rounds", "plans", "starts", "holds", "hand_overs"), Distribution().shown()),
            **dict.fromkeys(("unassigned_task_ms", "forced_rounds"), 1),
        },
    }
    return _of(WorkerMetrics(lambda: {("lakes", "lake"): status}))


@cache
def of_a_member() -> Labels:
    """The page of a member that has a task with progress."""
    task = TaskId("a", 0)
    tally = MetricsListener(_Silent())
    tally.started(task, 1)
    tally.progress(task, 1, '{"rows_in": 1, "rows_out": 1, "rows_per_s": 1, "lag": 1}')
    supervisor = SimpleNamespace(
        phases=lambda: {task: "RUNNING"}, report=lambda: SimpleNamespace(draining=False), leads=False
    )
    return _of(MemberMetrics(supervisor, tally))  # type: ignore[arg-type]
