"""The cost of a changed configuration for the tasks of stock workers: one stop each, and no wait for a
heartbeat."""

import statistics
from collections import Counter

import pytest

from cooperator.leader.service import LeaderService
from tests.harness.support import eventually
from tests.stock.worker_group import LIMIT_S, StockGroup, missing

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2")
TASKS = ("a-0", "a-1", "b-0", "b-1")
EVERYTHING = ("a-instance", "b-instance", *TASKS)
OWN_TASKS = ("a-instance", "a-0", "a-1")
SESSION_MS = 60_000
"""Nobody dies here: a worker that waits for a processor must not count as dead, and begin its tasks again."""
HEARTBEAT_MS = 3_000
"""Kafka's default: a worker that learns of a round by its heartbeat learns of it late."""
SETTINGS = {"heartbeat.interval.ms": HEARTBEAT_MS, "session.timeout.ms": SESSION_MS}


def connectors(stock: StockGroup, **more: str) -> dict[str, dict[str, str]]:
    return {"a": stock.source("a", tasks=2, **more), "b": stock.source("b", tasks=2)}


def led(stock: StockGroup, **more: str) -> LeaderService:
    return stock.leader(
        connectors(stock, **more),
        WORKERS,
        adopt=True,
        heartbeat_interval_ms=HEARTBEAT_MS,
        session_timeout_ms=SESSION_MS,
    )


def restarted(stock: StockGroup, leader: LeaderService, begun: "Counter[str]") -> None:
    """Waits until the tasks of the changed connector run again, and checks that nothing else started."""

    def again() -> bool:
        started = stock.starts() - begun
        assert all(started[task] for task in OWN_TASKS), (dict(started), leader.status())
        return True

    eventually(again, LIMIT_S, f"{OWN_TASKS} start again")
    assert stock.begun(*EVERYTHING)[1] - begun == Counter(dict.fromkeys(OWN_TASKS, 1))


def test_a_change_stops_a_task_once_and_waits_for_no_heartbeat(shared: StockGroup) -> None:
    stock = shared
    leader = led(stock)
    stock.leads(leader, 2)
    stopped_ms = []
    for change in range(3):
        _, begun = stock.begun(*EVERYTHING)
        stock.want(leader, connectors(stock, change=str(change)))
        restarted(stock, leader, begun)
        stopped_ms += [stock.stopped_for_ms(task) for task in ("a-0", "a-1")]
        stock.leads(leader, 2)
    print(f"stopped for {sorted(stopped_ms)} ms")  # noqa: T201
    assert statistics.median(stopped_ms) < HEARTBEAT_MS / 4
    assert (leader.status()["totals"]["forced_rounds"], missing(stock.numbers("a"))) == (0, {})


def test_a_change_that_comes_with_the_leader_stops_a_task_once(shared: StockGroup) -> None:
    stock, first = shared, shared.workers["w-1"]
    for name, config in connectors(stock).items():
        first.ask("connectors", {"name": name, "config": config})
    stock.runs(*EVERYTHING)
    for change in range(2):
        _, begun = stock.begun(*EVERYTHING)
        leader = led(stock, change=str(change))
        restarted(stock, leader, begun)
        stock.leads(leader, 2)
        leader.stop(leave=True)
        stock.leaders.remove(leader)
        stock.led_by_a_worker()
