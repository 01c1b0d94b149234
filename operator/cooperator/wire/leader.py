"""The records of the leader log: who owns the group, its policy, and the leader's memory.

Values are JSON objects with a version ``v``. New fields keep the version, and readers ignore fields they
do not know; a new version means that older readers must not guess. Large values are compressed: ``Z``,
int32 length of the JSON, zlib stream.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from cooperator.model import Memory, Policy, PolicyName
from cooperator.wire import primitives
from cooperator.wire.errors import DecodeError, EncodeError
from cooperator.wire.fields import Fields
from cooperator.wire.memory import memory_fields, read_memory
from cooperator.wire.primitives import Reader
from cooperator.wire.records import Record, Unknown, dump_json, parse_json

_VERSION: Final = 1
_COMPRESSED: Final = b"Z"
_COMPRESS_FROM_BYTES: Final = 4096
_MAX_JSON_BYTES: Final = 16 * 2**20
_MAX_ZLIB_RATIO: Final = 1032  # of the format; a length beyond it is a lie


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose group this is; another cooperator leaves it alone. ``uid``: of the resource, when it has one."""

    cluster: str
    namespace: str
    name: str
    uid: str = ""


LeaderRecord = Owner | Policy | Memory


def encode_leader(value: LeaderRecord) -> Record:
    """The record of this kind of value. Equal values give equal bytes. Raises EncodeError."""
    match value:
        case Owner():
            return _record("owner", asdict(value))
        case Policy():
            return _record("policy", asdict(value))
        case Memory():
            return _record("memory", memory_fields(value))


def decode_leader(record: Record) -> LeaderRecord | Unknown | None:
    """What the record says; None when it is a tombstone; Unknown for a key of no meaning to us.

    Raises DecodeError for malformed values and those of a newer version.
    """
    decode = _DECODERS.get(record.key)
    if decode is None:
        return Unknown(record.key, "no key of the leader log")
    if record.value is None:
        return None
    value = Fields(parse_json(_decompress(record.value, record.key), record.key), record.key)
    version = value.integer("v")
    if version != _VERSION:
        raise DecodeError(
            f"{record.key}.v: version {version} cannot be read, only {_VERSION}: update this process"
        )
    return decode(value)


def _record(key: str, value: Mapping[str, Any]) -> Record:
    encoded = dump_json({"v": _VERSION, **value}, key)
    if len(encoded) > _MAX_JSON_BYTES:
        raise EncodeError(f"{key}: {len(encoded)} bytes of JSON; at most {_MAX_JSON_BYTES} can be read back")
    if len(encoded) >= _COMPRESS_FROM_BYTES:
        # Level 1: a leader waits for this before each SyncGroup.
        encoded = _COMPRESSED + primitives.int32(len(encoded), key) + zlib.compress(encoded, 1)
    return Record(key, encoded)


def _decompress(value: bytes, key: str) -> bytes:
    if not value.startswith(_COMPRESSED):
        return value
    reader = Reader(value)
    reader.raw(1, key)
    length = reader.int32(key)
    stream = reader.raw(reader.remaining, key)
    if not 0 <= length <= min(_MAX_JSON_BYTES, _MAX_ZLIB_RATIO * len(stream)):
        raise DecodeError(f"{key}: {length} bytes cannot be in a stream of {len(stream)}")
    inflater = zlib.decompressobj()
    try:
        # One byte more than promised, to notice a longer stream without inflating it.
        inflated = inflater.decompress(stream, length + 1)
    except zlib.error as error:
        raise DecodeError(f"{key}: not a zlib stream: {error}") from None
    if len(inflated) != length or not inflater.eof:
        raise DecodeError(f"{key}: the stream does not hold the {length} bytes promised")
    return inflated


def _owner(value: Fields) -> Owner:
    return Owner(value.text("cluster"), value.text("namespace"), value.text("name"), value.text("uid", ""))


def _policy(value: Fields) -> Policy:
    default = Policy()
    known: dict[str, Any] = {}
    for each in fields(Policy):
        kept = getattr(default, each.name)
        match kept:
            case PolicyName():
                known[each.name] = value.choice(each.name, PolicyName, kept)
            case bool():
                known[each.name] = value.boolean(each.name, kept)
            case int():
                known[each.name] = value.integer(each.name, kept)
            case _:
                known[each.name] = value.text(each.name, kept)
    return Policy(**known)


_DECODERS: Final[Mapping[str, Callable[[Fields], LeaderRecord]]] = {
    "owner": _owner,
    "policy": _policy,
    "memory": read_memory,
}
