"""The scenarios of Kafka's own connect_distributed_test, under our leader."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cooperator.leader.service import LeaderService
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import TargetState
from cooperator.wire import RestartRecord
from tests.harness.support import eventually
from tests.stock.worker_group import StockGroup, doubled, missing

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2")


@dataclass
class Pair:
    """Two workers and our leader, which several tests share; each test adds connectors of its own."""

    stock: StockGroup
    leader: LeaderService
    connectors: dict[str, dict[str, str]]

    def add(self, **connectors: dict[str, str]) -> None:
        self.connectors |= connectors
        self.want()

    def want(self, **targets: TargetState) -> None:
        self.stock.want(self.leader, self.connectors, **targets)

    def state(self, *items: str) -> set[str]:
        status = {task["name"]: task["state"] for task in self.leader.status()["tasks"]}
        return {status.get(item, "none") for item in items}

    def becomes(self, state: str, *items: str) -> None:
        eventually(lambda: self.state(*items) == {state}, 90, f"{items} are {state}")

    def trace(self, item: str) -> str:
        return next(str(task["trace"]) for task in self.leader.status()["tasks"] if task["name"] == item)


@pytest.fixture(scope="module")
def pair(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory, archived: Callable[[str], None]
) -> Iterator[Pair]:
    archived("4")
    directory = tmp_path_factory.mktemp("pair")
    stock = StockGroup(broker.bootstrap_servers, directory, f"distributed-{directory.name}")
    leader = stock.leader({}, WORKERS)
    for worker in WORKERS:
        stock.worker(worker)
    stock.leads(leader, 2)
    yield Pair(stock, leader, {})
    stock.close()


def test_a_connector_that_failed_is_restarted(pair: Pair, tmp_path: Path) -> None:
    failing = tmp_path / "failing"
    failing.touch()
    pair.add(flaky=pair.stock.source("flaky", tasks=1, **{"fails.while": str(failing)}))
    pair.becomes("FAILED", "flaky")
    assert "told to fail" in pair.trace("flaky")
    failing.unlink()
    assert pair.leader.restart(RestartRecord("flaky", include_tasks=True, only_failed=True)) == 202
    pair.becomes("RUNNING", "flaky", "flaky-0")


def test_tasks_that_failed_are_restarted_and_no_others(pair: Pair, tmp_path: Path) -> None:
    failing = tmp_path / "failing"
    pair.add(
        worn=pair.stock.source("worn", tasks=2, **{"tasks.fail.while": str(failing)}),
        sound=pair.stock.source("sound", tasks=2),
    )
    pair.becomes("RUNNING", "worn-0", "worn-1", "sound-0", "sound-1")
    pair.stock.leads(pair.leader, 2)
    _, before = pair.stock.begun()
    failing.touch()
    pair.becomes("FAILED", "worn-0", "worn-1")
    failing.unlink()
    assert pair.leader.restart(RestartRecord("worn", include_tasks=True, only_failed=True)) == 202
    pair.becomes("RUNNING", "worn-0", "worn-1")
    assert pair.stock.starts() - before == {"worn-0": 1, "worn-1": 1}
    assert missing(pair.stock.written("worn")) == {}


def test_a_paused_source_writes_nothing_and_stays_paused_over_a_restart_of_its_worker(pair: Pair) -> None:
    stock = pair.stock
    pair.add(calm=stock.source("calm", tasks=2))
    pair.becomes("RUNNING", "calm", "calm-0", "calm-1")
    stock.written("calm")
    pair.want(calm=TargetState.PAUSED)
    pair.becomes("PAUSED", "calm", "calm-0", "calm-1")
    held = stock.numbers("calm")
    stock.facts(pair.leader, WORKERS, returning=frozenset({"w-2"}))
    assert stock.stop("w-2") & {"calm-instance", "calm-0", "calm-1"}, "it has a part of the paused connector"
    stock.facts(pair.leader, WORKERS)
    stock.again("w-2")
    stock.leads(pair.leader, 2)
    pair.becomes("PAUSED", "calm", "calm-0", "calm-1")
    assert stock.numbers("calm") == held, "the source writes nothing while it is paused"
    pair.want()
    numbers = stock.written("calm", held)
    assert (missing(numbers), doubled(numbers)) == ({}, {})


def test_a_paused_sink_takes_nothing_and_then_all(pair: Pair) -> None:
    stock = pair.stock
    pair.add(spring=stock.source("spring", tasks=1), drain=stock.sink("drain", stock.topic("spring")))
    eventually(lambda: stock.records_of("drain"), 90)
    pair.want(drain=TargetState.PAUSED)
    pair.becomes("PAUSED", "drain", "drain-0")
    taken = stock.records_of("drain")
    stock.written("spring", stock.written("spring"))
    assert stock.records_of("drain") == taken
    pair.want()
    wanted = stock.numbers("spring")["spring-0"]
    eventually(lambda: len(stock.records_of("drain")) >= len(wanted), 90)
    settings = stock.records_of("drain")
    assert len(settings) == len(set(settings))


def test_lines_of_a_file_pass_through_a_transformation_into_a_file(pair: Pair, tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("one\ntwo\n")
    file, topic = "org.apache.kafka.connect.file.FileStream", pair.stock.topic("lines")
    transform = "org.apache.kafka.connect.transforms."
    pair.add(
        lines={
            "name": "lines",
            "connector.class": f"{file}SourceConnector",
            "tasks.max": "1",
            "file": str(source),
            "topic": "renamed",
            "transforms": "hoist,route",
            "transforms.hoist.type": f"{transform}HoistField$Value",
            "transforms.hoist.field": "line",
            "transforms.route.type": f"{transform}RegexRouter",
            "transforms.route.regex": "renamed",
            "transforms.route.replacement": topic,
        },
        copy={
            "name": "copy",
            "connector.class": f"{file}SinkConnector",
            "tasks.max": "1",
            "file": str(target),
            "topics": topic,
        },
    )
    wanted = ["Struct{line=one}", "Struct{line=two}"]
    eventually(lambda: target.exists() and target.read_text().splitlines() == wanted, 90)
    with source.open("a") as lines:
        lines.write("three\n")
    wanted.append("Struct{line=three}")
    eventually(lambda: target.read_text().splitlines() == wanted, 90)


def test_levels_of_loggers_change_on_one_worker_or_on_all_and_nothing_restarts(pair: Pair) -> None:
    stock = pair.stock
    one, other = stock.workers.values()
    stock.leads(pair.leader, 2)
    (_, before), generation = stock.begun(), pair.leader.status()["generation"]
    logger = "admin/loggers/org.apache.kafka.connect.runtime.WorkerSourceTask"
    one.ask(logger, {"level": "DEBUG"}, "PUT")
    assert one.ask(logger)["level"] == "DEBUG"
    assert other.ask(logger)["level"] == "INFO"
    one.ask(f"{logger}?scope=cluster", {"level": "ERROR"}, "PUT")
    eventually(lambda: [w.ask(logger)["level"] for w in (one, other)] == ["ERROR", "ERROR"], 60)
    assert stock.starts() == before
    assert pair.leader.status()["generation"] == generation
