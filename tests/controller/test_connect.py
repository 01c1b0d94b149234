"""Stock Connect workers under the operator: a real API server, real JVMs as pods; measured at the tasks."""

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.flows import committed
from tests.harness.connect_worker import ConnectWorker, write_worker_classes
from tests.harness.installation import Installation
from tests.harness.stock_connectors import plugin_path
from tests.harness.support import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

PATIENCE_S = 300.0
"""JVMs start beside other tests."""
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
TASKS = ("a-0", "a-1", "a-2", "a-3", "a-instance")


@pytest.fixture(scope="module")
def installation(shared: Installation) -> Installation:
    """Two stock workers, which run four tasks of one connector; all tests begin with these."""
    write_worker_classes(shared.bootstrap_servers, shared.directory)
    shared.operator()
    worker(shared)
    shared.connector(
        "alpha",
        connectorName="a",
        **{"class": "cooperator.stock.SequenceSource"},
        tasksMax=4,
        config={"topic": "numbers", "journal": shared.journal_path},
    )
    shared.runs(*TASKS, timeout_s=PATIENCE_S)
    shared.settled()
    shared.eventually(lambda: shared.get("connectors", "alpha")["status"]["taskSummary"] == "4/4")
    return shared


def stock() -> dict[str, Any]:
    return {
        "heapMb": 160,
        "jvmOptions": ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
        "pluginPath": [str(plugin_path())],
        "config": {
            "plugin.discovery": "service_load",
            "offset.storage.partitions": 1,
            "offset.flush.interval.ms": 1_000,
        },
    }


def worker(installation: Installation, **spec: Any) -> None:
    installation.worker(**{"replicas": 2, "runtime": "connect", "connect": stock(), **spec})


def incarnations(installation: Installation) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in installation.pods().items()}


def starts(installation: Installation) -> dict[str, int]:
    """Number of starts of each task, as the connector recorded them."""
    count: dict[str, int] = {}
    for run in installation.journal.runs():
        count[run.task] = count.get(run.task, 0) + 1
    return count


def test_a_worker_that_is_killed_gets_exactly_its_own_back(installation: Installation) -> None:
    before, count, pods = (
        installation.runs(*TASKS, timeout_s=PATIENCE_S),
        starts(installation),
        incarnations(installation),
    )

    installation.kubelet.crash("lake-1")

    eventually(lambda: incarnations(installation).get("lake-1", pods["lake-1"]) != pods["lake-1"], PATIENCE_S)
    own = {task for task, at in before.items() if at == "lake-1"}
    eventually(
        lambda: all(starts(installation)[task] > count[task] for task in own), PATIENCE_S, "its tasks start"
    )
    assert installation.runs(*TASKS) == before
    others = set(TASKS) - own
    assert {task: starts(installation)[task] for task in others} == {task: count[task] for task in others}
    assert incarnations(installation)["lake-0"] == pods["lake-0"]


def stops(installation: Installation, member: str, incarnation: str) -> set[str]:
    """Tasks that this incarnation of a member has stopped in order."""
    runs = installation.journal.runs()
    return {
        run.task
        for run in runs
        if (run.member, run.incarnation) == (member, incarnation) and run.end_ms is not None
    }


@pytest.mark.long("tests/controller/test_connect_pods.py::test_a_pod_waits_until_its_worker_owns_nothing")
def test_a_pod_that_is_deleted_hands_over_before_its_worker_is_told_to_end(
    installation: Installation,
) -> None:
    before, pods = installation.runs(*TASKS, timeout_s=PATIENCE_S), incarnations(installation)
    own = {task for task, at in before.items() if at == "lake-1"}

    installation.delete_pod("lake-1")

    eventually(
        lambda: own <= stops(installation, "lake-1", pods["lake-1"]), PATIENCE_S, "it has let go of all"
    )
    assert installation.kubelet.container("lake-1").uid == pods["lake-1"], "and is not told to end before"
    eventually(lambda: incarnations(installation).get("lake-1", pods["lake-1"]) != pods["lake-1"], PATIENCE_S)
    eventually(
        lambda: "lake-1" in installation.runs(*TASKS).values(), PATIENCE_S, "the next one takes its part"
    )
    assert incarnations(installation)["lake-0"] == pods["lake-0"]


def test_a_roll_that_holds_touches_no_other_and_gives_each_its_own_back(installation: Installation) -> None:
    before, pods = installation.runs(*TASKS, timeout_s=PATIENCE_S), incarnations(installation)

    worker(installation, version="3.9.1")

    eventually(
        lambda: (
            incarnations(installation).keys() == pods.keys()
            and not incarnations(installation).items() & pods.items()
        ),
        600,
    )
    assert installation.runs(*TASKS, timeout_s=PATIENCE_S) == before
    assert {(run.task, run.member) for run in installation.journal.runs()} >= set(before.items())


def test_scaled_down_the_work_of_who_leaves_moves_first(installation: Installation) -> None:
    before, pods = installation.runs(*TASKS, timeout_s=PATIENCE_S), incarnations(installation)
    count = starts(installation)
    own = {task for task, at in before.items() if at == "lake-1"}

    worker(installation, version="3.9.1", replicas=1)

    eventually(lambda: incarnations(installation) == {"lake-0": pods["lake-0"]}, PATIENCE_S)
    assert own <= stops(installation, "lake-1", pods["lake-1"]), "stopped in order, not cut off"
    assert set(installation.runs(*TASKS, timeout_s=PATIENCE_S).values()) == {"lake-0"}
    assert {task: starts(installation)[task] - count[task] for task in TASKS} == {
        task: int(task in own) for task in TASKS
    }


