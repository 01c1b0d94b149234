"""A cluster with a lead of its own is adopted, left alone, adopted again and handed back: no task stops."""

from collections import Counter
from collections.abc import Mapping

import pytest
from typer.testing import CliRunner

from cooperator.cli.app import program
from cooperator.crd import Connector, Worker, compile_desired, parse
from cooperator.crd.choices import GroupPolicy
from cooperator.leader.service import LeaderService
from tests.harness.support import eventually
from tests.stock.worker_group import StockGroup, doubled, is_instance, missing

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2")
EVERYTHING = (
    *("a-instance", "a-0", "a-1", "a-2"),
    *("b-instance", "b-0"),
    *("into-instance", "into-0"),
)


def led_by_themselves(stock: StockGroup) -> None:
    """Two sources, and a sink for the topic of the first, created through REST as users do."""
    first = stock.workers["w-1"]
    only_one = stock.source("b")
    del only_one["tasks.max"]
    connectors = {
        "a": stock.source("a", tasks=3),
        "b": only_one,
        "into": stock.sink("into", stock.make_topic("a")),
    }
    for name, config in connectors.items():
        first.ask("connectors", {"name": name, "config": config})
    stock.runs(*EVERYTHING)
    for worker in stock.workers.values():
        eventually(lambda worker=worker: len(worker.running()) == len(EVERYTHING), 60)


def imports(stock: StockGroup) -> str:
    """The output of ``cooperator import`` for the group."""
    words = ("--bootstrap-servers", stock.bootstrap_servers, "--group", stock.group_id, "--name", "adopted")
    result = CliRunner().invoke(program(), ["import", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def compiled(text: str) -> dict[str, dict[str, str]]:
    """The desired state of these manifests for a leader."""
    worker, *connectors = parse(text, "imported")
    assert isinstance(worker, Worker)
    assert (worker.spec.group_policy, worker.spec.replicas) == (GroupPolicy.ADOPT, 0)
    desired = compile_desired(worker, [c for c in connectors if isinstance(c, Connector)], revision=1)
    return {name: dict(connector.config) for name, connector in desired.connectors.items()}


def gone(stock: StockGroup, leader: LeaderService) -> str:
    """The member that leads once ``leader`` is out of the group: a worker."""
    stock.leaders.remove(leader)
    return stock.led_by_a_worker()


def test_no_task_stops_when_the_lead_is_taken_left_alone_and_handed_back(shared: StockGroup) -> None:
    stock = shared
    led_by_themselves(stock)
    text = imports(stock)
    assert imports(stock) == text
    connectors = compiled(text)
    layout, begun = stock.begun(*EVERYTHING)
    before = stock.written("a")

    # The lead is taken.
    leader = stock.leader(connectors, WORKERS, adopt=True, session_timeout_ms=10_000)
    stock.leads(leader, 2)
    assert stock.journal.running() == layout
    before = stock.written("a", before)

    # The operator is killed and stays away for longer than its session, so a worker leads.
    leader.stop(leave=False)
    gone(stock, leader)
    assert stock.journal.running() == layout
    before = stock.written("a", before)

    # The operator is back.
    leader = stock.leader(connectors, WORKERS, adopt=True, session_timeout_ms=10_000)
    stock.leads(leader, 2)
    assert stock.journal.running() == layout
    before = stock.written("a", before)

    # The lead is handed back.
    leader.hand_back()
    gone(stock, leader)
    stock.written("a", before)
    assert stock.journal.running() == layout
    assert stock.starts() - begun == Counter()

    for name in ("a", "b"):
        numbers = stock.numbers(name)
        assert (missing(numbers), doubled(numbers)) == ({}, {})
    sunk = Counter(stock.records_of("into"))
    assert max(sunk.values()) == 1


def uneven(stock: StockGroup) -> tuple[LeaderService, tuple[str, ...]]:
    """One of two workers has nearly all items; returns all items."""
    connectors = {
        "a": stock.source("a", tasks=5),
        "b": stock.source("b", tasks=1),
        "c": stock.source("c", tasks=1),
    }
    every = tuple(f"{name}-instance" for name in "abc") + tuple(f"a-{n}" for n in range(5)) + ("b-0", "c-0")
    leader = stock.leader(connectors, WORKERS, adopt=True, session_timeout_ms=10_000)
    stock.runs(*every)
    stock.leads(leader, 2)
    stock.facts(leader, WORKERS, cordoned=frozenset({"w-2"}))
    connectors |= {"d": stock.source("d", tasks=6)}
    stock.want(leader, connectors)
    every += ("d-instance", *(f"d-{n}" for n in range(6)))
    stock.runs(*every)
    stock.leads(leader, 2)
    return leader, every


def spreads(layout: Mapping[str, str]) -> list[int]:
    """The differences between the workers' numbers of instances, and of tasks."""
    found = []
    for wanted in (True, False):
        loads = Counter(where for task, where in layout.items() if is_instance(task) is wanted)
        found.append(max(loads.values()) - min(loads[worker] for worker in WORKERS))
    return found


def test_an_uneven_layout_is_balanced_before_the_hand_back(shared: StockGroup) -> None:
    """A Java leader counts instances and tasks separately, so we move whatever it would move, once."""
    stock = shared
    leader, every = uneven(stock)
    assert max(spreads(stock.runs(*every))) > 1
    stock.facts(leader, WORKERS)
    leader.hand_back()
    even = stock.runs(*every)
    begun = stock.starts()
    gone(stock, leader)
    for name in "abcd":
        stock.written(name)
    assert max(spreads(even)) <= 1
    assert stock.runs(*every) == even
    assert stock.starts() - begun == Counter()


@pytest.mark.long("tests/stock/test_adoption.py::test_an_uneven_layout_is_balanced_before_the_hand_back")
def test_an_uneven_layout_when_the_operator_vanishes_is_balanced_by_a_worker_and_nothing_else_moves(
    shared: StockGroup,
) -> None:
    """The figures are for the guarantees (docs/stock-connect.md)."""
    stock = shared
    leader, every = uneven(stock)
    before, begun = stock.runs(*every), stock.starts()
    leader.stop(leave=False)
    gone(stock, leader)

    def even() -> dict[str, str]:
        layout = stock.runs(*every)
        assert max(spreads(layout)) <= 1, layout
        return layout

    after = eventually(even, 90)
    moved = {task for task in every if before[task] != after[task]}
    assert stock.starts() - begun == Counter(moved)
    print(f"{len(moved)} of {len(every)} moved")  # noqa: T201
