"""A Worker and its Connectors on a real API server: applied, running, changed, gone."""

import pytest

from controller_scene import Scene

pytestmark = pytest.mark.real

ALL = ("a-0", "a-1", "a-2")


def test_what_is_applied_runs_and_says_so(scene: Scene) -> None:
    scene.operator()
    scene.worker(replicas=3)
    scene.connector("a", tasksMax=3)
    scene.runs(*ALL)
    scene.settled()
    running = scene.runs(*ALL)
    assert set(running.values()) == {"lake-0", "lake-1", "lake-2"}

    def is_said() -> bool:
        status = scene.get("workers", "lake")["status"]
        assert (status["replicas"], status["readyReplicas"]) == (3, 3)
        assert status["tasks"] == {"desired": 3, "running": 3, "held": 0, "failed": 0}
        connector = scene.get("connectors", "a")["status"]
        assert connector["state"] == "RUNNING"
        tasks = (entry for entry in connector["taskStatuses"] if entry["id"] >= 0)
        said = {f"a-{entry['id']}": entry["member"] for entry in tasks}
        assert said == running
        return True

    scene.eventually(is_said)


def test_members_are_pods_that_the_worker_owns(scene: Scene) -> None:
    scene.operator()
    scene.worker(replicas=2)
    pods = scene.eventually(lambda: (found := scene.pods()) and len(found) == 2 and found)
    worker = scene.get("workers", "lake")
    for name, pod in pods.items():
        assert name in ("lake-0", "lake-1")
        [owner] = pod["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == (
            "Worker",
            worker["metadata"]["uid"],
            True,
        )
        assert pod["spec"]["terminationGracePeriodSeconds"] == 90
        assert pod["spec"]["automountServiceAccountToken"] is False
    assert scene.cluster.api.exists(f"/api/v1/namespaces/{scene.namespace}/services/lake")
    assert scene.cluster.api.exists(f"/apis/policy/v1/namespaces/{scene.namespace}/poddisruptionbudgets/lake")


def test_a_deleted_connector_has_stopped_when_it_is_gone(scene: Scene) -> None:
    scene.operator()
    scene.worker(replicas=2)
    scene.connector("a", tasksMax=2)
    scene.connector("b", tasksMax=2)
    scene.runs("a-0", "a-1", "b-0", "b-1")
    scene.settled()
    before = scene.runs("a-0", "a-1", "b-0", "b-1")
    scene.delete("connectors", "a")
    scene.eventually(lambda: scene.is_gone("connectors", "a"))
    assert set(scene.journal.running()) == {"b-0", "b-1"}
    assert {task: before[task] for task in ("b-0", "b-1")} == scene.runs("b-0", "b-1")


def test_a_deleted_worker_leaves_nothing_running(scene: Scene) -> None:
    scene.operator()
    scene.worker(replicas=2)
    scene.connector("a", tasksMax=2)
    scene.runs("a-0", "a-1")
    scene.settled()
    scene.delete("workers", "lake")
    scene.eventually(lambda: scene.is_gone("workers", "lake"))
    assert scene.journal.running() == {}
    scene.eventually(lambda: not scene.pods())
    found = scene.eventually(
        lambda: (c := scene.condition("connectors", "a", "WorkerFound")) and c["status"] == "False" and c
    )
    assert "lake" in found["message"]


def test_what_cannot_be_read_is_said_and_what_ran_goes_on(scene: Scene) -> None:
    scene.operator()
    scene.worker(replicas=1)
    scene.connector("a", tasksMax=1)
    scene.runs("a-0")
    scene.settled()
    before = scene.runs("a-0")
    scene.connector("a", tasksMax=1, config={"a": {"nested": 1}})
    refused = scene.eventually(
        lambda: (c := scene.condition("connectors", "a", "Stalled")) and c["status"] == "True" and c
    )
    assert "spec.config.a" in refused["message"]
    assert scene.runs("a-0") == before
    scene.connector("a", tasksMax=2)
    scene.runs("a-0", "a-1")
    scene.eventually(lambda: scene.condition("connectors", "a", "Stalled")["status"] == "False")
