"""Whose group is it: a group that is not ours is not touched, and the conflict is said, not fought."""

import hashlib
import re
from collections.abc import Iterable
from enum import StrEnum

from cooperator.model import ClusterConfig
from cooperator.wire import DecodeError, Metadata, Owner, Role, decode_metadata


class GroupPolicy(StrEnum):
    """``Create``: only a group that is new or ours is led. ``Adopt``: a foreign one is taken over."""

    CREATE = "Create"
    ADOPT = "Adopt"


def instance_id(owner: Owner) -> str:
    """The leader's ``group.instance.id``: the broker lets only one operator with the same owner in."""
    words = (owner.cluster, owner.namespace, owner.name)
    readable = re.sub(r"[^A-Za-z0-9._-]", "_", ".".join(words))[:160]
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()[:12]
    return f"cooperator.{readable}.{digest}"


def log_refusal(
    ours: Owner, found: Owner | None, config: ClusterConfig, policy: GroupPolicy, group_id: str
) -> str:
    """Why the group of these logs must not be led; empty when it may be."""
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
    """Why the lead must not be taken from these (client id, metadata bytes) members; empty when it may be.

    ``stock_pool``: stock workers called so, with a number behind, are ours. Others are known by their client
    ids alone, so that two of them must not share one. A member without bytes is not judged: the broker shows
    metadata of a stable group only.
    """
    addresses: dict[str, str] = {}
    for client_id, data in members:
        if not data:
            continue
        metadata = _read(data)
        report = metadata.agent if metadata is not None else None
        if report is not None and report.role is Role.LEADER and report.identity != own_identity:
            return f"group {group_id!r} is led by another cooperator ({report.identity})"
        is_ours = bool(stock_pool) and re.fullmatch(rf"{re.escape(stock_pool)}-[0-9]+", client_id)
        if report is None and policy is GroupPolicy.CREATE and not is_ours:
            return (
                f"group {group_id!r} has a member that is not ours ({client_id}): give this Worker another "
                "spec.groupId, or set spec.groupPolicy to Adopt to take the group over"
            )
        if report is not None or metadata is None or is_ours:
            continue
        if addresses.setdefault(client_id, metadata.url) != metadata.url:
            return (
                f"group {group_id!r} has several workers with client.id {client_id!r} "
                f"({addresses[client_id]} and {metadata.url}), which cannot be told apart: give each one "
                "of its own, or remove the setting from all of them"
            )
    return ""


def _read(data: bytes) -> Metadata | None:
    try:
        return decode_metadata(data)
    except DecodeError:
        return None
