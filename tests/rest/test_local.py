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


class Pond:
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
def pond(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Iterator[Pond]:
    root = tmp_path_factory.mktemp("rest")
    try:
        yield Pond(root, broker)
    finally:
        kill_everything(Local(root, "").state)


def test_a_connector_lives_by_requests_alone(pond: Pond) -> None:
    """Creates, pauses, resumes, restarts, stops and deletes one; the members' journal shows what ran."""
    ask = pond.ask
    pond.create("ticks")
    assert set(pond.journal.running()) == {"ticks-0", "ticks-1"}
    [manifest] = [c for c in pond.local.get("connectors") if c["metadata"]["name"] == "ticks"]
    assert manifest["spec"]["tasksMax"] == 2
    assert {t["worker_id"] for t in ask("GET /connectors/ticks/status")["tasks"]} <= set(
        pond.local.incarnations()
    )

    ask("PUT /connectors/ticks/pause", code=202)
    ask.in_states("ticks", "PAUSED", "PAUSED", "PAUSED")
    eventually(lambda: pond.journal.running() == {}, what="paused tasks do not run")
    ask("PUT /connectors/ticks/resume", code=202)
    ask.in_states("ticks", "RUNNING", "RUNNING", "RUNNING")
    eventually(lambda: len(pond.journal.running()) == 2, what="resumed tasks run")

    before = pond.starts()
    ask("POST /connectors/ticks/tasks/1/restart", code=204)
    eventually(lambda: pond.starts() - before == Counter({"ticks-1": 1}), what="one task restarts")
    before = pond.starts()
    ask("POST /connectors/ticks/restart?includeTasks=true", code=202)
    eventually(lambda: pond.starts() - before == Counter({"ticks-0": 1, "ticks-1": 1}), what="both restart")

    ask("PUT /connectors/ticks/stop", code=204)
    ask.in_states("ticks", "STOPPED")
    eventually(lambda: pond.journal.running() == {}, what="stopped tasks do not run")
    ask("DELETE /connectors/ticks", code=204)
    assert "ticks" not in ask("GET /connectors")
    ask("GET /connectors/ticks", code=404)


def test_a_configuration_is_put_while_it_runs(pond: Pond) -> None:
    pond.create("grown", tasks=1)
    config = {**pond.ask("GET /connectors/grown/config"), "stop.delay.ms": "1"}
    pond.ask("PUT /connectors/grown/config", config)
    eventually(
        lambda: [t["config"].get("stop.delay.ms") for t in pond.ask("GET /connectors/grown/tasks")] == ["1"],
        60,
    )
    told = pond.ask("PUT /connectors/grown/config", {**config, "units": "3"}, 400)["message"]
    assert "units" in told  # This option is fixed while checkpoints exist.
    pond.ask("DELETE /connectors/grown", code=204)


def test_offsets_are_moved_by_a_member_which_has_the_checkpoints(
    pond: Pond, broker: EmbeddedBroker, unique: str
) -> None:
    """A unit has read 5 of 10 records according to its checkpoint."""
    ensure_topic({"bootstrap.servers": broker.bootstrap_servers}, unique, 1, -1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(10):
        producer.produce(unique, str(number))
    assert producer.flush(30) == 0
    checkpoints = pond.local.state.worker("default", pond.local.worker).checkpoints
    unit = checkpoints / "copy" / f"{unique}-0"
    (unit / "offsets").mkdir(parents=True)
    (unit / "commits").mkdir()
    (unit / "offsets" / "0").write_text(f'v1\n{{}}\n{{"{unique}":{{"0":5}}}}')
    (unit / "commits" / "0").write_text("v1\n{}")
    config = {"connector.class": "kafka-to-kafka", "topics": unique, "topic": "out"}
    body = {"name": "copy", "config": config, "initial_state": "STOPPED"}
    pond.ask("POST /connectors", body, 201)
    pond.ask.in_states("copy", "STOPPED")

    def entry(offset: int) -> dict[str, object]:
        partition = {"kafka_topic": unique, "kafka_partition": 0}
        return {"partition": partition, "offset": {"kafka_offset": offset}}

    assert pond.ask("GET /connectors/copy/offsets") == {"offsets": [entry(5)]}
    told = pond.ask("PATCH /connectors/copy/offsets", {"offsets": [entry(8)]})
    assert told["message"].startswith("1 offsets")
    assert pond.ask("GET /connectors/copy/offsets") == {"offsets": [entry(8)]}
    refused = pond.ask("PATCH /connectors/copy/offsets", {"offsets": [entry(99)]}, 400)
    assert "99" in refused["message"]
    pond.ask("DELETE /connectors/copy/offsets")
    assert pond.ask("GET /connectors/copy/offsets") == {"offsets": []}
    assert not list(unit.glob("offsets/*"))
