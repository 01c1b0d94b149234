"""Ownership of groups: a group of another owner is not touched, and the conflict is reported."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

from cooperator.leader.config_topic import read_metadata, read_to, topic_refusal
from cooperator.model import ClusterConfig
from cooperator.wire import Owner, Role


class GroupPolicy(StrEnum):
    """``Create``: lead only groups that are new or ours. ``Adopt``: take over foreign ones."""

    CREATE = "Create"
    ADOPT = "Adopt"


def instance_id(owner: Owner) -> str:
    """The leader's ``group.instance.id``: the broker admits only one operator with the same owner."""
    words = (owner.cluster, owner.namespace, owner.name)
    readable = re.sub(r"[^A-Za-z0-9._-]", "_", ".".join(words))[:160]
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()[:12]
    return f"cooperator.{readable}.{digest}"


def log_refusal(
    ours: Owner, found: Owner | None, config: ClusterConfig, policy: GroupPolicy, group_id: str
) -> str:
    """Returns why the group of these logs must not be led; empty when it may be."""
    if found is not None:
        if (found.cluster, found.namespace, found.name) == (ours.cluster, ours.namespace, ours.name):
            return ""
        return (
            f"group {group_id!r} belongs to Worker {found.namespace}/{found.name} of cluster "
            f"{found.cluster!r}: give this Worker another spec.groupId; or, if that one is gone for good, "
            f"delete the topic {group_id}-leader, which says so"
        )
    if policy is GroupPolicy.CREATE and config.connectors:
        names = ", ".join(sorted(config.connectors)[:5])
        return (
            f"the config topic of group {group_id!r} holds connectors of somebody else ({names}): give this "
            "Worker another spec.groupId, or set spec.groupPolicy to Adopt to take the group over"
        )
    return ""


def member_refusal(
    own_identity: str,
    members: Iterable[tuple[str, bytes]],
    policy: GroupPolicy,
    group_id: str,
    stock_pool: str = "",
) -> str:
    """Returns why the lead must not be taken from these (client id, metadata bytes) members; empty when it
    may be.

    ``stock_pool``: see ``is_of_pool``. A member without bytes is not judged: the broker returns the metadata
    of stable groups only.
    """
    for client_id, data in members:
        if not data:
            continue
        metadata = read_metadata(data)
        report = metadata.agent if metadata is not None else None
        if report is not None and report.role is Role.LEADER and report.identity != own_identity:
            return f"group {group_id!r} is led by another cooperator ({report.identity})"
        if report is None and policy is GroupPolicy.CREATE and not is_of_pool(client_id, stock_pool):
            return (
                f"group {group_id!r} has a member that is not ours ({client_id}): give this Worker another "
                "spec.groupId, or set spec.groupPolicy to Adopt to take the group over"
            )
    return ""


def is_of_pool(client_id: str, stock_pool: str) -> bool:
    """Whether a stock worker is a pod of ours, named after the pool with an ordinal. "": there is no pool."""
    return bool(stock_pool) and re.fullmatch(rf"{re.escape(stock_pool)}-[0-9]+", client_id) is not None


def adoption_refusals(
    group_id: str,
    found: Owner | None,
    members: Sequence[tuple[str, bytes]],
    ours: tuple[str, str],
    topic: str = "",
    end: int | None = None,
) -> tuple[str, ...]:
    """Returns why the Worker ``ours`` (namespace, name), which adopts the group, would not lead it now.

    Empty if it would. ``found``: the owner that the leader log names. ``members``: see ``member_refusal``.
    ``topic``: the config topic, which ends at ``end`` (None: not compared).
    """
    refusals = [member_refusal("", members, GroupPolicy.ADOPT, group_id)]
    if found is not None:
        owner = Owner(found.cluster, *ours)
        refusals.append(log_refusal(owner, found, ClusterConfig(), GroupPolicy.ADOPT, group_id))
    if end is not None:
        refusals.append(topic_refusal(group_id, topic, end, read_to(members)))
    return tuple(filter(None, refusals))
