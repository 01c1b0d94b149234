"""``cooperator local`` with stock Connect workers: real broker, real daemon, real JVMs."""

import os
from collections.abc import Iterator

import pytest

from cooperator.local.broker import EmbeddedBroker
from cooperator.local.lifecycle import kill_everything
from tests.harness.connect_worker import write_worker_classes
from tests.harness.stock_connectors import plugin_path
from tests.harness.support import eventually
from tests.local.command_line import Local

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

PATIENCE_S = 240.0
"""JVMs start beside other tests."""
WORKER = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: NAME}
spec:
  replicas: 2
  runtime: connect
  heartbeatIntervalMs: 1000
  sessionTimeoutMs: 6000
  connect:
    heapMb: 160
    pluginPath: [PLUGINS]
    jvmOptions: [-XX:TieredStopAtLevel=1, -XX:+UseSerialGC, -Dcooperator.hangs=FOLDER/hangs]
    hungAfterMs: HUNG_MS
    config:
      plugin.discovery: service_load
      offset.flush.interval.ms: 1000
      offset.storage.partitions: 1
    logLevels: {org.apache.kafka.connect.runtime.distributed: DEBUG}
"""
CONNECTOR = """
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: ticks}
spec:
  workerRef: {name: NAME}
  class: cooperator.stock.SequenceSource
  tasksMax: 4
  config:
    topic: ticks
    journal: FOLDER/journal
    tasks.fail.while: FOLDER/fails
"""

BLOCKING = """
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: stuck}
spec:
  workerRef: {name: NAME}
  class: cooperator.stock.BlockingSource
  config: {topic: stuck, journal: FOLDER/stuck}
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Iterator[Local]:
    """Two stock workers that run four tasks of one connector."""
    write_worker_classes(broker.bootstrap_servers, tmp_path_factory.mktemp("classes"))
    local = Local(tmp_path_factory.mktemp("local"), f"stock-{os.getpid()}")
    try:
        local("up", "--bootstrap-servers", broker.bootstrap_servers)
        local.apply(worker(local), CONNECTOR.replace("FOLDER", str(local.state.root)))
        # The second worker may join when the first one runs all tasks already.
        eventually(lambda: len({*local.placed().values()}) == 2, PATIENCE_S, "both run tasks")
        yield local
    finally:
        kill_everything(local.state)


def worker(local: Local, hung_ms: int = 0, **spec: object) -> str:
    more = "".join(f"  {field}: {value!r}\n" for field, value in spec.items())
    here = WORKER.replace("PLUGINS", str(plugin_path())).replace("FOLDER", str(local.state.root))
    return here.replace("HUNG_MS", str(hung_ms)) + more


def incarnations(local: Local) -> set[str]:
    return {incarnation.incarnation for incarnation in local.incarnations().values()}


@pytest.mark.long(
    "tests/local/test_connect.py::test_another_version_rolls_the_workers_and_each_gets_its_own_back"
)
def test_a_worker_that_is_killed_gets_exactly_its_own_back(running: Local) -> None:
    before, processes = running.placed(), running.incarnations()
    victim, other = sorted(processes)

    running("kill", victim)

    eventually(
        lambda: running.incarnations().get(victim, processes[victim]) != processes[victim],
        PATIENCE_S,
        "a new incarnation",
    )
    assert eventually(running.placed, PATIENCE_S, "all tasks run") == before
    assert running.incarnations()[other] == processes[other]


def test_a_failure_is_shown_and_a_restart_fixes_it(running: Local) -> None:
    before = running.placed()
    (running.state.root / "fails").touch()

    def failed() -> dict[str, str]:
        tasks = {task["name"]: task for task in running.ask("tasks")}
        assert [task["state"] for task in tasks.values()].count("FAILED") == 4, tasks
        return {name: task["trace"] for name, task in tasks.items() if task["state"] == "FAILED"}

    traces = eventually(failed, PATIENCE_S, "all four tasks have failed")
    assert all("told to fail" in trace for trace in traces.values())

    (running.state.root / "fails").unlink()
    running("restart", "ticks")

    assert eventually(running.placed, PATIENCE_S, "all tasks run") == before


