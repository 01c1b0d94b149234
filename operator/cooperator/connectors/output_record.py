"""The records that connectors write to topics, as plain values."""

from typing import NamedTuple


class OutputRecord(NamedTuple):
    """A record to write.

    An empty ``topic`` is the log's own; ``partition`` -1 is chosen by the key; ``timestamp_ms`` 0 is the time
    of writing.
    """

    key: bytes | None
    value: bytes | None
    topic: str = ""
    partition: int = -1
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()
