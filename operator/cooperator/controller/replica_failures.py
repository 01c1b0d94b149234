"""Failures of a Worker's pods: pods that cannot be created, scheduled or started. Pure.

The condition is a Deployment's: ``ReplicaFailure``, True while there is such a failure, absent otherwise.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from cooperator.controller.observe import Body
from cooperator.crd import Condition, ConditionStatus
from cooperator.crd.conditions import REPLICA_FAILURE

_TEXT_LIMIT: Final = 500
_STARTS: Final[Mapping[str, str]] = {
    "ErrImagePull": "ImagePullBackOff",
    "ImagePullBackOff": "ImagePullBackOff",
    "InvalidImageName": "InvalidImageName",
    "ErrImageNeverPull": "ErrImageNeverPull",
    "CreateContainerConfigError": "CreateContainerConfigError",
    "CreateContainerError": "CreateContainerError",
    "RunContainerError": "RunContainerError",
}
"""Maps the kubelet's reasons for containers that do not start to the reasons that are shown. The kubelet
alternates between two reasons for an image that cannot be pulled.
"""
_REMEDIES: Final[Mapping[str, str]] = {
    "FailedCreate": "raise the quota, or fix what the API server rejects",
    "InvalidPod": "correct spec.template",
    "Unschedulable": "see the pod's requests, node selectors, tolerations and volume claims",
    "ImagePullBackOff": "check the image's name, its registry and imagePullSecrets",
}


@dataclass(frozen=True, slots=True)
class ReplicaFailure:
    """``reason``: in CamelCase, the cluster's own if there is one. ``text``: the cluster's message."""

    pod: str
    reason: str
    text: str


def refused_create(pod: str, status: int, text: str) -> ReplicaFailure | None:
    """Returns the failure of a pod that the API server answered with ``status`` (HTTP); None if that says
    nothing about the pod."""
    if status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY):
        return ReplicaFailure(pod, "InvalidPod", text)
    return ReplicaFailure(pod, "FailedCreate", text) if status == HTTPStatus.FORBIDDEN else None


def failure_of(body: Body) -> ReplicaFailure | None:
    """Returns why a pod cannot be scheduled or one of its containers cannot start; None otherwise."""
    name, status = body["metadata"]["name"], body.get("status") or {}
    if body["metadata"].get("deletionTimestamp") is not None:
        return None
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("PodScheduled", "False"):
            return ReplicaFailure(
                name, condition.get("reason") or "Unschedulable", condition.get("message", "")
            )
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if (reason := _STARTS.get(waiting.get("reason", ""))) is not None:
            text = waiting.get("message") or f"container {container.get('name', '')} does not start"
            return ReplicaFailure(name, reason, text)
    return None


def replica_failure(failures: Iterable[ReplicaFailure], generation: int | None) -> Condition | None:
    """Returns the condition of a Worker; None without failures."""
    found = sorted(failures, key=lambda each: (each.reason not in ("InvalidPod", "FailedCreate"), each.pod))
    if not found:
        return None
    first, others = found[0], len(found) - 1
    text = first.text if len(first.text) <= _TEXT_LIMIT else f"{first.text[:_TEXT_LIMIT]}…"
    remedy = _REMEDIES.get(first.reason, "see the pod's events")
    more = f" (and {others} more of its pods)" if others else ""
    return Condition(
        type=REPLICA_FAILURE,
        status=ConditionStatus.TRUE,
        reason=first.reason,
        message=f"pod {first.pod}{more}: {text}; {remedy}",
        observed_generation=generation,
    )
