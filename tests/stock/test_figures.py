"""The three figures of the article on incremental cooperative rebalancing, with stock workers."""

from collections import Counter

import pytest

from tests.harness.support import eventually
from tests.stock.worker_group import HOLD_MS, StockGroup, missing

pytestmark = pytest.mark.real

EVERYTHING = ("a-instance", "a-0", "a-1", "a-2", "b-instance", "b-0", "b-1", "b-2")


def test_a_worker_joins_returns_and_leaves_for_good(stock: StockGroup) -> None:
    connectors = {name: stock.source(name, tasks=3) for name in "ab"}
    leader = stock.leader(connectors, ("w-1", "w-2"))
    stock.worker("w-1")
    stock.worker("w-2")
    stock.leads(leader, 2)
    two, begun = stock.begun(*EVERYTHING)

    # Figure 1: a third worker gets its assignment; tasks that do not move to it keep running.
    stock.facts(leader, ("w-1", "w-2", "w-3"))
    stock.worker("w-3")
    eventually(lambda: len(stock.journal.running_at("w-3")) >= 2, 120, "it gets its share")
    stock.leads(leader, 3)
    three = stock.runs(*EVERYTHING)
    moved = {task for task in EVERYTHING if two[task] != three[task]}
    assert moved == stock.journal.running_at("w-3")
    assert stock.starts() - begun == Counter(moved)

    # Figure 2: it dies and is back within the delay; it gets its own tasks at once.
    lost = stock.kill("w-3")
    stock.facts(leader, ("w-1", "w-2", "w-3"))
    assert not lost & stock.journal.running().keys()
    stock.again("w-3")
    assert stock.runs(*EVERYTHING) == three
    stock.leads(leader, 3)
    assert max(map(stock.stopped_for_ms, lost)) < HOLD_MS
    assert stock.starts() - begun == Counter(moved) + Counter(lost)

    # Figure 3: it dies and stays away; its tasks move when the delay is over, not before.
    assert stock.kill("w-3") == lost
    stock.facts(leader, ("w-1", "w-2", "w-3"))
    after = stock.runs(*EVERYTHING)
    assert {task for task in EVERYTHING if after[task] != three[task]} == lost
    assert min(map(stock.stopped_for_ms, lost)) >= HOLD_MS
    assert stock.starts() - begun == Counter(moved) + Counter(lost) + Counter(lost)
    for name in connectors:
        assert missing(stock.written(name)) == {}
