"""Checks that the config topic is the group's. Pure.

An adopted group brings its own topic. With a wrong one, all running tasks would count as unconfigured and be
revoked.
"""

from collections.abc import Iterable

from cooperator.leader import events as ev
from cooperator.leader.state import LeaderSettings
from cooperator.model import ClusterConfig, Member
from cooperator.wire import DecodeError, Metadata, decode_metadata


def read_to(members: Iterable[tuple[str, bytes]]) -> int:
    """The highest offset of the config topic that stock workers among ``members`` have read to.

    -1: none reports one. ``members``: see ``member_refusal``.
    """
    reports = [metadata for _, data in members if data and (metadata := read_metadata(data)) is not None]
    return max((metadata.config_offset for metadata in reports if metadata.agent is None), default=-1)


def topic_refusal(group_id: str, topic: str, end: int, read_to: int) -> str:
    """Returns why ``topic`` cannot be the config topic of an adopted group; empty when it can.

    ``end``: its end offset. ``read_to``: the offset that members have read theirs to.
    """
    if read_to <= end:
        return ""
    return (
        f"members of group {group_id!r} have read to offset {read_to}, and topic {topic} ends at {end}: is "
        f"{topic} the config.storage.topic of this cluster? Name that by spec.connect.topics.config"
    )


def content_refusal(
    group_id: str, topic: str, config: ClusterConfig, members: Iterable[Member], read_to: int
) -> str:
    """Returns why ``topic`` cannot be the config topic of an adopted group; empty when it can.

    It cannot if it is longer than the one that the stock ``members`` have read, and ``config``, its content,
    has none of the connectors that they run.
    """
    running = {task.connector for member in members if not member.is_agent for task in member.owned}
    if not running or read_to >= config.offset or not running.isdisjoint(config.connectors):
        return ""
    names = ", ".join(sorted(running)[:5])
    return (
        f"members of group {group_id!r} run connectors ({names}) of which topic {topic} has none: is {topic} "
        "the config.storage.topic of this cluster? Name that by spec.connect.topics.config"
    )


def round_refusal(settings: LeaderSettings, event: ev.RoundReady, is_first: bool) -> str:
    """Returns why nothing is planned in a round, as the config topic is not the group's; empty when it may
    be.

    A group of our own is never refused: when its topic was made anew, it is written on until the offset of
    the members is reached. ``is_first``: no round was planned by this topic in this tenure.
    """
    if settings.owns_config:
        return ""
    group_id, topic, read = settings.group_id, settings.config_topic, event.highest_offset
    if event.config_end is not None and read > event.config_end:
        return topic_refusal(group_id, topic, event.config_end, read)
    return content_refusal(group_id, topic, event.config, event.members, read) if is_first else ""


def read_metadata(data: bytes) -> Metadata | None:
    try:
        return decode_metadata(data)
    except DecodeError:
        return None
