"""The records that connectors write to topics, as plain values."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, NamedTuple


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

    def encoded(self) -> list[Any]:
        """Returns ``[topic, key, value, [[name, value], …]]`` for JSON, with bytes in base64."""
        headers = [[name, _text(value)] for name, value in self.headers]
        return [self.topic, _text(self.key), _text(self.value), headers]

    @classmethod
    def decoded(cls, parts: Sequence[Any]) -> "OutputRecord":
        topic, key, value, headers = parts
        named = tuple((name, _bytes(text)) for name, text in headers)
        return cls(_bytes(key), _bytes(value), topic, headers=named)


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
