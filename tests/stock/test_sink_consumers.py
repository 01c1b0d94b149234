"""Consumers of real stock sinks: a roll to cooperative ones, and the settings that Kafka refuses together."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from benchmarks.clusters.sinks import PARTITIONS, Feed, PutLog, holes
from benchmarks.pipelines.records import create_topics
from cooperator.connect.properties import COOPERATIVE, GROUP_PROTOCOL, STRATEGY
from tests.harness.connect_worker import ConnectWorker
from tests.harness.support import eventually
from tests.stock.worker_group import LIMIT_S, PACKAGE, PATIENT, StockGroup

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2")
DEFAULT = {f"consumer.{STRATEGY}": COOPERATIVE}
"""The setting that the operator gives the workers that it makes (tests/connect/test_properties.py)."""


def sink(stock: StockGroup, name: str, topic: str, tasks: int, **more: str) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": f"{PACKAGE}TimedSink",
        "tasks.max": str(tasks),
        "topics": topic,
        "journal": str(stock.journal.path),
        "puts": str(puts(stock, name)),
        **more,
    }


def puts(stock: StockGroup, name: str) -> Path:
    return stock.directory / f"{name}.puts"


def assignor(servers: str, connector: str) -> str:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    [group] = admin.describe_consumer_groups([f"connect-{connector}"]).values()
    return str(group.result(30).partition_assignor)


@pytest.mark.timeout(900)
@pytest.mark.long("tests/host/test_sink_consumers.py::test_one_eager_assignor_makes_all_tasks_stop")
def test_a_roll_to_cooperative_sinks_fails_no_task_and_skips_no_record(stock: StockGroup) -> None:
    """In the middle of it, consumers with Kafka's default list and such with one assignor share a group."""
    servers, name = stock.bootstrap_servers, f"a{stock.group_id[-6:]}"
    topic = stock.topic("records")
    create_topics(servers, PARTITIONS, topic)
    tasks = tuple(f"{name}-{number}" for number in range(4))
    leader = stock.leader({name: sink(stock, name, topic, 4)}, WORKERS, policy=PATIENT)
    for worker in WORKERS:
        stock.worker(worker)
    log = PutLog(puts(stock, name))
    with Feed(servers, topic):

        def flows() -> bool:
            newest = {partition: found[-1].last for partition, found in log.poll().puts.items()}
            eventually(
                lambda: (
                    len(log.poll().puts) == PARTITIONS
                    and all(found[-1].last > newest.get(p, -1) for p, found in log.puts.items())
                ),
                LIMIT_S,
                "each partition goes on",
            )
            return True

        layout = stock.runs(f"{name}-instance", *tasks)
        assert flows()
        assert assignor(servers, name) == "range"
        for worker in WORKERS:
            stock.stop(worker)
            stock.facts(leader, WORKERS)
            stock.again(worker, settings=DEFAULT)
            assert stock.runs(f"{name}-instance", *tasks) == layout
            stock.leads(leader, len(WORKERS))
            assert flows()
        eventually(lambda: assignor(servers, name) == "cooperative-sticky", LIMIT_S)
    starts = stock.starts()
    assert {starts[task] for task in tasks} == {2}, "each once at first, and once as its worker came back"
    assert sum(skipped for skipped, _ in map(holes, log.poll().puts.values())) == 0


@pytest.mark.timeout(600)
@pytest.mark.long(
    "tests/host/test_sink_consumers.py::test_a_consumer_of_the_new_protocol_refuses_an_assignor"
)
def test_kafka_refuses_an_assignor_beside_the_new_protocol(stock: StockGroup) -> None:
    """This is why the condition ConsumerMisconfigured names the pair (tests/host/test_sink_consumers.py)."""
    name = f"a{stock.group_id[-6:]}"
    topic = stock.make_topic("records")
    override = {f"consumer.override.{GROUP_PROTOCOL}": "consumer"}
    stock.leader({name: sink(stock, name, topic, 1, **override)}, WORKERS[:1], policy=PATIENT)
    worker = stock.worker(WORKERS[0], settings=DEFAULT)

    assert STRATEGY in eventually(lambda: failed(worker, name), LIMIT_S, "the task is refused")


def failed(worker: ConnectWorker, name: str) -> str:
    """The trace of the first failed task; empty if none has failed."""
    tasks = worker.ask(f"connectors/{name}/status")["tasks"]
    return next((str(task["trace"]) for task in tasks if task["state"] == "FAILED"), "")
