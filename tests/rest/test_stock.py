"""The API over a stock worker of ``cooperator local``, checked by the connectors' input and output."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, TopicPartition

from cooperator.connectors.topics import ensure_topic
from cooperator.local.broker import EmbeddedBroker
from cooperator.local.lifecycle import kill_everything
from cooperator.local.settings import free_port
from tests.harness.connect_worker import write_worker_classes
from tests.harness.journal import Journal
from tests.harness.stock_connectors import plugin_path
from tests.harness.support import eventually
from tests.local.command_line import Local
from tests.rest.client import Client

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

PATIENCE_S = 240.0
"""A JVM starts while other tests run."""
WORKER = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: NAME}
spec:
  replicas: 1
  runtime: connect
  heartbeatIntervalMs: 1000
  sessionTimeoutMs: 6000
  rest: {enabled: true, port: PORT}
  connect:
    heapMb: 160
    pluginPath: [PLUGINS]
    jvmOptions: [-XX:TieredStopAtLevel=1, -XX:+UseSerialGC]
    config: {plugin.discovery: service_load, offset.flush.interval.ms: 1000, offset.storage.partitions: 1}
"""
TEXT = "org.apache.kafka.connect.storage.StringConverter"
STRINGS = {"key.converter": TEXT, "value.converter": TEXT}
SOURCE = "cooperator.stock.SequenceSource"
NAME = "My Connector_1"
"""A name that no resource can have."""
PATH = quote(NAME, safe="")


