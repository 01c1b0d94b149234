"""Pods that the cluster refuses are reported by a condition and an event of the Worker."""

from typing import Any

import pytest

from cooperator.controller.replica_failures import failure_of, refused_create, replica_failure
from cooperator.local.broker import EmbeddedBroker
from tests.harness.installation import Installation

pytestmark = pytest.mark.real

REGISTRY = "registry.invalid/members:1"


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"name": "member", "state": {"waiting": {"reason": reason, "message": message}}}


def body(name: str = "lake-0", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": status}


def says(installation: Installation, reason: str, *words: str) -> None:
    """Asserts the condition, Ready and exactly one event."""

    def seen() -> bool:
        failure = installation.condition("workers", "lake", "ReplicaFailure")
        ready = installation.condition("workers", "lake", "Ready")
        assert (failure["status"], failure.get("reason")) == ("True", reason), failure
        assert all(word in failure["message"] for word in words), failure["message"]
        assert (ready["status"], ready["reason"]) == ("False", reason)
        return True

    installation.eventually(seen, 60)
    path = f"/apis/events.k8s.io/v1/namespaces/{installation.namespace}/events"
    events = [each for each in installation.cluster.api.get(path)["items"] if each["reason"] == reason]
    assert [each["regarding"]["name"] for each in events] == ["lake"]


def test_a_quota_that_has_no_room_for_a_pod(installation: Installation) -> None:
    quotas = f"/api/v1/namespaces/{installation.namespace}/resourcequotas"
    installation.cluster.api.post(quotas, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}})
    installation.eventually(
        lambda: installation.cluster.api.get(f"{quotas}/few").get("status", {}).get("hard"), 30
    )
    installation.operator()
    installation.worker(replicas=2)
    says(installation, "FailedCreate", "lake-1", "exceeded quota: few", "raise the quota")
    assert installation.condition("workers", "lake", "Stalled")["status"] == "False", "it may pass"
    installation.cluster.api.patch(f"{quotas}/few", {"spec": {"hard": {"pods": "5"}}})
    installation.settled()
    assert installation.condition("workers", "lake", "ReplicaFailure")["status"] == "Missing"
    assert installation.condition("workers", "lake", "Ready")["status"] == "True"


def test_missing_prerequisites_of_a_pod_are_the_workers_condition(installation: Installation) -> None:
    installation.kubelet.takes = lambda pod: False
    installation.operator()
    installation.worker(replicas=1)
    installation.eventually(lambda: installation.pods().keys() == {"lake-0"})
    pod = f"/api/v1/namespaces/{installation.namespace}/pods/lake-0/status"
    unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    claims = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    installation.cluster.api.patch(pod, {"status": {"conditions": [{**unplaced, "message": claims}]}})
    says(installation, "Unschedulable", "lake-0", "unbound immediate PersistentVolumeClaims")
    placed = {"type": "PodScheduled", "status": "True"}
    for reason in ("ErrImagePull", "ImagePullBackOff", "ErrImagePull"):
        text = f"{reason}: {REGISTRY}: not found"
        status = {"conditions": [placed], "containerStatuses": [waiting(reason, text)]}
        installation.cluster.api.patch(pod, {"status": status})
        installation.eventually(
            lambda text=text: text in installation.condition("workers", "lake", "ReplicaFailure")["message"]
        )
    says(installation, "ImagePullBackOff", REGISTRY, "imagePullSecrets")


def test_a_deletion_says_what_it_waits_for(installation: Installation, broker: EmbeddedBroker) -> None:
    installation.operator()
    installation.worker(replicas=1)
    installation.connector("a", tasksMax=1)
    installation.runs("a-0")
    installation.settled()
    broker.stop()
    try:
        installation.eventually(
            lambda: installation.condition("workers", "lake", "KafkaReachable")["status"] == "False", 90
        )
        installation.delete("connectors", "a")

        def waits() -> bool:
            ready = installation.condition("connectors", "a", "Ready")
            assert (ready["status"], ready["reason"]) == ("False", "Deleting"), ready
            assert "its tasks run on until its group's leader can stop them" in ready["message"]
            return True

        installation.eventually(waits)
        assert installation.journal.running().keys() == {"a-0"}
    finally:
        broker.start()
    installation.eventually(lambda: installation.is_gone("connectors", "a"), 120)
    installation.kubelet.frozen.set()
    installation.delete("workers", "lake")

    def hands_over() -> bool:
        ready = installation.condition("workers", "lake", "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "Deleting"), ready
        assert ready["message"] == "waits for lake-0 to hand over and end"
        return True

    installation.eventually(hands_over)
    installation.kubelet.frozen.clear()
    installation.eventually(lambda: installation.is_gone("workers", "lake"), 120)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({}, None),
        ({"conditions": [{"type": "PodScheduled", "status": "True"}]}, None),
        ({"containerStatuses": [waiting("ContainerCreating"), waiting("CrashLoopBackOff")]}, None),
        (
            {"containerStatuses": [waiting("CreateContainerConfigError", "no Secret x")]},
            "CreateContainerConfigError",
        ),
        ({"initContainerStatuses": [waiting("InvalidImageName")]}, "InvalidImageName"),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
            "SchedulingGated",
        ),
    ],
)
def test_only_what_the_cluster_refuses_is_a_failure(status: dict[str, Any], reason: str | None) -> None:
    found = failure_of(body(**status))
    assert (found.reason if found else None) == reason
    deleted = body(**status)
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert failure_of(deleted) is None


def test_the_message_is_bounded_and_names_what_to_do_about_it() -> None:
    invalid = refused_create("lake-1", 422, "x" * 5_000)
    away = failure_of(body(conditions=[{"type": "PodScheduled", "status": "False", "message": "no node"}]))
    assert invalid is not None
    assert away is not None
    condition = replica_failure([away, invalid], 3)
    assert condition is not None
    assert condition.reason == "InvalidPod"
    assert condition.message.startswith("pod lake-1 (and 1 more of its pods): xxx")
    assert condition.message.endswith("…; correct spec.template")
    assert len(condition.message) < 700
    assert refused_create("lake-1", 500, "etcd is away") is None
