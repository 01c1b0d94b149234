"""Members whose Spark is elsewhere: a real standalone cluster, and a real Spark Connect server."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cooperator.connectors.fence import claim
from cooperator.connectors.options import OptionError
from cooperator.connectors.server import Server
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import Epoch, TaskId
from cooperator.runtime import RuntimeSettings
from cooperator.runtime.spark import SparkRuntime
from tests.harness.support import eventually, freeze_group
from tests.runtime.heard import Heard
from tests.runtime.spark_bench import SparkBench, lines_in, member, query_to_files, to_files
from tests.runtime.spark_servers import ConnectServer, StandaloneCluster

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
FENCE = (
    "tests/runtime/test_fence.py::"
    "test_a_query_whose_unit_is_claimed_elsewhere_writes_no_batch_and_no_file_that_counts"
)

SMALL = {
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@pytest.fixture(scope="module")
def cluster_of_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    cluster = StandaloneCluster(tmp_path_factory.mktemp("standalone"))
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    server = ConnectServer(tmp_path_factory.mktemp("connect"))
    yield server
    server.close()


def numbered(word: str, count: int) -> list[str]:
    return [f"{word} {number}" for number in range(count)]


def member_settings(
    tmp_path: Path, broker: EmbeddedBroker, group: str, conf: dict[str, str], *tasks: object
) -> dict[str, object]:
    return {
        "checkpoints": str(tmp_path / "checkpoints"),
        "state_dir": str(tmp_path / "state"),
        "group_id": group,
        "bootstrap_servers": broker.bootstrap_servers,
        "spark_conf": conf,
        "tasks": tasks,
    }


@pytest.mark.long("tests/guarantees/test_guarantees.py::test_the_sink_contains_the_input")
def test_on_a_standalone_cluster_members_are_killed_and_deliver_once(
    cluster_of_spark: StandaloneCluster,
    broker: EmbeddedBroker,
    spark: SparkBench,
    tmp_path: Path,
    unique: str,
) -> None:
    spark.produce(unique, numbered("first", 300))
    copy = f"{unique}-copy"
    copying = {
        "connector.class": "kafka-to-kafka",
        "topics": unique,
        "topic": copy,
        "max.offsets.per.trigger": "100",
        "task.units": f"{unique}-0",
    }
    spark.create_topic(copy, 1)
    output = tmp_path / "out"
    conf = {"spark.master": cluster_of_spark.url, **SMALL}
    tasks = (["out", 0, to_files(output, unique)], ["copy", 0, copying])
    work = member_settings(tmp_path, broker, unique, conf, *tasks)
    log = tmp_path / "member.log"
    for turn in range(2):
        before = lines_in(output).total()
        with member({**work, "incarnation": f"incarnation-{turn}"}, log):
            eventually(lambda before=before: lines_in(output).total() > before, 300, "it delivers")
            spark.produce(unique, numbered(f"more {turn}", 100))
    with member({**work, "incarnation": "last"}, log):
        eventually(lambda: lines_in(output).total() >= 500, 300, "all is delivered")
        eventually(lambda: len(spark.records(copy)) >= 500, 300, "all is copied")
    wanted = sorted([*numbered("first", 300), *numbered("more 0", 100), *numbered("more 1", 100)])
    assert sorted(line for (_, line), count in lines_in(output).items() for _ in range(count)) == wanted
    assert sorted(value.decode() for _, value in spark.records(copy)) == wanted


@pytest.mark.long("tests/runtime/test_session.py::test_an_application_that_a_cluster_has_ended_is_replaced")
def test_a_query_on_a_connect_server_outlives_its_member_and_is_ended_by_the_next(
    server: ConnectServer, broker: EmbeddedBroker, spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    output, log = tmp_path / "out", tmp_path / "member.log"
    work = member_settings(
        tmp_path,
        broker,
        unique,
        {"spark.master": server.url},
        ["out", 0, query_to_files(output, unique, broker.bootstrap_servers)],
    )
    spark.produce(unique, numbered("first", 100))
    with member({**work, "incarnation": "a", "epoch": [1, 1]}, log):
        eventually(lambda: lines_in(output).total() == 100, 300, "it delivers")
    sessions = tmp_path / "checkpoints" / "out" / "unit-0" / "sessions"
    (orphan,) = [record.read_text() for record in sessions.iterdir()]
    spark.produce(unique, numbered("second", 50))
    eventually(lambda: lines_in(output).total() == 150, 120, "nobody has ended it")

    with member({**work, "incarnation": "b", "epoch": [1, 2]}, log):
        eventually(lambda: "ending out/" in log.read_text(), 120, "its query is ended first")
        spark.produce(unique, numbered("third", 50))
        eventually(lambda: lines_in(output).total() >= 200, 120, "the next goes on")
        (current,) = [record.read_text() for record in sessions.iterdir()]
        assert current != orphan
    wanted = {
        ("one", line) for line in (*numbered("first", 100), *numbered("second", 50), *numbered("third", 50))
    }
    assert lines_in(output) == dict.fromkeys(wanted, 1)


@pytest.mark.long(FENCE)
def test_a_query_that_could_not_be_ended_commits_nothing_once_its_unit_is_claimed(
    server: ConnectServer, broker: EmbeddedBroker, spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    output, log = tmp_path / "out", tmp_path / "member.log"
    work = member_settings(
        tmp_path,
        broker,
        unique,
        {"spark.master": server.url},
        ["out", 0, query_to_files(output, unique, broker.bootstrap_servers)],
    )
    spark.produce(unique, numbered("first", 20))
    with member({**work, "incarnation": "a", "epoch": [1, 1]}, log) as frozen:
        eventually(lambda: lines_in(output).total() == 20, 300, "it delivers")
        freeze_group(frozen)
        claim(tmp_path / "checkpoints" / "out" / "unit-0", Epoch(1, 2), 1, "successor")
        spark.produce(unique, numbered("second", 20))
        os.killpg(frozen, signal.SIGCONT)
        eventually(lambda: "holds the unit, not" in log.read_text(), 120, "the server refuses it")
    assert lines_in(output).total() == 20


def test_connectors_that_write_from_the_member_are_refused_by_name(
    settings: RuntimeSettings, heard: Heard, broker: EmbeddedBroker, unique: str
) -> None:
    """Before the server is asked anything."""
    conf = {"spark.master": "sc://127.0.0.1:1"}
    settings = replace(settings, spark_conf=conf, bootstrap_servers=broker.bootstrap_servers)
    runtime = SparkRuntime(settings, heard)
    common = {"topics": "a", "task.units": "a-0"}
    copying = {**common, "connector.class": "kafka-to-kafka", "topic": "b"}
    archiving = {**common, "connector.class": "kafka-to-files", "path": f"{settings.state_dir}/out"}
    for number, config in enumerate((copying, archiving)):
        task = TaskId(f"{unique}-{number}", 0)
        SparkBench(runtime, heard, settings).start(task, config)
        eventually(lambda task=task: heard.of(task) == [("failed", 1)], 60)
        assert "writes from the member" in heard.traces[task, 1]
        assert "use a Worker whose spark.master is local" in heard.traces[task, 1]
    assert runtime.close(30)


def test_settings_that_belong_to_the_server_are_refused() -> None:
    conf = {
        "spark.master": "sc://spark:15002",
        "spark.executor.memory": "4g",
        "spark.sql.ansi.enabled": "true",
    }
    with pytest.raises(
        OptionError, match=r"spec\.spark\.conf\[spark\.executor\.memory\].*where the server is st"
    ):
        Server.of(conf, "lake")
    del conf["spark.executor.memory"]
    server = Server.of(conf, "lake")
    assert server == Server("sc://spark:15002", "cooperator-lake", {"spark.sql.ansi.enabled": "true"})
    assert Server.of({}, "lake") is None
    assert Server.of({"spark.master": "local[2]"}, "lake") is None


@pytest.mark.long(FENCE)
def test_a_server_without_the_fence_is_refused(
    broker: EmbeddedBroker, spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    server = ConnectServer(tmp_path, ours=False)
    try:
        output, log = tmp_path / "out", tmp_path / "member.log"
        work = member_settings(
            tmp_path,
            broker,
            unique,
            {"spark.master": server.url},
            ["out", 0, query_to_files(output, unique, broker.bootstrap_servers)],
        )
        spark.produce(unique, numbered("first", 5))
        with member({**work, "incarnation": "a", "epoch": [1, 1]}, log):
            eventually(lambda: "failed out-0" in log.read_text(), 120)
        assert "the server lacks cooperator's jar" in log.read_text()
        assert "add the jars that `cooperator packages` prints to its class path" in log.read_text()
        assert not output.exists()
    finally:
        server.close()
