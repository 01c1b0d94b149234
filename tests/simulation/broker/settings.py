"""What a broker's configuration says about groups."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Kafka's defaults, by the names of ``server.properties`` without ``group.``."""

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    new_member_join_timeout_ms: int = 300_000
    """No setting of a broker: after this time a JoinGroup of a new member is answered, whatever happens."""
    max_record_bytes: int = 1_048_588
    """``message.max.bytes``: a group, with all metadata and assignments, is one record."""
