"""The records of the leader log: the group's owner, its policy, and the leader's memory.

A value is JSON, ``{"v":1,"value":{…},"connectors":[…]}``: the fields of the value, and the table of connector
names that its sets of tasks refer to. New fields keep the version, and readers skip fields they do not know;
a new version means that older readers must not guess. Large values are compressed: ``Z``, int32 length of the
JSON, zlib stream.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from cooperator.model import Memory, Policy
from cooperator.wire import primitives
from cooperator.wire.fields import Fields
from cooperator.wire.plain import from_plain, to_plain
from cooperator.wire.primitives import ByteReader, DecodeError, EncodeError
from cooperator.wire.records import Record, Unknown, dump_json, parse_json
from cooperator.wire.taskset import TaskSetReader, TaskSetWriter

_VERSION: Final = 1
_COMPRESSED: Final = b"Z"
_COMPRESS_FROM_BYTES: Final = 4096
_MAX_JSON_BYTES: Final = 16 * 2**20
_MAX_ZLIB_RATIO: Final = 1032  # The limit of the format; a greater length is forged.


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of the group; other cooperators leave the group alone. ``uid``: of the resource, if any."""

    cluster: str
    namespace: str
    name: str
    uid: str = ""


LeaderRecord = Owner | Policy | Memory

_KINDS: Final[Mapping[str, type[LeaderRecord]]] = MappingProxyType(
    {"owner": Owner, "policy": Policy, "memory": Memory}
)
_KEYS: Final = MappingProxyType({kind: key for key, kind in _KINDS.items()})


def encode_leader(value: LeaderRecord) -> Record:
    """The record for this kind of value. Equal values give equal bytes. Raises EncodeError."""
    key = _KEYS[type(value)]
    sets = TaskSetWriter()
    envelope: dict[str, Any] = {"v": _VERSION, "value": to_plain(value, sets)}
    if sets.names:
        envelope["connectors"] = sets.names
    return Record(key, _compress(dump_json(envelope, key), key))


def decode_leader(record: Record) -> LeaderRecord | Unknown | None:
    """Returns what the record says; None for a tombstone; Unknown for a key that means nothing to us.

    Raises DecodeError for malformed values and for those of a newer version.
    """
    kind = _KINDS.get(record.key)
    if kind is None:
        return Unknown(record.key, "no key of the leader log")
    if record.value is None:
        return None
    envelope = Fields(parse_json(_decompress(record.value, record.key), record.key), record.key)
    version = envelope.integer("v")
    if version != _VERSION:
        raise DecodeError(
            f"{record.key}.v: version {version} cannot be read, only {_VERSION}: update this process"
        )
    sets = TaskSetReader(envelope.array_of("connectors", str))
    return from_plain(envelope.value("value"), kind, sets)


def _compress(encoded: bytes, key: str) -> bytes:
    if len(encoded) > _MAX_JSON_BYTES:
        raise EncodeError(f"{key}: {len(encoded)} bytes of JSON; at most {_MAX_JSON_BYTES} can be read back")
    if len(encoded) < _COMPRESS_FROM_BYTES:
        return encoded
    # Level 1, since a leader waits for this before each SyncGroup.
    return _COMPRESSED + primitives.int32(len(encoded), key) + zlib.compress(encoded, 1)


def _decompress(value: bytes, key: str) -> bytes:
    if not value.startswith(_COMPRESSED):
        return value
    reader = ByteReader(value)
    reader.raw(1, key)
    length = reader.int32(key)
    stream = reader.raw(reader.remaining, key)
    if not 0 <= length <= min(_MAX_JSON_BYTES, _MAX_ZLIB_RATIO * len(stream)):
        raise DecodeError(f"{key}: {length} bytes cannot be in a stream of {len(stream)}")
    inflater = zlib.decompressobj()
    try:
        # One byte more than promised, to detect a longer stream without inflating it.
        inflated = inflater.decompress(stream, length + 1)
    except zlib.error as error:
        raise DecodeError(f"{key}: not a zlib stream: {error}") from None
    if len(inflated) != length or not inflater.eof:
        raise DecodeError(f"{key}: the stream does not hold the {length} bytes promised")
    return inflated
