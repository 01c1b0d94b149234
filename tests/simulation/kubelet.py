"""The API's object of a pod, as its kubelet reports it. The project's own code reads it."""

from typing import Any

from cooperator.controller.names import CONTAINER, LEAVING, REVISION_LABEL
from cooperator.crd.projection import timestamp
from cooperator.model import PodIncarnation, termination_message
from tests.simulation.cluster import PodObject, named


def body_of(pod: PodObject, restarts_in_place: bool) -> dict[str, Any]:
    """The object of ``pod``. Its containers' times are those of its node's clock."""
    labels, annotations = {REVISION_LABEL: pod.revision}, {}
    if pod.mark is not None:
        annotations[LEAVING] = pod.mark.value
    deleted = {} if pod.deleted_ms is None else {"deletionTimestamp": timestamp(pod.deleted_ms)}
    over = pod.terminated and not restarts_in_place
    status: dict[str, Any] = {"phase": "Failed" if over else "Running"}
    if pod.starts:
        ended = _terminated(pod) if pod.ended else {}
        state = ended if pod.terminated else {"running": {"startedAt": timestamp(pod.started_ms)}}
        container = {"name": CONTAINER, "restartCount": pod.starts - 1, "state": state}
        status["containerStatuses"] = [container | ({} if pod.terminated else {"lastState": ended})]
    metadata = {
        "name": pod.identity,
        "uid": pod.uid,
        "creationTimestamp": timestamp(pod.created_ms),
        "labels": labels,
        "annotations": annotations,
        **deleted,
    }
    return {"metadata": metadata, "spec": {"nodeName": pod.node}, "status": status}


def _terminated(pod: PodObject) -> dict[str, Any]:
    """The last container that has ended, with the message of the member that ran in it."""
    names = tuple(PodIncarnation.parse(named(pod.uid, start)) for start in range(1, pod.ended + 1))
    starts = tuple(name for name in names if name is not None)
    finished = timestamp(pod.finished_ms)
    return {
        "terminated": {
            "startedAt": finished,
            "finishedAt": finished,
            # No task is to blame for an end here, and the pool must know that of those that were requested.
            "exitCode": 0 if pod.deleted_ms is None else 137,
            "message": termination_message(starts[-1], starts[:-1]),
        }
    }
