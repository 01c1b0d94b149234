"""Workers are rolled in turn, from the release line of Connect before to the present one."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.stock.worker_group import PATIENT, StockGroup, doubled, missing

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2")
EVERYTHING = ("a-instance", "a-0", "a-1", "b-instance", "b-0", "b-1", "into-instance", "into-0")


def test_a_roll_from_the_line_before_to_the_present_one(
    stock: StockGroup, archived: Callable[[str], None]
) -> None:
    """Each has exactly its own tasks back, with the protocol without session keys, and no other stops."""
    archived("3.9")
    connectors = {name: stock.source(name, tasks=2) for name in "ab"}
    connectors["into"] = stock.sink("into", stock.make_topic("a"))
    leader = stock.leader(connectors, WORKERS, policy=PATIENT)
    for worker in WORKERS:
        stock.worker(worker, line="3.9", protocol="compatible")
    assert stock.leads(leader, 2)["protocol"] == "compatible"
    layout, begun = stock.begun(*EVERYTHING)
    for worker in WORKERS:
        assert str(stock.workers[worker].ask("")["version"]).startswith("3.9")
        stock.facts(leader, WORKERS, returning=frozenset({worker}))
        assert stock.stop(worker)
        stock.facts(leader, WORKERS, returning=frozenset({worker}))
        stock.again(worker, line="4")
        assert stock.runs(*EVERYTHING) == layout
        stock.leads(leader, 2)
        assert str(stock.workers[worker].ask("")["version"]).startswith("4.")
    assert stock.leads(leader, 2)["protocol"] == "compatible"
    assert stock.starts() - begun == Counter(dict.fromkeys(EVERYTHING, 1))
    for name in "ab":
        numbers = stock.written(name, stock.written(name))
        assert (missing(numbers), doubled(numbers)) == ({}, {}), "a clean stop commits what was written"