class StockApi:
    """One worker and its API."""

    def __init__(self, root: Path, broker: EmbeddedBroker) -> None:
        self.local = Local(root, f"mill-{os.getpid()}")
        self.journal = Journal(root / "journal.jsonl")
        self.servers = broker.bootstrap_servers
        port = free_port()
        self.ask = Client(f"http://127.0.0.1:{port}")
        self.local("up", "--bootstrap-servers", self.servers)
        self.local.apply(WORKER.replace("PORT", str(port)).replace("PLUGINS", str(plugin_path())))
        eventually(self.serves, PATIENCE_S, "the worker is a member")

    def serves(self) -> bool:
        return any(each["class"] == SOURCE for each in self.ask("GET /connector-plugins"))

    def config(self, **more: Any) -> dict[str, Any]:
        return {"journal": str(self.journal.path), **STRINGS, **more}

    def read(self, topic: str) -> list[str]:
        """All values in the topic at this time."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "reader"})
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        consumer.assign([TopicPartition(topic, 0, 0)])
        # The source keeps writing, so the end of the topic may never come.
        found = [message.value().decode() for message in consumer.consume(end, timeout=30)] if end else []
        consumer.close()
        return found


@pytest.fixture(scope="module")
def stock_api(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Iterator[StockApi]:
    write_worker_classes(broker.bootstrap_servers, tmp_path_factory.mktemp("classes"))
    root = tmp_path_factory.mktemp("stock")
    try:
        yield StockApi(root, broker)
    finally:
        kill_everything(Local(root, "").state)


@pytest.fixture
def topic(stock_api: StockApi, unique: str) -> str:
    ensure_topic({"bootstrap.servers": stock_api.servers}, unique, 1, -1)
    return unique


def offset_of(ask: Client, name: str) -> Mapping[str, Any]:
    [entry] = ask(f"GET /connectors/{quote(name, safe='')}/offsets")["offsets"]
    offset: Mapping[str, Any] = entry["offset"]
    return offset


def test_requests_control_a_source_and_where_it_continues(stock_api: StockApi, topic: str) -> None:
    ask = stock_api.ask
    config = stock_api.config(topic=topic, **{"connector.class": SOURCE, "tasks.max": 1, "rate": 100})
    ask("POST /connectors", {"name": NAME, "config": config, "initial_state": "STOPPED"}, 201)
    ask.in_states(NAME, "STOPPED")
    assert ask(f"GET /connectors/{PATH}")["type"] == "source"
    assert "stop first" not in ask(f"DELETE /connectors/{PATH}/offsets")["message"]
    ask(f"PUT /connectors/{PATH}/resume", code=202)
    ask.in_states(NAME, "RUNNING", "RUNNING")
    eventually(lambda: f"{NAME}-0:5" in stock_api.read(topic), 60, "numbers are written")

    before = len(stock_api.journal.runs())
    ask(f"POST /connectors/{PATH}/tasks/0/restart", code=204)
    eventually(
        lambda: [r.task for r in stock_api.journal.runs()[before:]] == [f"{NAME}-0"], 60, "one task restarts"
    )
    ask(f"POST /connectors/{PATH}/restart?includeTasks=true", code=202)
    eventually(lambda: len(stock_api.journal.runs()) == before + 3, 60, "instance and task restart")

    ask(f"PUT /connectors/{PATH}/pause", code=202)
    ask.in_states(NAME, "PAUSED", "PAUSED")
    refused = ask(f"PATCH /connectors/{PATH}/offsets", {"offsets": [{"partition": {}, "offset": None}]}, 400)
    assert f"PUT /connectors/{PATH}/stop first" in refused["message"]
    ask(f"PUT /connectors/{PATH}/stop", code=204)
    ask.in_states(NAME, "STOPPED")
    eventually(lambda: f"{NAME}-0" not in stock_api.journal.running(), 60, "its task has ended")
    assert offset_of(ask, NAME)["number"] == int(stock_api.read(topic)[-1].partition(":")[2])

    entry = {"partition": {"task": f"{NAME}-0"}, "offset": {"number": 99_999}}
    eventually(lambda: ask(f"PATCH /connectors/{PATH}/offsets", {"offsets": [entry]}))
    assert offset_of(ask, NAME) == {"number": 99_999}
    written = len(stock_api.read(topic))
    ask(f"PUT /connectors/{PATH}/resume", code=202)
    eventually(lambda: stock_api.read(topic)[written:], 60)
    assert stock_api.read(topic)[written] == f"{NAME}-0:100000"

    ask(f"PUT /connectors/{PATH}/stop", code=204)
    eventually(lambda: ask(f"DELETE /connectors/{PATH}/offsets"), 60)
    assert ask(f"GET /connectors/{PATH}/offsets") == {"offsets": []}
    written = len(stock_api.read(topic))
    ask(f"PUT /connectors/{PATH}/resume", code=202)
    eventually(lambda: stock_api.read(topic)[written:], 60)
    assert stock_api.read(topic)[written] == f"{NAME}-0:0"
    ask(f"DELETE /connectors/{PATH}", code=204)
    eventually(lambda: not stock_api.journal.running(), 60, "nothing of it runs")


def test_requests_control_where_a_sink_reads(stock_api: StockApi, topic: str, tmp_path: Path) -> None:
    ask = stock_api.ask
    source = stock_api.config(topic=topic, **{"connector.class": SOURCE, "rate": 100})
    ask("POST /connectors", {"name": "fill", "config": source}, 201)
    eventually(lambda: "fill-0:30" in stock_api.read(topic), 60)
    ask("DELETE /connectors/fill", code=204)
    eventually(lambda: not stock_api.journal.running(), 60)
    all_of_it = stock_api.read(topic)
    class_ = "cooperator.stock.SequenceSink"
    config = stock_api.config(topics=topic, into=str(tmp_path), **{"connector.class": class_})
    ask("PUT /connectors/basin/config", config, 201)

    def incarnations() -> list[list[str]]:
        return sorted(path.read_text().split() for path in tmp_path.glob("*.txt"))

    eventually(lambda: incarnations() == [all_of_it], 60, "everything is read")
    assert ask("GET /connectors/basin")["type"] == "sink"
    ask("PUT /connectors/basin/stop", code=204)
    eventually(lambda: ask("GET /connectors/basin/offsets")["offsets"], 60)
    eventually(lambda: offset_of(ask, "basin") == {"kafka_offset": len(all_of_it)}, 60)

    partition = {"kafka_topic": topic, "kafka_partition": 0}
    last = {"offsets": [{"partition": partition, "offset": {"kafka_offset": len(all_of_it) - 2}}]}
    eventually(lambda: ask("PATCH /connectors/basin/offsets", last), 60)
    ask("PUT /connectors/basin/resume", code=202)
    eventually(lambda: all_of_it[-2:] in incarnations(), 60, "the last two are read again")
    ask("PUT /connectors/basin/stop", code=204)
    eventually(lambda: ask("DELETE /connectors/basin/offsets"), 60)
    ask("PUT /connectors/basin/resume", code=202)
    eventually(lambda: incarnations().count(all_of_it) == 2, 60, "everything is read again")
    ask("DELETE /connectors/basin", code=204)


def test_requests_that_only_a_worker_can_answer_are_forwarded(stock_api: StockApi) -> None:
    ask = stock_api.ask
    config = stock_api.config(topic="t", **{"connector.class": SOURCE, "tasks.max": "none", "name": "x"})
    found = ask(f"PUT /connector-plugins/{SOURCE}/config/validate", config)
    errors = {each["value"]["name"]: each["value"]["errors"] for each in found["configs"]}
    assert found["error_count"] > 0
    assert "Not a number" in errors["tasks.max"][0]
    missing = {"name": "x", "config": {"connector.class": "org.example.Missing"}}
    assert "org.example.Missing" in ask("POST /connectors", missing, 400)["message"]
    without = {"name": "x", "config": {"connector.class": SOURCE, "value.converter": "org.example.None"}}
    assert "value.converter" in ask("POST /connectors", without, 400)["message"]
    assert ask("GET /connectors") == []

    name = "org.apache.kafka.connect.runtime"
    assert name in ask(f"PUT /admin/loggers/{name}", {"level": "debug"})
    assert ask(f"GET /admin/loggers/{name}")["level"] == "DEBUG"
    ask(f"PUT /admin/loggers/{name}?scope=cluster", {"level": "INFO"}, 204)
    eventually(lambda: ask(f"GET /admin/loggers/{name}")["level"] == "INFO", 30)
