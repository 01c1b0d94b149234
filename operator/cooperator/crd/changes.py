"""Which changes of a resource that exists are refused."""

from typing import Final, TypeVar

from cooperator.crd.connect import Topics
from cooperator.crd.connector import BOUND_TO_WORKER, Connector
from cooperator.crd.worker import BOUND_TO_GROUP, BOUND_TO_TOPIC, ONE_RUNTIME, PROGRESS_IS_THERE, Worker

R = TypeVar("R", Worker, Connector)

_WHY: Final = {
    "spec.runtime": ONE_RUNTIME,
    "spec.groupId": BOUND_TO_GROUP,
    "spec.checkpointLocation": PROGRESS_IS_THERE,
    "spec.checkpointVolume.claimName": PROGRESS_IS_THERE,
    "spec.checkpointVolume.mountPath": PROGRESS_IS_THERE,
    **{f"spec.connect.topics.{topic}": BOUND_TO_TOPIC for topic in Topics.model_fields},
    "spec.workerRef.name": BOUND_TO_WORKER,
}


def forbidden_changes(old: R, new: R) -> tuple[str, ...]:
    """A sentence for each immutable field that ``new`` changes; empty when the change is allowed."""
    before, after = _immutable(old), _immutable(new)
    return tuple(
        f"{field} cannot be changed from {before[field]!r} to {after[field]!r}: {_WHY[field]}. "
        "Keep it, or delete the resource and create it anew"
        for field in before
        if before[field] != after[field]
    )


def _immutable(resource: Worker | Connector) -> dict[str, str | None]:
    if isinstance(resource, Connector):
        return {"spec.workerRef.name": resource.spec.worker_ref.name}
    volume = resource.spec.checkpoint_volume
    return {
        "spec.runtime": str(resource.spec.runtime),
        "spec.groupId": resource.group_id,
        "spec.checkpointLocation": resource.spec.checkpoint_location,
        "spec.checkpointVolume.claimName": volume.claim_name if volume else None,
        "spec.checkpointVolume.mountPath": volume.mount_path if volume else None,
        **{f"spec.connect.topics.{topic}": name for topic, name in resource.spec.stock.topics},
    }
