"""A source with exactly-once support under kill -9: readers of committed records see every number once."""

import pytest

from tests.stock.worker_group import StockGroup, doubled, missing

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2")
EVERYTHING = ("a-instance", "a-0", "a-1")
SETTINGS = {"exactly.once.source.support": "enabled"}


@pytest.mark.timeout(900)
@pytest.mark.long(
    "tests/stock/test_leading_stock.py::test_sources_are_exactly_once_over_kill_9_and_a_change_of_tasks"
)
@pytest.mark.parametrize(("kills", "boundary"), [(10, "poll"), (4, "connector")])
def test_readers_see_every_number_once(stock: StockGroup, kills: int, boundary: str) -> None:
    once = {"exactly.once.support": "required", "transaction.boundary": boundary}
    connectors = {"a": stock.source("a", tasks=2, rate=50, **once)}
    leader = stock.leader(connectors, WORKERS, exactly_once=True)
    for worker in WORKERS:
        stock.worker(worker, settings=SETTINGS)
    stock.runs(*EVERYTHING)
    stock.leads(leader, 2)
    numbers = stock.written("a")
    for kill in range(kills):
        victim = WORKERS[kill % 2]
        stock.kill(victim)
        stock.facts(leader, WORKERS)
        stock.again(victim)
        stock.runs(*EVERYTHING)
        numbers = stock.written("a", numbers)
    stock.leads(leader, 2)
    numbers = stock.written("a", numbers)
    assert numbers.keys() == {"a-0", "a-1"}
    assert (missing(numbers), doubled(numbers)) == ({}, {})
    print({task: len(seen) for task, seen in numbers.items()})  # noqa: T201
