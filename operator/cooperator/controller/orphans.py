"""Pods that outlive their Worker (``deletionPolicy: Orphan``)."""

from collections.abc import Iterable

from cooperator.controller.api import PODS, Api
from cooperator.controller.observe import Body


def release(api: Api, pods: Iterable[Body]) -> None:
    """Take ``pods`` from their owner, with whom they would be collected. Raises ApiError."""
    for body in pods:
        metadata = body["metadata"]
        if metadata.get("ownerReferences"):
            patch = {"metadata": {"uid": metadata["uid"], "ownerReferences": None}}
            api.merge(PODS, metadata["namespace"], metadata["name"], patch)
