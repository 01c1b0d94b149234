"""Membership in a classic Kafka group: joining, leading, evicting, and taking the lead.

What may live here: the conversation with the group coordinator on kafka-python's ``BaseCoordinator``, and
the decisions it takes (pure, in ``takeover``). Metadata and assignments are opaque bytes; who plans is
handed in as a ``Listener``. May import ``wire`` and ``model``; the only room that imports kafka-python.
"""

from cooperator.group.config import GroupConfig
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
from cooperator.group.onlooker import describe_group

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
