"""Real workers that share one client id, as a ``client.id`` in an image or Connect 3.5 makes them."""

from collections import Counter

import pytest

from tests.stock.worker_group import PATIENT, StockGroup, missing

pytestmark = pytest.mark.real

SHARED = {"client.id": "connect-1"}
EVERYTHING = ("a-instance", "a-0", "a-1", "a-2", "a-3", "b-instance", "b-0", "b-1")


def test_workers_that_share_a_client_id_stop_no_task_for_another(stock: StockGroup) -> None:
    """The lead is taken, one worker is killed and returns, and one joins; measured where the tasks run."""
    connectors = {"a": stock.source("a", tasks=4), "b": stock.source("b", tasks=2)}
    first, _ = stock.cluster("w-1", "w-2", settings=SHARED)
    for name, config in connectors.items():
        first.ask("connectors", {"name": name, "config": config})
    stock.runs(*EVERYTHING)
    layout, begun = stock.begun(*EVERYTHING)
    assert set(layout.values()) == {"w-1", "w-2"}

    leader = stock.leader(connectors, adopt=True, policy=PATIENT)
    stock.leads(leader, 2)
    assert (stock.journal.running(), stock.starts()) == (layout, begun)

    lost = stock.kill("w-2")
    stock.again("w-2")
    assert stock.runs(*EVERYTHING) == layout
    stock.leads(leader, 2)
    assert stock.starts() - begun == Counter(lost), "its own tasks start once, and nothing else"

    before, begun = stock.begun(*EVERYTHING)
    stock.worker("w-3", settings=SHARED).serves()
    stock.leads(leader, 3)
    after = stock.runs(*EVERYTHING)
    moved = {task for task in EVERYTHING if after[task] != before[task]}
    assert moved == stock.journal.running_at("w-3"), "exactly the tasks of the new worker have moved"
    assert len(moved) == 2, "the new worker has a third of six tasks"
    assert stock.starts() - begun == Counter(moved)
    for name in "ab":
        assert missing(stock.written(name)) == {}
