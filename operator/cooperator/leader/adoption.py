"""A group that is to be adopted, looked at before its lead is taken: none of its members notices."""

from typing import Final

from cooperator.group import GroupUnavailable, describe_group
from cooperator.leader.config_topic import read_to, topic_refusal
from cooperator.leader.ownership import GroupPolicy
from cooperator.leader.settings import ServiceSettings
from cooperator.logs import LogUnavailable
from cooperator.logs.config_log import ConfigLog

_TIMEOUT_MS: Final = 8_000


def seen_refusal(settings: ServiceSettings, config: ConfigLog) -> str:
    """Why ``config`` cannot be the config log of the group, as its members are seen from outside; empty when
    it can, or when the group is not to be adopted. Raises LogUnavailable."""
    if settings.group_policy is not GroupPolicy.ADOPT:
        return ""
    try:
        group = describe_group(
            settings.bootstrap_servers, settings.group_id, settings.group_security, _TIMEOUT_MS / 1000
        )
    except GroupUnavailable as error:
        raise LogUnavailable(str(error)) from error
    # The end is asked for later than the members: what they have read is in it.
    read = read_to((member.client_id, member.metadata) for member in group.members)
    topic = settings.logs_config().topic_names.config
    return topic_refusal(settings.group_id, topic, config.end(_TIMEOUT_MS), read)
