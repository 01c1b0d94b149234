"""The API of ``cooperator local`` over members without Spark: a real broker, daemon and members."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from cooperator.connectors.topics import ensure_topic
from cooperator.local.broker import EmbeddedBroker
from cooperator.local.lifecycle import kill_everything
from cooperator.local.settings import free_port
from tests.harness.journal import Journal
from tests.harness.support import eventually
from tests.local.command_line import Local
from tests.rest.client import Client

pytestmark = pytest.mark.real

WORKER = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: NAME}
spec: {replicas: 2, rest: {enabled: true, port: PORT}}
"""


class LocalApi:
    """A Worker of two members and its API."""

    def __init__(self, root: Path, broker: EmbeddedBroker) -> None:
        self.local = Local(root, f"rest-{os.getpid()}")
        self.journal = Journal(root / "journal.jsonl")
        port = free_port()
        self.ask = Client(f"http://127.0.0.1:{port}")
        self.local("up", "--bootstrap-servers", broker.bootstrap_servers)
        self.local.apply(WORKER.replace("PORT", str(port)))
        eventually(lambda: self.ask("GET /health")["status"] == "healthy", 90)

    def create(self, name: str, tasks: int = 2) -> None:
        config = {
            "connector.class": "noop",
            "tasks.max": tasks,
            "units": tasks,
            "journal": str(self.journal.path),
        }
        self.ask("POST /connectors", {"name": name, "config": config}, 201)
        self.ask.in_states(name, *["RUNNING"] * (tasks + 1))

    def starts(self) -> Counter[str]:
        return Counter(run.task for run in self.journal.runs())


@pytest.fixture(scope="module")
def local_api(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Iterator[LocalApi]:
    root = tmp_path_factory.mktemp("rest")
    try:
        yield LocalApi(root, broker)
    finally:
        kill_everything(Local(root, "").state)


def test_requests_alone_manage_a_connector(local_api: LocalApi) -> None:
    """Creates, pauses, resumes, restarts, stops and deletes one; the members' journal shows what ran."""
    ask = local_api.ask
    local_api.create("ticks")
    assert set(local_api.journal.running()) == {"ticks-0", "ticks-1"}
    [manifest] = [c for c in local_api.local.get("connectors") if c["metadata"]["name"] == "ticks"]
    assert manifest["spec"]["tasksMax"] == 2
    assert {t["worker_id"] for t in ask("GET /connectors/ticks/status")["tasks"]} <= set(
        local_api.local.incarnations()
    )

    ask("PUT /connectors/ticks/pause", code=202)
    ask.in_states("ticks", "PAUSED", "PAUSED", "PAUSED")
    eventually(lambda: local_api.journal.running() == {}, what="paused tasks do not run")
    ask("PUT /connectors/ticks/resume", code=202)
    ask.in_states("ticks", "RUNNING", "RUNNING", "RUNNING")
    eventually(lambda: len(local_api.journal.running()) == 2, what="resumed tasks run")

    before = local_api.starts()
    ask("POST /connectors/ticks/tasks/1/restart", code=204)
    eventually(lambda: local_api.starts() - before == Counter({"ticks-1": 1}), what="one task restarts")
    before = local_api.starts()
    ask("POST /connectors/ticks/restart?includeTasks=true", code=202)
    eventually(
        lambda: local_api.starts() - before == Counter({"ticks-0": 1, "ticks-1": 1}), what="both restart"
    )

    ask("PUT /connectors/ticks/stop", code=204)
    ask.in_states("ticks", "STOPPED")
    eventually(lambda: local_api.journal.running() == {}, what="stopped tasks do not run")
    ask("DELETE /connectors/ticks", code=204)
    assert "ticks" not in ask("GET /connectors")
    ask("GET /connectors/ticks", code=404)


def test_a_configuration_is_replaced_while_its_connector_runs(local_api: LocalApi) -> None:
    local_api.create("grown", tasks=1)
    config = {**local_api.ask("GET /connectors/grown/config"), "stop.delay.ms": "1"}
    local_api.ask("PUT /connectors/grown/config", config)
    eventually(
        lambda: (
            [t["config"].get("stop.delay.ms") for t in local_api.ask("GET /connectors/grown/tasks")] == ["1"]
        ),
        60,
    )
    answer = local_api.ask("PUT /connectors/grown/config", {**config, "units": "3"}, 400)["message"]
    assert "units" in answer  # This option is fixed while checkpoints exist.
    local_api.ask("DELETE /connectors/grown", code=204)


def test_a_member_migrates_and_moves_offsets(
    local_api: LocalApi, broker: EmbeddedBroker, unique: str
) -> None:
    """A unit has read 5 of 10 records according to the checkpoint of an earlier release."""
    ensure_topic({"bootstrap.servers": broker.bootstrap_servers}, unique, 1, -1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(10):
        producer.produce(unique, str(number))
    assert producer.flush(30) == 0
    checkpoints = local_api.local.state.worker("default", local_api.local.worker).checkpoints
    unit = checkpoints / "copy" / f"{unique}-0"
    (unit / "offsets").mkdir(parents=True)
    (unit / "commits").mkdir()
    (unit / "offsets" / "0").write_text(f'v1\n{{}}\n{{"{unique}":{{"0":5}}}}')
    (unit / "commits" / "0").write_text("v1\n{}")
    config = {"connector.class": "kafka-to-kafka", "topics": unique, "topic": "out"}
    body = {"name": "copy", "config": config, "initial_state": "STOPPED"}
    local_api.ask("POST /connectors", body, 201)
    local_api.ask.in_states("copy", "STOPPED")

    def entry(offset: int) -> dict[str, object]:
        partition = {"kafka_topic": unique, "kafka_partition": 0}
        return {"partition": partition, "offset": {"kafka_offset": offset}}

    assert local_api.ask("GET /connectors/copy/offsets") == {"offsets": []}
    refused = local_api.ask("PATCH /connectors/copy/offsets", {"offsets": [entry(8)]}, 400)
    assert "migrate the offsets of copy first" in refused["message"]
    answer = local_api.ask("POST /connectors/copy/offsets/migrate")
    assert answer["message"].startswith("1 offsets")
    assert local_api.ask("GET /connectors/copy/offsets") == {"offsets": [entry(5)]}
    answer = local_api.ask("PATCH /connectors/copy/offsets", {"offsets": [entry(8)]})
    assert answer["message"].startswith("1 offsets")
    assert local_api.ask("GET /connectors/copy/offsets") == {"offsets": [entry(8)]}
    refused = local_api.ask("PATCH /connectors/copy/offsets", {"offsets": [entry(99)]}, 400)
    assert "99" in refused["message"]
    local_api.ask("DELETE /connectors/copy/offsets")
    assert local_api.ask("GET /connectors/copy/offsets") == {"offsets": []}
    assert not list(unit.glob("offsets/*"))
