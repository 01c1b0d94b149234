"""Stock Connect workers under the operator: a real API server, real JVMs as pods; measured at the tasks."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from connect_worker import ConnectWorker, write_worker_classes
from controller_scene import Scene
from cooperator.local.broker import EmbeddedBroker
from stock_connectors import plugin_path
from support import at_a_desk, eventually
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fixtures import make_namespace

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

PATIENCE_S = 300.0
"""JVMs start beside other tests."""
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
TASKS = ("a-0", "a-1", "a-2", "a-3", "a-instance")


@pytest.fixture(scope="module")
def scene(
    prepared: ControlPlane, broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """Two stock workers, which run four tasks of one connector; all tests begin with these."""
    folder = tmp_path_factory.mktemp("stock")
    write_worker_classes(broker.bootstrap_servers, folder)
    scene = Scene(prepared, make_namespace(prepared, "stock"), broker.bootstrap_servers, folder)
    try:
        scene.operator()
        worker(scene)
        scene.connector(
            "a",
            **{"class": "cooperator.stock.SequenceSource"},
            tasksMax=4,
            config={"topic": "numbers", "journal": scene.journal_path},
        )
        scene.runs(*TASKS, timeout_s=PATIENCE_S)
        scene.settled()
        yield scene
    finally:
        scene.close()


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


def worker(scene: Scene, **spec: Any) -> None:
    scene.worker(**{"replicas": 2, "runtime": "connect", "connect": stock(), **spec})


def lives(scene: Scene) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in scene.pods().items()}


def starts(scene: Scene) -> dict[str, int]:
    """How often each task has been started, by the connector's own word."""
    count: dict[str, int] = {}
    for run in scene.journal.runs():
        count[run.task] = count.get(run.task, 0) + 1
    return count


def test_a_worker_that_is_killed_gets_exactly_its_own_back(scene: Scene) -> None:
    before, count, pods = scene.runs(*TASKS, timeout_s=PATIENCE_S), starts(scene), lives(scene)

    scene.kubelet.crash("lake-1")

    eventually(lambda: lives(scene).get("lake-1", pods["lake-1"]) != pods["lake-1"], PATIENCE_S)
    own = {task for task, at in before.items() if at == "lake-1"}
    eventually(lambda: all(starts(scene)[task] > count[task] for task in own), PATIENCE_S, "its tasks start")
    assert scene.runs(*TASKS) == before
    others = set(TASKS) - own
    assert {task: starts(scene)[task] for task in others} == {task: count[task] for task in others}
    assert lives(scene)["lake-0"] == pods["lake-0"]


def stops(scene: Scene, member: str, life: str) -> set[str]:
    """Tasks that this life of a member has stopped in order."""
    runs = scene.journal.runs()
    return {
        run.task for run in runs if (run.member, run.incarnation) == (member, life) and run.end_ms is not None
    }


def test_a_pod_that_is_deleted_hands_over_before_its_worker_is_told_to_end(scene: Scene) -> None:
    before, pods = scene.runs(*TASKS, timeout_s=PATIENCE_S), lives(scene)
    own = {task for task, at in before.items() if at == "lake-1"}

    scene.delete_pod("lake-1")

    eventually(lambda: own <= stops(scene, "lake-1", pods["lake-1"]), PATIENCE_S, "it has let go of all")
    assert scene.kubelet.container("lake-1").uid == pods["lake-1"], "and is not told to end before"
    eventually(lambda: lives(scene).get("lake-1", pods["lake-1"]) != pods["lake-1"], PATIENCE_S)
    eventually(lambda: "lake-1" in scene.runs(*TASKS).values(), PATIENCE_S, "its next life takes its part")
    assert lives(scene)["lake-0"] == pods["lake-0"]


def test_a_roll_that_holds_touches_no_other_and_gives_each_its_own_back(scene: Scene) -> None:
    before, pods = scene.runs(*TASKS, timeout_s=PATIENCE_S), lives(scene)

    worker(scene, version="3.9.1")

    eventually(lambda: lives(scene).keys() == pods.keys() and not lives(scene).items() & pods.items(), 600)
    assert scene.runs(*TASKS, timeout_s=PATIENCE_S) == before
    assert {(run.task, run.member) for run in scene.journal.runs()} >= set(before.items())


