"""What surrounds the operator fails: API server, rights, broker, namespace."""

import pytest

from controller_scene import Scene
from cooperator.local.broker import EmbeddedBroker
from support import at_a_desk

pytestmark = pytest.mark.real

TASKS = ("a-0", "a-1")


def started(scene: Scene, lease_s: int = 3, home: str | None = None) -> dict[str, str]:
    scene.operator(lease_s, home)
    scene.worker(replicas=2)
    scene.connector("a", tasksMax=2)
    scene.runs(*TASKS)
    scene.settled()
    return scene.runs(*TASKS)


def test_an_api_server_that_restarts_stops_no_task_and_is_listened_to_again(scene: Scene) -> None:
    before = started(scene, lease_s=60)
    scene.cluster.restart_api_server()
    scene.connector("b", tasksMax=1)
    running = scene.runs(*TASKS, "b-0")
    assert {task: running[task] for task in TASKS} == before
    assert len([run for run in scene.journal.runs() if run.task in TASKS]) == 6


def test_a_death_while_the_api_server_is_away_is_dealt_with_when_it_is_back(scene: Scene) -> None:
    before = started(scene, lease_s=60)
    scene.cluster.api_server.kill()
    scene.kubelet.crash("lake-1")
    scene.cluster.start_api_server()
    own = {task for task, at in before.items() if at == "lake-1"}
    scene.eventually(
        lambda: all(len([run for run in scene.journal.runs() if run.task == task]) > 3 for task in own), 120
    )
    assert scene.runs(*TASKS) == before


def test_rights_that_are_taken_are_missed_aloud_and_the_group_is_led_on(scene: Scene) -> None:
    before = started(scene)
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{scene.namespace}/roles/operator-{scene.namespace}"
    kept = scene.cluster.api.get(role)
    without_pods = [rule for rule in kept["rules"] if "pods" not in rule["resources"]]
    scene.cluster.api.patch(role, {"rules": without_pods})
    scene.worker(replicas=3)
    said = scene.eventually(
        lambda: (c := scene.condition("workers", "lake", "Ready")) and "pods" in c.get("message", "") and c
    )
    assert said["status"] == "False"
    assert scene.runs(*TASKS) == before
    scene.cluster.api.patch(role, {"rules": kept["rules"]})
    scene.eventually(lambda: set(scene.pods()) == {"lake-0", "lake-1", "lake-2"}, 90)


def test_what_changes_while_kafka_is_away_is_done_when_it_is_back(
    scene: Scene, broker: EmbeddedBroker
) -> None:
    before = started(scene)
    broker.stop()
    try:
        scene.connector("b", tasksMax=1)
        scene.eventually(
            lambda: scene.condition("workers", "lake", "KafkaReachable")["status"] == "False", 90
        )
        assert scene.runs(*TASKS) == before
    finally:
        broker.start()
    running = scene.runs(*TASKS, "b-0", timeout_s=180)
    assert {task: running[task] for task in TASKS} == before


@at_a_desk("env -u CI pytest tests/controller/test_faults.py")
def test_a_namespace_that_is_deleted_goes_whole(scene: Scene) -> None:
    scene.grant_everywhere("default")
    started(scene, home="default")
    scene.cluster.api.delete(f"/api/v1/namespaces/{scene.namespace}")
    scene.eventually(lambda: scene.is_gone("workers", "lake") and scene.is_gone("connectors", "a"), 120)
    scene.eventually(lambda: scene.pods() == {}, 120)
    assert scene.journal.running() == {}
