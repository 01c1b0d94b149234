"""Example scenarios (``docs/scenarios.md`` describes the format)."""

from typing import Final

EXAMPLE: Final = (
    '{"name": "a member dies and is back a minute later", "scheduled_rebalance_max_delay_ms": 300000, '
    '"rejoin_ms": 1000, "config0": {"orders": 4, "clicks": 2}, "workers0": ["w00", "w01", "w02"], "events": ['
    '{"time_ms": 60000, "type": "leave", "pod": "w01"}, {"time_ms": 120000, "type": "join", "pod": "w01"}]}\n'
    '{"name": "a member is drained and leaves", "scheduled_rebalance_max_delay_ms": 300000, '
    '"rejoin_ms": 1000, "config0": {"orders": 4}, "workers0": ["w00", "w01"], "events": ['
    '{"time_ms": 60000, "type": "drain", "pod": "w01"}, {"time_ms": 90000, "type": "leave", "pod": "w01"}]}\n'
)
