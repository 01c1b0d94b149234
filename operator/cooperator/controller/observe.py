"""Pods and nodes of the API in the pool's terms. Pure.

A pod's incarnation in the pool's terms is ``uid.restarts`` of the member's container. Only the kubelet's
report that this container has terminated proves an end: a deleted object, or a pod that the control plane
calls Failed while its container was last seen running, proves nothing.
"""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cooperator.controller.interruptions import SHORTEST_NOTICE_MS, notice_of
from cooperator.controller.names import CONTAINER, LEAVING, REVISION_LABEL
from cooperator.crd.projection import milliseconds as milliseconds
from cooperator.model import PodIncarnation, ended_by
from cooperator.model.thread_names import frozen_by
from cooperator.pool import End, EndCause, MarkReason, Node, Phase, Pod

Body = Mapping[str, Any]
"""An object as the API server shows it."""

_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_MAY_GO_TAINTS = frozenset(
    ("DeletionCandidateOfClusterAutoscaler", "aws-node-termination-handler/rebalance-recommendation")
)
"""Taints that say a node may go, not that it will."""
_LOST: Final = frozenset(("ContainerStatusUnknown", "Unknown"))
_LAST_SIGNAL: Final = 64


@dataclass(frozen=True, slots=True)
class Container:
    """The member's container as the kubelet reported it last."""

    restarts: int = 0
    running: bool = False
    waiting: bool = False
    started_ms: int | None = None
    """By the clock of the node, for people; so is ``finished_ms``."""
    finished_ms: int | None = None
    """When the last ended incarnation finished; None if none has."""
    last_words: str = ""
    """The termination message of that incarnation."""
    exit_code: int | None = None


def container(body: Body) -> Container | None:
    """Return None before the kubelet has reported the container."""
    statuses = body.get("status", {}).get("containerStatuses") or ()
    status = next((s for s in statuses if s.get("name") == CONTAINER), None)
    if status is None:
        return None
    state, last = status.get("state") or {}, (status.get("lastState") or {}).get("terminated")
    running, terminated = state.get("running"), state.get("terminated") or last or {}
    began = (running or terminated).get("startedAt")
    return Container(
        restarts=int(status.get("restartCount", 0)),
        running=running is not None,
        waiting="waiting" in state or not state,
        started_ms=milliseconds(began) if began else None,
        finished_ms=milliseconds(terminated["finishedAt"]) if terminated.get("finishedAt") else None,
        last_words=str(terminated.get("message") or ""),
        exit_code=terminated.get("exitCode"),
    )


def pod(body: Body) -> Pod:
    """A pod of the pool in its newest incarnation."""
    metadata = body["metadata"]
    seen = container(body)
    return Pod(
        identity=metadata["name"],
        uid=metadata["uid"],
        incarnation=incarnation(body),
        phase=phase(body),
        revision=(metadata.get("labels") or {}).get(REVISION_LABEL, ""),
        restarts=seen.restarts if seen is not None else 0,
        mark=mark(body),
        node=body.get("spec", {}).get("nodeName") or "",
        self_restarting=_is_restarted(body),
        end=end(body),
        frozen_by=frozen_by(seen.last_words) if seen else "",
        address=body.get("status", {}).get("podIP") or "",
    )


def end(body: Body) -> End | None:
    """The end of the pod's last incarnation that has ended, in the pool's names.

    A deletion (by a person, a drain, an eviction, a roll) requests it. A reason in the pod's own status
    (Evicted, NodeShutdown, …) is the node's. A probe that fails ends in SIGKILL if the process hangs.
    """
    status = body.get("status", {})
    each = next((s for s in status.get("containerStatuses") or () if s.get("name") == CONTAINER), None)
    if each is None:
        return None
    restarts, state = int(each.get("restartCount", 0)), each.get("state") or {}
    terminated = state.get("terminated")
    if terminated is None:
        terminated = (each.get("lastState") or {}).get("terminated") or {}
        restarts -= 1 if "running" in state else 0
    if not terminated:
        return None
    return End(f"{body['metadata']['uid']}.{restarts}", _cause(body, terminated))


def _cause(body: Body, terminated: Mapping[str, Any]) -> EndCause:
    reason, code = terminated.get("reason"), int(terminated.get("exitCode") or 0)
    number = int(terminated.get("signal") or code - 128)
    if body["metadata"].get("deletionTimestamp") is not None:
        return EndCause.REQUESTED
    if body.get("status", {}).get("reason"):
        return EndCause.EVICTED
    # SIGTERM asks for an end, whoever has sent it.
    by_signal = 0 < number <= _LAST_SIGNAL and number != signal.SIGTERM
    is_killed = reason not in _LOST and (reason == "OOMKilled" or by_signal)
    return EndCause.KILLED if is_killed else EndCause.EXITED


def incarnation(body: Body) -> str:
    """The pool's name of a pod's newest incarnation."""
    seen = container(body)
    return f"{body['metadata']['uid']}.{seen.restarts if seen else 0}"


def phase(body: Body) -> Phase:
    seen = container(body)
    over = body.get("status", {}).get("phase") in ("Failed", "Succeeded")
    deleted = body["metadata"].get("deletionTimestamp") is not None
    if seen is not None and seen.running:
        # Garbage collection sets Failed on pods of unreachable nodes while their containers may still run.
        return Phase.TERMINATING if deleted or over else Phase.RUNNING
    if over or (seen is not None and seen.finished_ms is not None):
        return Phase.ENDED
    return Phase.TERMINATING if deleted else Phase.PENDING


def _is_restarted(body: Body) -> bool:
    if body["metadata"].get("deletionTimestamp") is not None:
        return False
    return body.get("status", {}).get("phase") not in ("Failed", "Succeeded")


def mark(body: Body) -> MarkReason | None:
    reason = (body["metadata"].get("annotations") or {}).get(LEAVING, "")
    return MarkReason(reason) if reason in frozenset(MarkReason) else None


def has_ended(incarnation: PodIncarnation, body: Body) -> bool:
    """Whether the kubelet's report of this pod proves that its ``incarnation`` has ended.

    It does if the termination message of a container that has ended names it. Nothing else proves it: the
    times of a report are those of the node's clock, which may have been set back since.
    """
    seen = container(body)
    if incarnation.pod_uid != body["metadata"]["uid"] or seen is None or seen.finished_ms is None:
        return False
    return incarnation in ended_by(seen.last_words)


def node(body: Body, zone_label: str = "") -> Node:
    """A machine in the pool's terms; its zone is the value of ``zone_label``."""
    spec = body.get("spec", {})
    keys = {taint.get("key", "") for taint in spec.get("taints") or ()}
    conditions = body.get("status", {}).get("conditions") or ()
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    notice = notice_of(body)
    return Node(
        ready=ready,
        cordoned=bool(spec.get("unschedulable")) or bool(keys & _MAY_GO_TAINTS),
        leaving=notice is not None,
        out_of_service=_OUT_OF_SERVICE in keys,
        zone=(body["metadata"].get("labels") or {}).get(zone_label, "") if zone_label else "",
        notice_ms=0 if notice is None else notice.within_ms or SHORTEST_NOTICE_MS,
    )


def nodes(bodies: Mapping[str, Body], zone_label: str = "") -> Mapping[str, Node] | None:
    """By name; None while no node is seen: the operator may not be allowed to watch them."""
    return {name: node(body, zone_label) for name, body in bodies.items()} or None
