"""Every worker is stopped or killed and returns, one after another; the sources' numbers show the cost."""

import pytest

from tests.stock.worker_group import PATIENT, StockGroup, doubled, missing

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2", "w-3")
EVERYTHING = ("a-instance", "a-0", "a-1", "a-2", "into-instance", "into-0")
CLEAN = pytest.mark.long("tests/stock/test_mixed.py::test_a_roll_from_the_line_before_to_the_present_one")
UNCLEAN = pytest.mark.long(
    "tests/stock/test_shared_client_ids.py::test_workers_that_share_a_client_id_stop_no_task_for_another"
)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("clean", "protocol", "rounds"),
    [
        pytest.param(True, "compatible", 1, id="clean-compatible", marks=CLEAN),
        pytest.param(True, "compatible", 3, id="clean-compatible-3", marks=CLEAN),
        pytest.param(True, "sessioned", 3, id="clean-sessioned-3", marks=CLEAN),
        pytest.param(False, "compatible", 3, id="unclean-compatible-3", marks=UNCLEAN),
        pytest.param(False, "sessioned", 3, id="unclean-sessioned-3", marks=UNCLEAN),
    ],
)
def test_bounce(stock: StockGroup, clean: bool, protocol: str, rounds: int) -> None:
    """Each number is written at least once, and exactly once where every stop was clean."""
    workers = WORKERS if rounds > 1 else WORKERS[:2]
    connectors = {"a": stock.source("a", tasks=3), "into": stock.sink("into", stock.make_topic("a"))}
    leader = stock.leader(connectors, workers, policy=PATIENT)
    for worker in workers:
        stock.worker(worker, protocol=protocol)
    stock.runs(*EVERYTHING)
    assert stock.leads(leader, len(workers))["protocol"] == protocol
    layout = stock.runs(*EVERYTHING)
    for _ in range(rounds):
        for worker in workers:
            (stock.stop if clean else stock.kill)(worker)
            stock.facts(leader, workers)
            stock.again(worker)
            assert stock.runs(*EVERYTHING) == layout, "each worker has exactly its own tasks back"
            stock.leads(leader, len(workers))
    assert max(stock.starts().values()) <= rounds + 2, "once per bounce and once initially"

    numbers = stock.written("a", stock.written("a"))
    assert missing(numbers) == {}
    if clean:
        assert doubled(numbers) == {}
    for task, seen in numbers.items():
        print(f"{task}: {len(set(seen))} numbers, {len(seen) - len(set(seen))} written again")  # noqa: T201
