"""Our leader performs all duties of a Java leader for stock workers, and reports what the workers prevent."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cooperator.leader.service import LeaderService
from cooperator.logs import LogsConfig, read_logs
from cooperator.model import ClusterConfig, Desired, DesiredConnector, Fencing, SessionKey
from cooperator.wire import RestartRecord, sign
from tests.harness.support import eventually
from tests.stock.worker_group import LIMIT_S, POLICY, StockGroup, doubled, missing

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2")
QUICK: Mapping[str, Any] = {"scheduled_rebalance_max_delay_ms": 3_000, "join_wait_ms": 1_000}
EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}


def forced(stock: StockGroup) -> list[str]:
    """The workers' log lines on rounds that an offset forced."""
    return [
        line
        for worker in stock.workers.values()
        for line in worker.log.read_text().splitlines()
        if "orcing rebalance" in line
    ]


def config(stock: StockGroup) -> ClusterConfig:
    found = read_logs(LogsConfig(stock.bootstrap_servers, stock.group_id)).config
    assert found is not None
    return found


def condition(leader: LeaderService, type_: str) -> tuple[str, str]:
    found = next((each for each in leader.status()["conditions"] if each["type"] == type_), None)
    assert found is not None, f"no condition {type_}"
    return found["status"], found["message"]


