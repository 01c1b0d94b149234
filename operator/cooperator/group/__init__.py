"""Membership in a classic Kafka group: joining, leading, evicting, and taking the lead.

This package holds the conversation with the group coordinator, built on kafka-python's ``BaseCoordinator``,
and its decisions (pure, in ``takeover``). Metadata and assignments are opaque bytes; the planner is passed in
as a ``Listener``. May import ``wire`` and ``model``; no other package imports kafka-python.
"""

from cooperator.group.config import GroupConfig
from cooperator.group.inspector import describe_group
from cooperator.group.listener import (
    DescribedGroup,
    DescribedMember,
    GroupState,
    Joined,
    JoinedMember,
    Listener,
    Round,
)
from cooperator.group.membership import GroupUnavailable, Membership

__all__ = [
    "DescribedGroup",
    "DescribedMember",
    "GroupConfig",
    "GroupState",
    "GroupUnavailable",
    "Joined",
    "JoinedMember",
    "Listener",
    "Membership",
    "Round",
    "describe_group",
]
