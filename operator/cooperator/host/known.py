"""Reads a leader's projection: whether figures are known, protocol, epochs. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from cooperator.crd import Worker
from cooperator.crd.status import ProtocolStatus

Leader = Mapping[str, Any]
"""A leader's own projection (``LeaderService.status``)."""

NO_TASKS: Final[Leader] = {"leading": True, "known": True}
"""The figures of a Connector that no group runs."""


def is_known(leader: Leader) -> bool:
    """Whether the projection's members and tasks are the group's, with their states. They are not while the
    leader starts or does not lead, which does not mean zero, nor while members from before may be on their
    way back (see ``projection``).
    """
    is_led = bool(leader.get("leading")) and bool(leader.get("known"))
    return is_led and not leader.get("reading_statuses")


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