def ask(
    leader: LeaderService, path: str, method: str, body: Any = None, headers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """The status code and the body of the leader's answer."""
    data = b"" if body is None else json.dumps(body).encode()
    all_headers = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(leader.url + path, data, all_headers, method=method)
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def led(stock: StockGroup, connectors: Mapping[str, Mapping[str, str]], **said: Any) -> LeaderService:
    """Our leader for the workers of this file, once it leads them."""
    leader = stock.leader(connectors, WORKERS, adopt=True, **said)
    stock.leads(leader, 2)
    return leader


def test_connectors_are_created_changed_and_deleted_without_a_round_forced_by_an_offset(
    shared: StockGroup,
) -> None:
    """The duties are single restarts at their owner, signatures, users' requests, and a new session key."""
    stock = shared
    one, two = stock.source("one", tasks=2), stock.source("two", tasks=1)
    said = len(forced(stock))
    leader = led(stock, {"one": one})
    _, begun = stock.begun("one-instance", "one-0", "one-1")

    stock.want(leader, {"one": one, "two": two})
    stock.runs("one-instance", "one-0", "one-1", "two-instance", "two-0")
    assert {task: stock.starts()[task] for task in begun} == begun, "a change restarts no other connector"
    wider = {**one, "tasks.max": "4"}
    stock.want(leader, {"one": wider, "two": two})
    stock.runs("one-instance", "one-0", "one-1", "one-2", "one-3", "two-instance", "two-0")
    before = stock.starts()["one-0"]
    stock.want(leader, {"one": {**wider, "errors.tolerance": "all"}, "two": two})
    eventually(lambda: stock.starts()["one-0"] == before + 1, LIMIT_S, "tasks start with the new settings")
    stock.leads(leader, 2)

    restarts_go_to_the_owner(stock, leader)
    requests_are_answered(stock, leader)

    stock.want(leader, {"one": {**wider, "errors.tolerance": "all"}})
    stock.runs("one-instance", "one-0", "one-1", "one-2", "one-3")
    lead = leader.current()
    assert lead is not None
    eventually(
        lambda: "two" not in {task.connector for task in lead[1].status.read_to_end(5_000)},
        LIMIT_S,
        "statuses of what is deleted are forgotten",
    )
    stock.leads(leader, 2)
    assert (leader.status()["totals"]["forced_rounds"], forced(stock)[said:]) == (0, [])
    assert doubled(stock.numbers("two")) == {}


def restarts_go_to_the_owner(stock: StockGroup, leader: LeaderService) -> None:
    before = stock.starts()
    assert leader.restart(RestartRecord("one", task=0)) == 204
    eventually(lambda: stock.starts()["one-0"] == before["one-0"] + 1, LIMIT_S)
    for worker in stock.workers.values():
        # Any worker forwards a request that is not for itself to the leader.
        worker.ask("connectors/one/restart", method="POST")
    eventually(lambda: stock.starts()["one-instance"] == before["one-instance"] + 2, LIMIT_S)
    after = stock.starts()
    assert {task for task in after if after[task] != before[task]} == {"one-0", "one-instance"}


def requests_are_answered(stock: StockGroup, leader: LeaderService) -> None:
    key = config(stock).session_key
    assert key is not None
    wrong = SessionKey(b"another key of thirty-two bytes!", key.algorithm, key.created_ms)
    path = "connectors/one/tasks"
    assert ask(leader, path, "POST", [])[0] == 400, "the request is not signed"
    assert ask(leader, path, "POST", [], sign(wrong, b"[]"))[0] == 403, (
        "the request is not signed with the key"
    )
    assert ask(leader, "connectors/three/tasks", "POST", [], sign(key, b"[]"))[0] == 404
    assert ask(leader, "connectors/three/fence", "PUT", None, sign(key, b""))[0] == 404
    assert ask(leader, "connectors/one/fence", "PUT")[0] == 400
    for worker in stock.workers.values():
        with pytest.raises(AssertionError, match=r"403.*Connector resources"):
            worker.ask("connectors/one", method="DELETE")
    assert "one" in config(stock).connectors


def test_a_session_key_is_replaced_in_time_and_the_workers_go_on_with_the_new_one(shared: StockGroup) -> None:
    stock = shared
    leader = led(stock, {}, session_key_ttl_ms=15_000)
    first = config(stock).session_key
    assert first is not None
    assert len(first.key) == 32
    rotated = eventually(lambda: (k := config(stock).session_key) != first and k, LIMIT_S, "another key")
    assert rotated.key != first.key
    stock.want(leader, {"a": stock.source("a", tasks=1)})
    stock.runs("a-instance", "a-0")
    assert ask(leader, "connectors/a/tasks", "POST", [], sign(first, b"[]"))[0] == 403


def test_sources_are_exactly_once_over_kill_9_and_a_change_of_tasks(stock: StockGroup) -> None:
    """At each start the leader fences what may still produce: nothing is left out or written twice."""
    wanted = stock.source("a", tasks=2)
    stock.make_topic("a")
    leader = stock.leader({"a": wanted}, WORKERS, adopt=True, exactly_once_source=True)
    stock.cluster(*WORKERS, settings=EXACTLY_ONCE)
    stock.leads(leader, 2)
    stock.runs("a-instance", "a-0", "a-1")
    before = stock.written("a")
    assert config(stock).fencings["a"].recorded == 2

    stock.want(leader, {"a": {**wanted, "tasks.max": "3"}})
    stock.runs("a-instance", "a-0", "a-1", "a-2")
    eventually(lambda: config(stock).fencings["a"].recorded == 3, LIMIT_S)
    before = stock.written("a", before)

    stock.kill("w-2")
    stock.facts(leader, ("w-1",), gone=frozenset({"w-2"}))
    stock.runs("a-instance", "a-0", "a-1", "a-2")
    numbers = stock.written("a", before)
    assert (missing(numbers), doubled(numbers)) == ({}, {})
    assert leader.status()["totals"]["forced_rounds"] == 0


def test_a_worker_with_only_the_eager_protocol_is_named_and_stops_all_tasks_in_every_round(
    shared: StockGroup,
) -> None:
    stock, tasks = shared, ("a-instance", "a-0", "a-1", "a-2")
    leader = led(stock, {"a": stock.source("a", tasks=3)})
    _, begun = stock.begun(*tasks)
    assert condition(leader, "EagerProtocol") == ("False", "")
    stock.facts(leader, (*WORKERS, "w-3"))
    stock.worker("w-3", protocol="eager")
    _, message = eventually(
        lambda: (found := condition(leader, "EagerProtocol"))[0] == "True" and found, LIMIT_S
    )
    assert "w-3" in message
    assert "w-1" not in message

    def stopped_and_shared() -> bool:
        layout = stock.runs(*tasks)
        return set(layout.values()) == {*WORKERS, "w-3"} and set(stock.starts() - begun) == set(tasks)

    eventually(stopped_and_shared, LIMIT_S, "all tasks have stopped, and the eager one has a part, too")
    assert stock.leads(leader, 3)["protocol"] == "default"

    # Without it the group is incremental again, and nobody is named.
    stock.stop("w-3")
    del stock.workers["w-3"]
    stock.facts(leader, WORKERS)
    eventually(lambda: condition(leader, "EagerProtocol")[0] == "False", LIMIT_S)
    assert set(stock.runs(*tasks).values()) == set(WORKERS)
    eventually(lambda: stock.leads(leader, 2)["protocol"] == "sessioned", LIMIT_S, "incremental again")
    assert missing(stock.written("a")) == {}


@pytest.mark.long("tests/leader/test_stock.py::test_an_unproven_departure_is_named_once_its_hold_ends")
def test_a_worker_that_vanishes_without_proof_is_named_and_its_tasks_held_unless_best_effort_is_set(
    stock: StockGroup,
) -> None:
    leader = stock.leader({"a": stock.source("a", tasks=3)}, WORKERS, adopt=True, policy=QUICK)
    stock.cluster(*WORKERS)
    stock.leads(leader, 2)
    lost = stock.kill("w-2")
    stock.ended.clear()  # The leader gets no proof.
    stock.facts(leader, WORKERS)

    def unfenced() -> str:
        status, message = condition(leader, "Unfenced")
        assert status == "True"
        return message

    assert "w-2" in eventually(unfenced, LIMIT_S)
    assert not lost & stock.journal.running().keys()
    leader.set_policy(replace(leader.settings.policy, fencing=Fencing.BEST_EFFORT))
    stock.runs("a-instance", "a-0", "a-1", "a-2")
    eventually(lambda: condition(leader, "Unfenced")[0] == "False", LIMIT_S)


@pytest.mark.long(
    "tests/local/test_connect.py::test_a_worker_that_hangs_is_replaced_where_that_was_asked_for"
)
def test_a_worker_that_hangs_in_a_start_is_named_and_then_named_for_replacement(stock: StockGroup) -> None:
    policy = {**QUICK, "hung_after_ms": 20_000}
    wanted = {"a": stock.source("a", tasks=2), "bad": stock.blocking("Source", "bad")}
    leader = stock.leader(wanted, WORKERS, adopt=True, policy=policy, rebalance_timeout_ms=10_000)
    stock.cluster(*WORKERS, settings={"rebalance.timeout.ms": 10_000})
    eventually(lambda: "bad-0" in stock.journal.running(), LIMIT_S)
    stock.leads(leader, 2)
    assert condition(leader, "Hung") == ("False", "")
    at = stock.journal.running()["bad-0"]

    stock.workers[at].hangs.write_text("Task::start\n")
    stock.want(leader, {**wanted, "worse": stock.blocking("Source", "worse")})

    def hung() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = leader.status()["hung"]
        return found

    named = eventually(hung, LIMIT_S, "somebody hangs in the start of worse")
    begun = stock.starts()
    assert [each["items"] for each in named] == [["worse-0"]]
    status, message = condition(leader, "Hung")
    assert (status, named[0]["identity"] in message, "worse-0" in message) == ("True", True, True)
    eventually(lambda: hung()[0]["to_replace"], LIMIT_S)
    assert {"a-0", "a-1"} <= stock.journal.running().keys()
    assert {task: stock.starts()[task] for task in ("a-0", "a-1")} == {t: begun[t] for t in ("a-0", "a-1")}
    stock.workers[at].hangs.write_text("")
    eventually(lambda: not hung(), LIMIT_S, "a worker that goes on is no longer named")


def test_a_hand_back_stops_no_task(shared: StockGroup) -> None:
    """Our planner follows weights, a Java leader counts; the layout is balanced by count before the
    hand-back."""
    stock = shared
    heavy, light = stock.source("heavy", tasks=1), stock.source("light", tasks=5)
    leader = stock.leader({}, WORKERS, adopt=True, policy={**POLICY, "assignor": "Weighted"})
    weighted = {"heavy": DesiredConnector(heavy, weight=4.0), "light": DesiredConnector(light)}
    leader.set_desired(Desired(100, weighted))
    everything = ("heavy-instance", "heavy-0", "light-instance", *(f"light-{n}" for n in range(5)))
    stock.runs(*everything)
    stock.leads(leader, 2)
    tasks = [name for name in everything if not name.endswith("-instance")]

    def loads() -> list[int]:
        running = stock.journal.running()
        return sorted([running[task] for task in tasks].count(worker) for worker in WORKERS)

    assert loads() != [3, 3]
    key = config(stock).session_key

    leader.hand_back()
    stock.leaders.remove(leader)
    assert loads() == [3, 3]
    begun = stock.starts()
    before = stock.written("light")
    assert stock.led_by_a_worker() in WORKERS
    before = stock.written("light", before)
    # The Java leader makes a round of its own, in which nothing may move.
    stock.workers["w-1"].ask("connectors/heavy/restart?includeTasks=true", method="POST")
    eventually(lambda: stock.starts()["heavy-0"] == begun["heavy-0"] + 1, LIMIT_S)
    numbers = stock.written("light", before)
    assert {task: stock.starts()[task] for task in begun if task.startswith("light")} == {
        task: begun[task] for task in begun if task.startswith("light")
    }
    assert (missing(numbers), config(stock).session_key) == ({}, key)
