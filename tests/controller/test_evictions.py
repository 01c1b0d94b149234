"""Pods that are evicted, fail, or find no node; claims that not every node can mount."""

import time

import pytest

from tests.harness.installation import SIX, Installation, started
from tests.harness.support import slow
from tests.kubernetes.api import ApiError

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def uids(installation: Installation) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in installation.pods().items()}


def evict(installation: Installation, pod: str) -> str:
    """Ask the API server, as ``kubectl drain`` does: ``evicted``, or why not."""
    path = f"/api/v1/namespaces/{installation.namespace}/pods/{pod}/eviction"
    metadata = {"name": pod, "namespace": installation.namespace}
    try:
        installation.cluster.api.post(
            path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        )
    except ApiError as error:
        if error.status != 429:
            raise
        return error.message
    return "evicted"


def healthy(installation: Installation) -> int:
    """Returns how many members the disruption budget counts as ready. Its controller learns of new kinds of
    owners every half a minute, and waits for minutes after a few failures, unless somebody touches the
    budget."""
    path = f"/apis/policy/v1/namespaces/{installation.namespace}/poddisruptionbudgets/lake"
    touched = {"metadata": {"annotations": {"touched": str(time.monotonic_ns())}}}
    counted: int = installation.cluster.api.patch(path, touched).get("status", {}).get("currentHealthy", 0)
    return counted


def test_evictions_wait_for_each_other_and_tasks_move_first(installation: Installation) -> None:
    """Two nodes that are drained at once, as far as a budget knows."""
    before = started(installation)
    old = uids(installation)
    installation.eventually(lambda: healthy(installation) == 3, 120, "the budget knows that all are ready")
    assert evict(installation, "lake-2") == "evicted"
    refused = evict(installation, "lake-1")
    assert "disruption budget" in refused
    assert set(installation.journal.running()) <= set(SIX)
    installation.eventually(
        lambda: evict(installation, "lake-1") == "evicted", 120, "the group is calm again"
    )
    assert uids(installation)["lake-2"] != old["lake-2"], "the first one was back by then"
    at_eviction = installation.journal.running()
    assert set(at_eviction) == set(SIX), "and everything ran"
    assert "lake-2" in at_eviction.values()
    installation.eventually(lambda: uids(installation).get("lake-1", old["lake-1"]) != old["lake-1"], 90)
    installation.eventually(lambda: "lake-1" in installation.runs(*SIX).values(), 90)
    for run in installation.journal.runs():
        if run.member in ("lake-1", "lake-2") and run.end_ms is None:
            assert run.incarnation not in installation.kubelet.ended, (
                "what left had been stopped, not cut off"
            )
    stayed = [task for task, at in before.items() if at == "lake-0"]
    for task in stayed:
        assert len([r for r in installation.journal.runs() if r.task == task and r.member == "lake-0"]) == 1


def test_a_pod_that_its_node_has_thrown_out_is_replaced_and_does_not_pile_up(
    installation: Installation,
) -> None:
    before = started(installation)
    old = uids(installation)
    own = {task for task, at in before.items() if at == "lake-1"}
    installation.kubelet.evict("lake-1")
    installation.eventually(lambda: uids(installation).get("lake-1", old["lake-1"]) != old["lake-1"], 60)
    assert installation.runs(*SIX) == before, "its successor is given what it had"
    assert set(installation.pods()) == {"lake-0", "lake-1", "lake-2"}
    others = set(SIX) - own
    assert {r.task for r in installation.journal.runs() if r.task in own} == own
    for task in others:
        assert len({r.start_ms for r in installation.journal.runs() if r.task == task}) == 1

    # Again and again: the first time is forgiven, the next one is made after a pause.
    second = uids(installation)["lake-1"]
    thrown_out = time.monotonic()
    installation.kubelet.evict("lake-1")

    def is_made_again() -> bool:
        return uids(installation).get("lake-1", second) != second

    def is_crash_loop() -> bool:
        return installation.condition("workers", "lake", "MembersReady")["reason"] == "CrashLoop"

    installation.eventually(lambda: is_crash_loop() or is_made_again(), 60)
    assert not is_made_again(), "the reason is shown during the pause"
    installation.eventually(is_made_again, 60)
    assert time.monotonic() - thrown_out >= 10, "the pause before it is made again"
    installation.runs(*SIX)
    installation.eventually(
        lambda: installation.condition("workers", "lake", "MembersReady")["status"] == "True", 30
    )


@slow("env -u CI pytest tests/controller/test_evictions.py")
def test_a_pod_that_finds_no_node_is_waited_for_as_long_as_the_hold_and_stops_the_roll(
    installation: Installation,
) -> None:
    before = started(installation, scheduledRebalanceMaxDelayMs=15_000)
    old = uids(installation)
    installation.kubelet.takes = lambda pod: False
    installation.worker(replicas=3, restartNonce="again", scheduledRebalanceMaxDelayMs=15_000)
    began = time.monotonic()
    lost = {task for task, at in before.items() if at == "lake-2"}
    assert set(installation.held(lost).values()) == {"lake-2"}
    after = installation.runs(*SIX)
    assert time.monotonic() - began >= 15
    assert {task: at for task, at in after.items() if task not in lost} == {
        task: at for task, at in before.items() if task not in lost
    }
    now = uids(installation)
    assert now["lake-2"] != old["lake-2"]
    assert (now["lake-0"], now["lake-1"]) == (old["lake-0"], old["lake-1"]), "the roll does not go on"
    installation.kubelet.takes = lambda pod: True
    installation.eventually(
        lambda: not set(uids(installation).values()) & set(old.values()), 150, "now it does"
    )
    installation.eventually(
        lambda: set(installation.runs(*SIX).values()) == {"lake-0", "lake-1", "lake-2"}, 60
    )


def claim(installation: Installation, mode: str) -> None:
    installation.cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": mode.lower(), "namespace": installation.namespace},
            "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}},
        }
    )


def test_many_members_do_not_share_a_volume_that_one_node_mounts(installation: Installation) -> None:
    claim(installation, "ReadWriteOnce")
    volume = {"checkpointVolume": {"claimName": "readwriteonce"}}
    installation.operator()
    installation.worker(replicas=3, **volume)
    said = installation.eventually(
        lambda: (c := installation.condition("workers", "lake", "Stalled"))["status"] == "True" and c
    )
    assert "ReadWriteMany" in said["message"]
    assert "spec.replicas: 1" in said["message"]
    installation.connector("a", tasksMax=1)
    installation.runs("a-0")
    assert set(installation.pods()) == {"lake-0"}, "one member is safe"
    installation.worker(replicas=1, **volume)
    installation.settled()
    assert installation.condition("workers", "lake", "Stalled")["status"] == "False"