def test_an_orphaned_group_goes_on_without_its_worker(installation: Installation) -> None:
    before, pods, count = (
        installation.runs(*TASKS, timeout_s=PATIENCE_S),
        incarnations(installation),
        starts(installation),
    )
    worker(installation, version="3.9.1", replicas=1, deletionPolicy="Orphan")

    installation.delete("workers", "lake")

    eventually(lambda: installation.is_gone("workers", "lake"), 60)
    address = installation.kubelet.container("lake-0").address

    items = {name.replace("-instance", "") for name in TASKS}
    eventually(lambda: running_at(address) == items, PATIENCE_S, "the worker answers for itself")
    assert incarnations(installation) == pods
    assert "ownerReferences" not in installation.pods()["lake-0"]["metadata"]
    assert (installation.runs(*TASKS), starts(installation)) == (before, count), "no task has stopped"


def test_a_group_that_others_run_is_adopted_with_its_connectors(
    installation: Installation, tmp_path: Path
) -> None:
    with somebody_elses(installation, "foreign", tmp_path) as foreign:
        before = eventually(lambda: both(foreign.running()), PATIENCE_S)

        installation.worker(
            "bay", replicas=0, runtime="connect", groupId=foreign.group_id, groupPolicy="Adopt"
        )

        def adopted() -> bool:
            status = installation.get("workers", "bay").get("status", {})
            members = [(m["identity"], m["phase"]) for m in status.get("members", ())]
            assert members == [(foreign.name, "Adopted")]
            assert status.get("adopted") == [{"name": "lines", "state": "STARTED", "tasks": 1}]
            return installation.condition("workers", "bay", "MembersReady")["status"] == "True"

        installation.eventually(adopted, PATIENCE_S)
        assert foreign.running() == before
        installation.delete("workers", "bay")
        installation.eventually(lambda: installation.is_gone("workers", "bay"), 120)

        # Given back, its connector runs on, in the same place.
        with (tmp_path / "lines").open("a") as file:
            file.write("two\n")
        written = f"{foreign.group_id}-lines"
        eventually(
            lambda: committed(installation.bootstrap_servers, written) == Counter(["one", "two"]),
            PATIENCE_S,
            "each line, once",
        )
        assert foreign.running() == before
        assert foreign.ask("connectors") == ["lines"], "foreign objects are not deleted"


@pytest.mark.long(
    "tests/controller/test_connect.py::test_a_group_that_others_run_is_adopted_with_its_connectors"
)
def test_workers_of_others_give_way_to_ours(installation: Installation, tmp_path: Path) -> None:
    """The steps of docs/stock-connect.md, under «To workers of the operator»."""
    with somebody_elses(installation, "leaving", tmp_path) as foreign:
        eventually(lambda: both(foreign.running()), PATIENCE_S)
        spec = {
            "runtime": "connect",
            "groupId": foreign.group_id,
            "groupPolicy": "Adopt",
            "fencing": "BestEffort",
            "scheduledRebalanceMaxDelayMs": 1_000,
        }
        installation.worker("cove", replicas=0, **spec)
        installation.eventually(lambda: phases(installation, "cove") == {foreign.name: "Adopted"}, PATIENCE_S)

        installation.worker("cove", replicas=1, connect=stock(), **spec)
        both_are = {foreign.name: "Adopted", "cove-0": "Running"}
        installation.eventually(lambda: phases(installation, "cove") == both_are, PATIENCE_S)
        foreign.terminate()

        ours = installation.kubelet.container("cove-0").address
        eventually(lambda: running_at(ours, "lines") == {"lines", "lines-0"}, PATIENCE_S, "ours has all")
        installation.eventually(lambda: phases(installation, "cove") == {"cove-0": "Running"}, PATIENCE_S)
        adopted = installation.get("workers", "cove")["status"]["adopted"]
        assert adopted == [{"name": "lines", "state": "STARTED", "tasks": 1}]


@contextmanager
def somebody_elses(installation: Installation, name: str, folder: Path) -> Iterator[ConnectWorker]:
    """A cluster of one worker that no operator has started, with a connector ``lines`` made by REST."""
    foreign = ConnectWorker(installation.bootstrap_servers, f"{name}-{installation.namespace}", folder)
    foreign.start()
    try:
        foreign.serves(PATIENCE_S)
        (folder / "lines").write_text("one\n")
        foreign.create("lines", folder / "lines")
        yield foreign
    finally:
        foreign.kill()


def phases(installation: Installation, name: str) -> dict[str, str]:
    """The addresses of a Worker's members."""
    members = installation.get("workers", name).get("status", {}).get("members", ())
    return {member["identity"]: member["phase"] for member in members}


def both(running: dict[str, str]) -> dict[str, str]:
    """The connector and its task."""
    assert len(running) == 2, running
    return running


def running_at(address: str, connector: str = "a") -> set[str]:
    """Items of a connector that run, by the word of a worker's own REST API."""
    try:
        with DIRECT.open(f"http://{address}:8083/connectors?expand=status", timeout=10) as answer:
            found = json.load(answer)
    except OSError as error:
        raise AssertionError(str(error)) from None
    status = found[connector]["status"]
    tasks = {f"{connector}-{task['id']}" for task in status["tasks"] if task["state"] == "RUNNING"}
    return tasks | ({connector} if status["connector"]["state"] == "RUNNING" else set())
