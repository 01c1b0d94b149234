"""Pods that are evicted, fail, or find no node; claims that not every node can mount."""

import time

import pytest

from controller_scene import SIX, Scene, started
from tests.kubernetes.api import ApiError

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def uids(scene: Scene) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in scene.pods().items()}


def evict(scene: Scene, pod: str) -> str:
    """Ask the API server, as ``kubectl drain`` does: ``evicted``, or why not."""
    path = f"/api/v1/namespaces/{scene.namespace}/pods/{pod}/eviction"
    metadata = {"name": pod, "namespace": scene.namespace}
    try:
        scene.cluster.api.post(path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})
    except ApiError as error:
        if error.status != 429:
            raise
        return error.message
    return "evicted"


def healthy(scene: Scene) -> int:
    """How many members the disruption budget counts as ready. Its controller learns of new kinds of owners
    every half a minute, and waits for minutes after a few failures, unless somebody touches the budget."""
    path = f"/apis/policy/v1/namespaces/{scene.namespace}/poddisruptionbudgets/lake"
    touched = {"metadata": {"annotations": {"touched": str(time.monotonic_ns())}}}
    counted: int = scene.cluster.api.patch(path, touched).get("status", {}).get("currentHealthy", 0)
    return counted


def test_evictions_wait_for_each_other_and_tasks_move_first(scene: Scene) -> None:
    """Two nodes that are drained at once, as far as a budget knows."""
    before = started(scene)
    old = uids(scene)
    scene.eventually(lambda: healthy(scene) == 3, 120, "the budget knows that all are ready")
    assert evict(scene, "lake-2") == "evicted"
    refused = evict(scene, "lake-1")
    assert "disruption budget" in refused
    assert set(scene.journal.running()) <= set(SIX)
    scene.eventually(lambda: evict(scene, "lake-1") == "evicted", 120, "the group is calm again")
    assert uids(scene)["lake-2"] != old["lake-2"], "the first one was back by then"
    at_eviction = scene.journal.running()
    assert set(at_eviction) == set(SIX), "and everything ran"
    assert "lake-2" in at_eviction.values()
    scene.eventually(lambda: uids(scene).get("lake-1", old["lake-1"]) != old["lake-1"], 90)
    scene.eventually(lambda: "lake-1" in scene.runs(*SIX).values(), 90)
    for run in scene.journal.runs():
        if run.member in ("lake-1", "lake-2") and run.end_ms is None:
            assert run.incarnation not in scene.kubelet.ended, "what left had been stopped, not cut off"
    stayed = [task for task, at in before.items() if at == "lake-0"]
    for task in stayed:
        assert len([r for r in scene.journal.runs() if r.task == task and r.member == "lake-0"]) == 1


def test_a_pod_that_its_node_has_thrown_out_is_replaced_and_does_not_pile_up(scene: Scene) -> None:
    before = started(scene)
    old = uids(scene)
    own = {task for task, at in before.items() if at == "lake-1"}
    scene.kubelet.evict("lake-1")
    scene.eventually(lambda: uids(scene).get("lake-1", old["lake-1"]) != old["lake-1"], 60)
    assert scene.runs(*SIX) == before, "its successor is given what it had"
    assert set(scene.pods()) == {"lake-0", "lake-1", "lake-2"}
    others = set(SIX) - own
    assert {r.task for r in scene.journal.runs() if r.task in own} == own
    for task in others:
        assert len({r.start_ms for r in scene.journal.runs() if r.task == task}) == 1

    # Again and again: the first time is forgiven, the next one is made after a pause.
    second = uids(scene)["lake-1"]
    thrown_out = time.monotonic()
    scene.kubelet.evict("lake-1")
    scene.eventually(lambda: scene.condition("workers", "lake", "MembersReady")["reason"] == "CrashLoop", 9)
    scene.eventually(lambda: uids(scene).get("lake-1", second) != second, 60)
    assert time.monotonic() - thrown_out >= 10, "the pause before it is made again"
    scene.runs(*SIX)
    scene.eventually(lambda: scene.condition("workers", "lake", "MembersReady")["status"] == "True", 30)


def test_a_pod_that_finds_no_node_is_waited_for_as_long_as_the_hold_and_stops_the_roll(scene: Scene) -> None:
    before = started(scene, scheduledRebalanceMaxDelayMs=15_000)
    old = uids(scene)
    scene.kubelet.takes = lambda pod: False
    scene.worker(replicas=3, restartNonce="again", scheduledRebalanceMaxDelayMs=15_000)
    began = time.monotonic()
    lost = {task for task, at in before.items() if at == "lake-2"}
    assert set(scene.held(lost).values()) == {"lake-2"}
    after = scene.runs(*SIX)
    assert time.monotonic() - began >= 15
    assert {task: at for task, at in after.items() if task not in lost} == {
        task: at for task, at in before.items() if task not in lost
    }
    now = uids(scene)
    assert now["lake-2"] != old["lake-2"]
    assert (now["lake-0"], now["lake-1"]) == (old["lake-0"], old["lake-1"]), "the roll does not go on"
    scene.kubelet.takes = lambda pod: True
    scene.eventually(lambda: not set(uids(scene).values()) & set(old.values()), 150, "now it does")
    scene.eventually(lambda: set(scene.runs(*SIX).values()) == {"lake-0", "lake-1", "lake-2"}, 60)


def claim(scene: Scene, mode: str) -> None:
    scene.cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": mode.lower(), "namespace": scene.namespace},
            "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}},
        }
    )


def test_many_members_do_not_share_a_volume_that_one_node_mounts(scene: Scene) -> None:
    claim(scene, "ReadWriteOnce")
    volume = {"checkpointVolume": {"claimName": "readwriteonce"}}
    scene.operator()
    scene.worker(replicas=3, **volume)
    said = scene.eventually(
        lambda: (c := scene.condition("workers", "lake", "Stalled"))["status"] == "True" and c
    )
    assert "ReadWriteMany" in said["message"]
    assert "spec.replicas: 1" in said["message"]
    scene.connector("a", tasksMax=1)
    scene.runs("a-0")
    assert set(scene.pods()) == {"lake-0"}, "one member is safe"
    scene.worker(replicas=1, **volume)
    scene.settled()
    assert scene.condition("workers", "lake", "Stalled")["status"] == "False"