def test_scaled_down_the_work_of_who_leaves_moves_first(scene: Scene) -> None:
    before, pods = scene.runs(*TASKS, timeout_s=PATIENCE_S), lives(scene)
    count = starts(scene)
    own = {task for task, at in before.items() if at == "lake-1"}

    worker(scene, version="3.9.1", replicas=1)

    eventually(lambda: lives(scene) == {"lake-0": pods["lake-0"]}, PATIENCE_S)
    assert own <= stops(scene, "lake-1", pods["lake-1"]), "stopped in order, not cut off"
    assert set(scene.runs(*TASKS, timeout_s=PATIENCE_S).values()) == {"lake-0"}
    assert {task: starts(scene)[task] - count[task] for task in TASKS} == {
        task: int(task in own) for task in TASKS
    }


def test_an_orphaned_group_goes_on_without_its_worker(scene: Scene) -> None:
    before, pods, count = scene.runs(*TASKS, timeout_s=PATIENCE_S), lives(scene), starts(scene)
    worker(scene, version="3.9.1", replicas=1, deletionPolicy="Orphan")

    scene.delete("workers", "lake")

    eventually(lambda: scene.is_gone("workers", "lake"), 60)
    address = scene.kubelet.container("lake-0").address

    items = {name.replace("-instance", "") for name in TASKS}
    eventually(lambda: running_at(address) == items, PATIENCE_S, "the worker answers for itself")
    assert lives(scene) == pods
    assert "ownerReferences" not in scene.pods()["lake-0"]["metadata"]
    assert (scene.runs(*TASKS), starts(scene)) == (before, count), "no task has stopped"


def test_a_group_that_others_run_is_adopted_with_its_connectors(scene: Scene, tmp_path: Path) -> None:
    with somebody_elses(scene, "foreign", tmp_path) as foreign:
        before = eventually(lambda: both(foreign.running()), PATIENCE_S)

        scene.worker("bay", replicas=0, runtime="connect", groupId=foreign.group_id, groupPolicy="Adopt")

        def adopted() -> bool:
            status = scene.get("workers", "bay").get("status", {})
            members = [(m["identity"], m["phase"]) for m in status.get("members", ())]
            assert members == [(foreign.name, "Adopted")]
            assert status.get("adopted") == [{"name": "lines", "state": "STARTED", "tasks": 1}]
            return scene.condition("workers", "bay", "MembersReady")["status"] == "True"

        scene.eventually(adopted, PATIENCE_S)
        assert foreign.running() == before
        scene.delete("workers", "bay")
        scene.eventually(lambda: scene.is_gone("workers", "bay"), 120)
        assert foreign.ask("connectors") == ["lines"], "what is not ours is not deleted"


@at_a_desk("env -u CI pytest tests/controller/test_connect.py")
def test_workers_of_others_give_way_to_ours(scene: Scene, tmp_path: Path) -> None:
    """The steps of docs/stock-connect.md, under «To workers of the operator»."""
    with somebody_elses(scene, "leaving", tmp_path) as foreign:
        eventually(lambda: both(foreign.running()), PATIENCE_S)
        spec = {
            "runtime": "connect",
            "groupId": foreign.group_id,
            "groupPolicy": "Adopt",
            "fencing": "BestEffort",
            "scheduledRebalanceMaxDelayMs": 1_000,
        }
        scene.worker("cove", replicas=0, **spec)
        scene.eventually(lambda: phases(scene, "cove") == {foreign.name: "Adopted"}, PATIENCE_S)

        scene.worker("cove", replicas=1, connect=stock(), **spec)
        both_are = {foreign.name: "Adopted", "cove-0": "Running"}
        scene.eventually(lambda: phases(scene, "cove") == both_are, PATIENCE_S)
        foreign.terminate()

        ours = scene.kubelet.container("cove-0").address
        eventually(lambda: running_at(ours, "lines") == {"lines", "lines-0"}, PATIENCE_S, "ours has all")
        scene.eventually(lambda: phases(scene, "cove") == {"cove-0": "Running"}, PATIENCE_S)
        adopted = scene.get("workers", "cove")["status"]["adopted"]
        assert adopted == [{"name": "lines", "state": "STARTED", "tasks": 1}]


@contextmanager
def somebody_elses(scene: Scene, name: str, folder: Path) -> Iterator[ConnectWorker]:
    """A cluster of one worker that no operator has started, with a connector ``lines`` made by REST."""
    foreign = ConnectWorker(scene.bootstrap_servers, f"{name}-{scene.namespace}", folder)
    foreign.start()
    try:
        foreign.serves(PATIENCE_S)
        (folder / "lines").write_text("one\n")
        foreign.create("lines", folder / "lines")
        yield foreign
    finally:
        foreign.kill()


def phases(scene: Scene, name: str) -> dict[str, str]:
    """Of a Worker's members."""
    members = scene.get("workers", name).get("status", {}).get("members", ())
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