def test_a_worker_that_hangs_is_replaced_where_that_was_asked_for(running: Local) -> None:
    processes, hangs = incarnations(running), running.state.root / "hangs"
    hangs.write_text("Connector::start\n")
    running.apply(worker(running, hung_ms=10_000), BLOCKING.replace("FOLDER", str(hangs.parent)))

    eventually(hangs.with_suffix(".hit").exists, PATIENCE_S, "somebody hangs")
    eventually(lambda: len(incarnations(running) - processes) == 1, PATIENCE_S, "it is replaced")

    hangs.unlink()
    running.apply(worker(running))

    def all_run() -> bool:
        tasks = {task["name"]: task["state"] for task in running.ask("tasks")}
        return tasks.keys() > {"stuck", "stuck-0"} and set(tasks.values()) == {"RUNNING"}

    eventually(all_run, PATIENCE_S, "all tasks run, also of what hung")
    running("delete", "connector", "stuck")
    eventually(running.placed, PATIENCE_S, "the others run on")


def test_scaled_down_the_tasks_of_who_leaves_move_before_it_is_told_to_end(running: Local) -> None:
    before, processes = running.placed(), running.incarnations()
    first, second = sorted(processes)
    running("scale", "worker", running.worker, "--replicas", "1")

    eventually(lambda: set(running.placed().values()) == {first}, PATIENCE_S, "all is with the first")
    eventually(
        lambda: running.incarnations() == {first: processes[first]}, PATIENCE_S, "the second has ended"
    )
    log = (running.state.worker("default", running.worker).members / second / "member.log").read_text()
    revoked, stopping = log.rindex("Rebalance started"), log.rindex("Kafka Connect stopping")
    assert revoked < stopping, "it was told to end when it had nothing left"

    running("scale", "worker", running.worker, "--replicas", "2")
    eventually(lambda: len(set(running.placed().values())) == 2, PATIENCE_S, "both have work")
    assert running.placed().keys() == before.keys()


def test_another_version_rolls_the_workers_and_each_gets_its_own_back(running: Local) -> None:
    before, processes = running.placed(), running.incarnations()

    running.apply(worker(running, version="3.9"))

    def rolled() -> bool:
        now = running.incarnations()
        return now.keys() == processes.keys() and not now.items() & processes.items()

    eventually(rolled, 2 * PATIENCE_S, "both are replaced")
    folder = running.state.worker("default", running.worker).members

    def say_so() -> bool:
        return all("Kafka version: 3.9" in (folder / name / "member.log").read_text() for name in processes)

    eventually(say_so, PATIENCE_S, "both are of the other line")
    assert eventually(running.placed, PATIENCE_S, "all tasks run") == before


@pytest.mark.long(
    "tests/host/test_platforms.py::test_an_orphaned_worker_is_handed_back_and_its_members_run_on"
)
def test_orphaned_the_workers_run_on_and_are_found_again(running: Local) -> None:
    before, processes = running.placed(), running.incarnations()
    attempts = (running.state.root / "journal").read_text().count('"start"')
    orphan = worker(running, version="3.9", deletionPolicy="Orphan")
    running.apply(orphan)

    running("delete", "worker", running.worker)

    manifest = running.state.worker("default", running.worker).manifest
    eventually(lambda: not manifest.exists(), PATIENCE_S, "it is let go")
    running.apply(orphan)
    assert eventually(running.placed, PATIENCE_S, "all tasks run") == before
    assert running.incarnations() == processes
    assert (running.state.root / "journal").read_text().count('"start"') == attempts, "none was started again"


def test_down_the_workers_leave_in_order(running: Local) -> None:
    running("down")

    assert running.incarnations() == {}
    for folder in running.state.worker("default", running.worker).members.iterdir():
        assert "Kafka Connect stopped" in (folder / "member.log").read_text()
