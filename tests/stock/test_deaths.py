"""Workers that die, return and are rolled under our leader, and a leader that is away when one dies."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from cooperator.group import describe_group
from tests.harness.connect_worker import MAX_DELAY_MS
from tests.harness.support import eventually
from tests.integration.test_plan import answer
from tests.stock.worker_group import HOLD_MS, PATIENT, POLICY, StockGroup, doubled, missing

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2")
EVERYTHING = ("a-instance", "a-0", "a-1", "b-instance", "b-0", "b-1", "b-2")


def begin(
    stock: StockGroup, policy: Mapping[str, Any] = POLICY
) -> tuple[dict[str, dict[str, str]], "Counter[str]"]:
    connectors = {"a": stock.source("a", tasks=2), "b": stock.source("b", tasks=3)}
    leader = stock.leader(connectors, WORKERS, adopt=True, policy=policy, session_timeout_ms=10_000)
    stock.leads(leader, 2)
    return connectors, stock.begun(*EVERYTHING)[1]


@pytest.mark.long("tests/stock/test_mixed.py::test_a_roll_from_the_line_before_to_the_present_one")
def test_each_worker_is_rolled_in_turn_and_has_its_own_tasks_back_while_no_other_stops(
    shared: StockGroup,
) -> None:
    stock = shared
    _, begun = begin(stock, PATIENT)
    [leader] = stock.leaders
    layout = stock.runs(*EVERYTHING)
    own = Counter[str]()
    for worker in WORKERS:
        stock.facts(leader, WORKERS, returning=frozenset({worker}))
        own += Counter(stock.stop(worker))
        stock.facts(leader, WORKERS, returning=frozenset({worker}))
        stock.again(worker)
        assert stock.runs(*EVERYTHING) == layout
        stock.leads(leader, 2)
    assert stock.starts() - begun == own == Counter(dict.fromkeys(EVERYTHING, 1))
    for name in "ab":
        numbers = stock.written(name)
        assert (missing(numbers), doubled(numbers)) == ({}, {}), "a clean stop commits what was written"


def items(layout: Mapping[str, str]) -> dict[str, str]:
    """As the answers of ``cooperator plan`` name them: an instance like its connector."""
    return {name.removesuffix("-instance"): worker for name, worker in layout.items()}


def what_is_foretold(stock: StockGroup, dies: str) -> dict[str, str]:
    """Where everything will run, by ``cooperator plan``, which changes nothing in a group of Java."""
    topic = ("--config-topic", f"{stock.group_id}-configs", "--max-delay-ms", MAX_DELAY_MS)
    before = describe_group(stock.bootstrap_servers, stock.group_id)
    quiet, dead, ours = (
        answer(stock.bootstrap_servers, stock.group_id, *topic, *words)
        for words in ((), ("--die", dies), ("--policy", "Default", "--join", 1))
    )
    assert describe_group(stock.bootstrap_servers, stock.group_id) == before
    assert (quiet["led_by"], quiet["policy"], quiet["rounds"]) == ("stock", "Kip415", [])
    assert {entry["name"]: entry["member"] for entry in quiet["placed"]} == items(stock.journal.running())
    assert dead["rounds"][-1]["after_ms"] == MAX_DELAY_MS
    assert ours["led_by"] == "operator"
    return {entry["name"]: entry["member"] for entry in dead["placed"]}


@pytest.mark.parametrize(
    "leads",
    [
        pytest.param(False, id="another"),
        pytest.param(
            True,
            id="its-leader",
            marks=pytest.mark.long("tests/stock/test_deaths.py::test_a_worker_dies_while_our_leader_is_away"),
        ),
    ],
)
def test_a_worker_dies_while_our_leader_is_away(shared: StockGroup, leads: bool) -> None:
    """Kafka's own leader acts by its own rules; ours adopts the result. The dead worker may be the one that
    leads; its successor has seen no departure and does not hold its tasks."""
    stock = shared
    connectors, begun = begin(stock)
    [leader] = stock.leaders
    stock.leaders.clear()
    layout = stock.runs(*EVERYTHING)
    leader.stop(leave=False)
    leading = stock.led_by_a_worker()
    assert stock.journal.running() == layout
    assert stock.starts() == begun
    follower = next(worker for worker in WORKERS if worker != leading)
    first, other = (follower, leading) if leads else (leading, follower)

    foretold = what_is_foretold(stock, other)

    # The leading worker holds tasks for its own delay, as Kafka does; the other worker runs on.
    lost = stock.kill(other)
    after = stock.runs(*EVERYTHING)
    assert set(after.values()) == {first}
    assert foretold == items(after)
    assert stock.starts() - begun == Counter(lost)
    stopped_ms = sorted(map(stock.stopped_for_ms, lost))
    print(f"stopped for {stopped_ms} ms")  # noqa: T201
    assert (min(stopped_ms) >= MAX_DELAY_MS) is not leads, "a new leader knows of no delay"

    # Our leader is back, and so is the worker, which gets what balances the group, once.
    leader = stock.leader(connectors, WORKERS, adopt=True, session_timeout_ms=10_000)
    stock.again(other)
    eventually(lambda: stock.journal.running_at(other), 60)
    stock.leads(leader, 2)
    stock.runs(*EVERYTHING)
    assert stock.starts() - begun == Counter(lost) + Counter(stock.journal.running_at(other))
    for name in "ab":
        assert missing(stock.written(name)) == {}


def test_the_operator_is_killed_while_tasks_are_held(shared: StockGroup) -> None:
    """The figure is for the guarantees: a Java leader that did not see the departure starts the tasks at
    once."""
    stock = shared
    _, begun = begin(stock)
    [leader] = stock.leaders
    stock.leaders.clear()
    lost = stock.kill("w-2")
    stock.facts(leader, WORKERS)
    eventually(lambda: len(leader.status()["members"]) == 1, 60, "it is out of the group")
    held = {task["name"] for task in leader.status()["tasks"] if task["state"] == "HELD"}
    assert {task.removesuffix("-instance") for task in lost} == held
    leader.stop(leave=True)
    stock.led_by_a_worker()
    stock.runs(*EVERYTHING)
    assert max(map(stock.stopped_for_ms, lost)) < HOLD_MS
    assert stock.starts() - begun == Counter(lost)
