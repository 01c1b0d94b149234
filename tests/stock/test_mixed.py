"""Workers of two release lines of Connect in one group, and a worker that supports only the eager
protocol."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.harness.support import eventually
from tests.stock.worker_group import LIMIT_S, PATIENT, StockGroup, doubled, missing

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2")
EVERYTHING = ("a-instance", "a-0", "a-1", "b-instance", "b-0", "b-1")


def test_a_roll_from_the_line_before_to_the_present_one(
    stock: StockGroup, archived: Callable[[str], None]
) -> None:
    archived("3.9")
    connectors = {name: stock.source(name, tasks=2) for name in "ab"}
    leader = stock.leader(connectors, WORKERS, policy=PATIENT)
    for worker in WORKERS:
        stock.worker(worker, line="3.9")
    stock.leads(leader, 2)
    layout, begun = stock.begun(*EVERYTHING)
    for worker in WORKERS:
        assert str(stock.workers[worker].ask("")["version"]).startswith("3.9")
        stock.stop(worker)
        stock.facts(leader, WORKERS, returning=frozenset({worker}))
        stock.again(worker, line="4")
        assert stock.runs(*EVERYTHING) == layout
        stock.leads(leader, 2)
        assert str(stock.workers[worker].ask("")["version"]).startswith("4.")
    assert stock.starts() - begun == Counter(dict.fromkeys(EVERYTHING, 1))
    for name in "ab":
        numbers = stock.written(name)
        assert (missing(numbers), doubled(numbers)) == ({}, {})


def test_a_worker_with_only_the_eager_protocol_stops_all_tasks_in_every_round(stock: StockGroup) -> None:
    connectors = {name: stock.source(name, tasks=2) for name in "ab"}
    leader = stock.leader(connectors, ("w-1",))
    stock.worker("w-1")
    stock.leads(leader, 1)
    _, begun = stock.begun(*EVERYTHING)

    stock.facts(leader, WORKERS)
    stock.worker("w-2", protocol="eager")

    def stopped_and_shared() -> bool:
        layout = stock.runs(*EVERYTHING)
        return set(layout.values()) == set(WORKERS) and set(stock.starts() - begun) == set(EVERYTHING)

    eventually(stopped_and_shared, LIMIT_S, "all tasks have stopped, and both workers run some")
    status = stock.leads(leader, 2)
    assert status["protocol"] == "default"
    [said] = [c for c in status["conditions"] if c["type"] == "EagerProtocol"]
    assert said["status"] == "True"
    assert "w-2" in said["message"]

    # Without it the group is incremental again, and nothing stops any more.
    stock.stop("w-2")
    stock.facts(leader, ("w-1",), gone=frozenset({"w-2"}))
    assert set(stock.runs(*EVERYTHING).values()) == {"w-1"}
    eventually(lambda: stock.leads(leader, 1)["protocol"] == "sessioned", LIMIT_S, "incremental again")
    for name in "ab":
        assert missing(stock.written(name)) == {}
