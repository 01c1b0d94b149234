"""A worker that hangs in a connector, at the points of Kafka's BlockingConnectorTest, blocks no other
worker."""

from collections import Counter

import pytest

from cooperator.leader.service import LeaderService
from tests.harness.support import eventually
from tests.stock.worker_group import StockGroup

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2")
LONG = pytest.mark.long("tests/stock/test_hangs.py::test_other_tasks_run_on_and_new_ones_start")
FINE = ("fine-instance", "fine-0", "fine-1")
NAMED = ("Connector::start", "Connector::initialize", "Task::start")
"""The points at which a worker reports no status of its assignment, which is how a hang shows from
outside."""


def hang(stock: StockGroup, *lines: str) -> None:
    """Sets the points at which connectors hang; no point ends all hangs."""
    file = next(iter(stock.workers.values())).hangs
    part = file.with_suffix(".part")
    part.write_text("".join(f"{line}\n" for line in lines))
    part.replace(file)


def hanging_members(stock: StockGroup) -> list[str]:
    """The members that hang, or have hung, with the point: "point member"."""
    file = next(iter(stock.workers.values())).hangs.with_suffix(".hit")
    return file.read_text().splitlines() if file.exists() else []


def begin(stock: StockGroup) -> tuple[LeaderService, dict[str, str], "Counter[str]"]:
    """Our leader with connector ``fine``; where its tasks run, and their starts. Nobody has hung."""
    next(iter(stock.workers.values())).hangs.with_suffix(".hit").unlink(missing_ok=True)
    leader = stock.leader({"fine": stock.source("fine", tasks=2)}, WORKERS, adopt=True)
    stock.leads(leader, 2)
    return leader, *stock.begun(*FINE)


def hanging_according_to(leader: LeaderService) -> set[str]:
    """The members that hang according to the leader."""
    return {each["identity"] for each in leader.status()["hung"]}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kind", "point"),
    [
        pytest.param("Source", "Connector::start", id="connector-start"),
        pytest.param("Source", "Connector::initialize", id="connector-initialize", marks=LONG),
        pytest.param("Source", "Connector::taskConfigs", id="connector-task-configs", marks=LONG),
        pytest.param("Source", "Connector::stop", id="connector-stop", marks=LONG),
        pytest.param("Source", "Connector::config", id="connector-config", marks=LONG),
        pytest.param("Source", "Connector::validate", id="connector-validate", marks=LONG),
        pytest.param("Source", "Task::start", id="source-task-start", marks=LONG),
        pytest.param("Sink", "Task::start", id="sink-task-start", marks=LONG),
        pytest.param("Sink", "Task::stop", id="sink-task-stop", marks=LONG),
    ],
)
def test_other_tasks_run_on_and_new_ones_start(shared: StockGroup, kind: str, point: str) -> None:
    """Whether it hangs on creation or on deletion, other tasks keep running, a connector created meanwhile
    starts, and the hanging one is gone when the hang ends."""
    stock = shared
    fine = {"fine": stock.source("fine", tasks=2)}
    more = {} if kind == "Source" else {"topics": stock.make_topic("in")}
    bad = {**fine, "bad": stock.blocking(kind, "bad", **more)}
    leader, layout, begun = begin(stock)

    hang(stock, point)
    stock.want(leader, bad)
    if point in ("Connector::validate", "Connector::config"):
        # Our leader has no plug-ins for validation; a worker validates where users go through its REST API.
        one = stock.workers["w-1"]
        with pytest.raises(AssertionError):
            one.ask(f"connector-plugins/{bad['bad']['connector.class']}/config/validate", bad["bad"], "PUT")
    if point.endswith("stop"):
        eventually(lambda: {"bad-0"} <= stock.journal.running().keys(), 90)
        stock.want(leader, fine)
    eventually(lambda: hanging_members(stock), 90, f"somebody hangs in {point}")

    # Meanwhile other tasks run, and another connector starts.
    numbers = stock.written("fine")
    both = {**fine, "late": stock.source("late", tasks=2)}
    stock.want(leader, both if point.endswith("stop") else {**bad, **both})
    eventually(lambda: {"late-0", "late-1"} <= stock.journal.running().keys(), 90, "a new one starts")
    stock.written("late")
    stock.written("fine", numbers)
    running = stock.journal.running()
    assert {task: running[task] for task in FINE} == layout
    if point in NAMED:
        eventually(
            lambda: hanging_according_to(leader) == {line.split()[-1] for line in hanging_members(stock)}, 90
        )
    assert all(stock.starts()[task] == begun[task] for task in FINE)

    hang(stock)
    stock.want(leader, both)
    stock.runs(*FINE, "late-instance", "late-0", "late-1")
    stock.leads(leader, 2)


def test_others_run_on_and_start_while_a_task_hangs_in_a_poll_and_then_in_its_stop(
    shared: StockGroup,
) -> None:
    stock = shared
    wanted = {"fine": stock.source("fine", tasks=2)}
    leader, layout, begun = begin(stock)

    def others_go_on(late: str) -> None:
        numbers = stock.written("fine")
        wanted[late] = stock.source(late)
        stock.want(leader, wanted)
        eventually(lambda: {f"{late}-0", f"{late}-1"} <= stock.journal.running().keys(), 90, f"{late} starts")
        stock.written("fine", numbers)
        assert all(stock.starts()[task] == begun[task] for task in FINE)
        running = stock.journal.running()
        assert {task: running[task] for task in FINE} == layout

    hang(stock, "SourceTask::poll")
    wanted["bad"] = stock.blocking("Source", "bad")
    stock.want(leader, wanted)
    eventually(lambda: hanging_members(stock), 90, "its first poll does not return")
    others_go_on("one")

    # The poll returns; the task is asked to stop.
    hang(stock, "Task::stop")
    del wanted["bad"]
    stock.want(leader, wanted)
    eventually(lambda: any("Task::stop" in line for line in hanging_members(stock)), 90, "nor does its stop")
    others_go_on("two")

    hang(stock)
    late = (f"{name}-{part}" for name in ("one", "two") for part in ("instance", "0", "1"))
    stock.runs(*FINE, *late)
    stock.leads(leader, 2)


@pytest.mark.long(
    "tests/local/test_connect.py::test_a_worker_that_hangs_is_replaced_where_that_was_asked_for"
)
@pytest.mark.parametrize("point", ["Connector::start", "Connector::stop"])
def test_a_worker_that_hangs_is_restarted_and_all_run_again(stock: StockGroup, point: str) -> None:
    connectors = {"fine": stock.source("fine", tasks=2), "bad": stock.blocking("Source", "bad")}
    leader = stock.leader(connectors, WORKERS)
    for worker in WORKERS:
        stock.worker(worker)
    stock.runs(*FINE, "bad-instance", "bad-0")
    stock.leads(leader, 2)
    victim = stock.journal.running()["bad-instance"]
    hang(stock, point)
    if point == "Connector::start":
        stock.stop(victim)
        stock.facts(leader, WORKERS)
        stock.again(victim)
        eventually(lambda: hanging_members(stock), 90)
    stock.stop(victim)
    assert hanging_members(stock), f"it has hung in {point}"
    hang(stock)
    stock.facts(leader, WORKERS)
    stock.again(victim)
    stock.runs(*FINE, "bad-instance", "bad-0")
    stock.leads(leader, 2)
    stock.written("fine")
