"""Pods that outlive their Worker (``deletionPolicy: Orphan``)."""

from collections.abc import Iterable

from cooperator.controller.api.client import PODS, Api
from cooperator.controller.observe import Body


def release(api: Api, pods: Iterable[Body]) -> None:
    """Remove the owner references of ``pods``, which would be collected with their owner. Raises ApiError."""
    for body in pods:
        metadata = body["metadata"]
        if metadata.get("ownerReferences"):
            patch = {"metadata": {"uid": metadata["uid"], "ownerReferences": None}}
            api.merge(PODS, metadata["namespace"], metadata["name"], patch)
