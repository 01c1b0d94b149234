"""Bytes after the end of a Connect message, which only our own members read.

Stock workers and leaders ignore what follows the last field they know (docs/protocol.md, section 13). Layout:
magic (4 bytes), int16 version, int32 length, payload. New fields are appended to the payload and keep the
version; a new version means that old readers must not guess, and see no trailer at all.
"""

import struct
from typing import Final

from cooperator.wire import primitives
from cooperator.wire.primitives import ByteReader, DecodeError

_HEADER: Final = struct.Struct(">hi")


def write_trailer(magic: bytes, version: int, payload: bytes) -> bytes:
    header = primitives.int16(version, "trailer.version") + primitives.int32(len(payload), "trailer")
    return magic + header + payload


def read_trailer(reader: ByteReader, magic: bytes, version: int) -> ByteReader | None:
    """The payload of a trailer of this magic and version; None if there is none that we can read.

    Foreign bytes are ignored; a truncated trailer of ours is a DecodeError.
    """
    if reader.remaining < len(magic) + _HEADER.size or not reader.skip(magic):
        return None
    its_version, length = reader.unpack(_HEADER, "trailer")
    if its_version != version:
        return None
    if length < 0:
        raise DecodeError(f"trailer.length: negative length {length}")
    return ByteReader(reader.raw(length, "trailer"))
