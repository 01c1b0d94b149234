"""Slots on executors of a standalone cluster: each has its producer there, and an executor may be killed."""

from collections.abc import Iterator
from threading import Event
from typing import Any

import psutil
import pytest

from cooperator.runtime import RuntimeSettings
from cooperator.runtime.session import SparkHost
from tests.harness.support import eventually, slow
from tests.microbatch.cluster import Cluster
from tests.microbatch.tasks import Task
from tests.runtime.spark_servers import StandaloneCluster

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    slow("env -u CI pytest tests/microbatch/test_executors.py"),
]


@pytest.fixture(scope="module")
def far_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session whose two executors have one core each."""
    root = tmp_path_factory.mktemp("standalone")
    servers = StandaloneCluster(root)
    conf = {
        "spark.master": servers.url,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    settings = RuntimeSettings(
        "lake-0", "incarnation-1", checkpoints=root / "c", state_dir=root / "state", spark_conf=conf
    )
    host = SparkHost(settings)
    session = host.session(Event())
    eventually(lambda: len(executors()) == 2, 120)
    yield session
    host.close(30)
    servers.close()


def executors() -> list[psutil.Process]:
    """The executors of this process's cluster."""
    return [each for each in psutil.Process().children(recursive=True) if _is_executor(each)]


def _is_executor(process: psutil.Process) -> bool:
    try:
        return "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
    except psutil.Error:
        return False  # it has ended


def test_slots_run_where_their_producers_are_and_go_on_when_an_executor_is_killed(
    far_session: Any, cluster: Cluster, unique: str
) -> None:
    places = cluster.create(unique, 4)
    cluster.fill(places, 500)
    with Task(far_session, cluster, unique, places, slot_size=100) as task:
        eventually(lambda: task.reached() == dict.fromkeys(places, 500), 120, f"{task.error} {task.said}")
        for count in (600, 700, 800):
            cluster.fill(places, 100)
            eventually(lambda count=count: task.reached() == dict.fromkeys(places, count), 60)
        assert task.ownership.recoveries == 0, task.said
        executors()[0].kill()
        cluster.fill(places, 200)
        eventually(lambda: task.reached() == dict.fromkeys(places, 1_000), 120, f"{task.error} {task.said}")
        assert task.ownership.recoveries > 0
    whole = [
        f"{place}:{number}"
        for place in places
        for count in (500, 100, 100, 100, 200)
        for number in range(count)
    ]
    assert task.values() == sorted(whole)
