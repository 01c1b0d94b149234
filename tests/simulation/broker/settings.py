"""The broker's configuration of groups."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The defaults are Kafka's; each setting's real name is below it."""

    initial_rebalance_delay_ms: int = 3_000
    """``group.initial.rebalance.delay.ms``"""
    min_session_timeout_ms: int = 6_000
    """``group.min.session.timeout.ms``"""
    max_session_timeout_ms: int = 1_800_000
    """``group.max.session.timeout.ms``"""
    new_member_join_timeout_ms: int = 300_000
    """Not a setting: the upper limit of the wait for the JoinGroup of a new member."""
    max_record_bytes: int = 1_048_588
    """``message.max.bytes``: a group, with its members' metadata and assignments, is one record."""
    clean_up_interval_ms: int = 600_000
    """``offsets.retention.check.interval.ms``: how often empty groups are removed."""
