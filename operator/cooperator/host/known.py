"""Reads a leader's projection: whether figures are known, protocol, epochs. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from cooperator.crd import Worker
from cooperator.crd.status import ProtocolStatus

Leader = Mapping[str, Any]
"""A leader's own projection (``LeaderService.status``)."""

NO_TASKS: Final[Leader] = {"leading": True, "generation": 0}
"""The figures of a Connector that no group runs."""


def is_known(leader: Leader) -> bool:
    """Whether the projection includes members and tasks. It has none while the leader starts or does not
    lead, which does not mean zero. Before its first round is complete, members may be missing that are on
    their way.
    """
    if leader.get("reading_statuses"):
        return False
    return bool(leader.get("leading")) and leader.get("completed", leader.get("generation", -1)) >= 0


def protocol_of(worker: Worker, leader: Leader) -> ProtocolStatus | None:
    """The protocol of the group; None while that is not known."""
    if not is_known(leader) or leader.get("stale") or not leader.get("protocol"):
        return None
    group = reconciliation(leader)
    return ProtocolStatus(
        name=leader["protocol"],
        reason="" if group else worker.spec.why_in_rounds or leader.get("why_in_rounds", ""),
        group_epoch=group.get("epoch"),
        assignment_epoch=group.get("assignment_epoch"),
    )


def reconciliation(leader: Leader) -> Mapping[str, Any]:
    """Epochs and states of a group without rounds; empty in rounds, and while the projection is not new."""
    found: Mapping[str, Any] | None = None if leader.get("stale") else leader.get("reconciliation")
    return found or {}
