"""A record of a compacted log, and the JSON that Connect puts into its value.

Kafka Connect writes these values with its JsonConverter without schema envelope: compact UTF-8 JSON.
"""

import json
from dataclasses import dataclass, field
from typing import Any, NoReturn

from cooperator.wire.primitives import DecodeError, EncodeError, utf8


@dataclass(frozen=True, slots=True)
class Record:
    """Key and value of a record; a value of None is a tombstone. Values may contain keys: not in the repr."""

    key: str
    value: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unknown:
    """A record that is well-formed but means nothing to us; ``reason`` is for a log line."""

    key: str
    reason: str


def dump_json(value: Any, what: str) -> bytes:
    """Compact UTF-8 JSON in the order of the mappings. Raises EncodeError."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise EncodeError(f"{what}: not JSON: {error}") from None
    return utf8(text, what)


def parse_json(data: bytes, what: str) -> Any:
    """The JSON value in ``data``. Raises DecodeError for anything else, including invalid Unicode."""
    try:
        text = data.decode()
        value = json.loads(text, parse_constant=_refuse_constant)
        if "\\u" in text:
            # An escaped lone surrogate makes a str that cannot be encoded again.
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        # The error's own text may quote the document, which may contain secrets.
        raise DecodeError(f"{what}: not JSON ({type(error).__name__})") from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
