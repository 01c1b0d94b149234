"""Decides which changes of an existing resource are refused."""

from typing import Final, TypeVar

from cooperator.crd.connect import Topics
from cooperator.crd.connector import BOUND_TO_NAME, BOUND_TO_WORKER, Connector
from cooperator.crd.rules import stays
from cooperator.crd.worker import Worker
from cooperator.crd.worker_rules import BOUND_TO_GROUP, BOUND_TO_TOPIC, ONE_RUNTIME, PROGRESS_IS_THERE

R = TypeVar("R", Worker, Connector)

_WHY: Final = {
    "spec.runtime": ONE_RUNTIME,
    "spec.groupId": BOUND_TO_GROUP,
    "spec.checkpointLocation": PROGRESS_IS_THERE,
    "spec.checkpointVolume.claimName": PROGRESS_IS_THERE,
    "spec.checkpointVolume.mountPath": PROGRESS_IS_THERE,
    **{f"spec.connect.topics.{topic}": BOUND_TO_TOPIC for topic in Topics.model_fields},
    "spec.connectorName": BOUND_TO_NAME,
}


def forbidden_changes(old: R, new: R) -> tuple[str, ...]:
    """A sentence for each immutable field that ``new`` changes; empty if the change is allowed.

    A Worker's fields are fixed from its creation, since its members start with it (decision 066). A
    Connector's are fixed once tasks of it may have started: do not ask before.
    """
    before, after = _immutable(old), _immutable(new)
    return tuple(
        _sentence(field, before[field], after[field], _WHY[field])
        for field in before
        if before[field] != after[field]
    )


def forbidden_move(connector: Connector, bound_worker: str | None) -> str:
    """Returns why ``connector`` cannot have the Worker that it names; empty if it can.

    ``bound_worker`` is the Worker whose group has the connector's progress. None means that no task of it can
    have started yet.
    """
    name = connector.spec.worker_ref.name
    if bound_worker in (None, name):
        return ""
    return _sentence("spec.workerRef.name", bound_worker, name, BOUND_TO_WORKER)


def _sentence(field: str, before: str | None, after: str | None, why: str) -> str:
    return stays(field, why, f" from {before!r} to {after!r}")


def _immutable(resource: Worker | Connector) -> dict[str, str | None]:
    if isinstance(resource, Connector):
        return {"spec.connectorName": resource.connector_name}
    volume = resource.spec.checkpoint_volume
    return {
        "spec.runtime": str(resource.spec.runtime),
        "spec.groupId": resource.group_id,
        "spec.checkpointLocation": resource.spec.checkpoint_location,
        "spec.checkpointVolume.claimName": volume.claim_name if volume else None,
        "spec.checkpointVolume.mountPath": volume.mount_path if volume else None,
        **{f"spec.connect.topics.{topic}": name for topic, name in resource.spec.stock.topics},
    }
