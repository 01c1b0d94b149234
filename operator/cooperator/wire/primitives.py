"""Kafka's primitive types, big endian (docs/protocol.md, section 7): a bounded reader, and the writers.

Lengths and counts are checked against the remaining bytes before anything is built from them, so that no
input makes a reader use more memory or time than its own size warrants.
"""

import struct
from collections.abc import Callable
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_FLOAT64: Final = struct.Struct(">d")

_SHORT: Final = 256
_SHORT_ARRAYS: Final = tuple(struct.Struct(f">i{count}i") for count in range(_SHORT))

_MAX_STRING_BYTES: Final = 0x7FFF


class DecodeError(ValueError):
    """The bytes are malformed. The message names the field and the problem."""


class EncodeError(ValueError):
    """The value does not fit this format. The message names the field, the value and the limit."""


class ByteReader:
    """Reads primitives from ``data`` in order; every failure is a DecodeError that names the field."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = bytes(data)
        self._position = 0

    @property
    def remaining(self) -> int:
        """Number of bytes not yet read."""
        return len(self._data) - self._position

    def _take(self, count: int, field: str) -> int:
        start = self._position
        if count > len(self._data) - start:
            raise self._short(count, field)
        self._position = start + count
        return start

    def _short(self, count: int, field: str) -> DecodeError:
        return DecodeError(f"{field}: needs {count} bytes, but {self.remaining} are left")

    # One method per type, without a call in between: a leader reads some twenty scalars per member.

    def int8(self, field: str) -> int:
        try:
            value: int = _INT8.unpack_from(self._data, self._position)[0]
        except struct.error:
            raise self._short(1, field) from None
        self._position += 1
        return value

    def int16(self, field: str) -> int:
        try:
            value: int = _INT16.unpack_from(self._data, self._position)[0]
        except struct.error:
            raise self._short(2, field) from None
        self._position += 2
        return value

    def int32(self, field: str) -> int:
        try:
            value: int = _INT32.unpack_from(self._data, self._position)[0]
        except struct.error:
            raise self._short(4, field) from None
        self._position += 4
        return value

    def int64(self, field: str) -> int:
        try:
            value: int = _INT64.unpack_from(self._data, self._position)[0]
        except struct.error:
            raise self._short(8, field) from None
        self._position += 8
        return value

    def float64(self, field: str) -> float:
        try:
            value: float = _FLOAT64.unpack_from(self._data, self._position)[0]
        except struct.error:
            raise self._short(8, field) from None
        self._position += 8
        return value

    def boolean(self, field: str) -> bool:
        value = self.int8(field)
        if value not in (0, 1):
            raise DecodeError(f"{field}: {value} is neither 0 nor 1")
        return value == 1

    def raw(self, count: int, field: str) -> bytes:
        """Exactly ``count`` bytes."""
        start = self._take(count, field)
        return self._data[start : start + count]

    @property
    def size(self) -> int:
        """Number of all bytes."""
        return len(self._data)

    @property
    def position(self) -> int:
        """Number of bytes read."""
        return self._position

    def since(self, position: int) -> bytes:
        """The bytes read after ``position``."""
        return self._data[position : self._position]

    def skip(self, expected: bytes) -> bool:
        """If ``expected`` comes next, consume it. Returns whether it did."""
        if not self._data.startswith(expected, self._position):
            return False
        self._position += len(expected)
        return True

    def fast(self, count: int, read: Callable[[bytes, int, int], tuple[_T, int] | None]) -> _T | None:
        """Read one value by ``read``, called with all bytes, the position and ``count``.

        ``read`` returns the value and the position after it. Returns None, and consumes nothing, if ``read``
        returns None or meets missing bytes or invalid UTF-8.
        """
        try:
            done = read(self._data, self._position, count)
        except (struct.error, IndexError, UnicodeDecodeError):
            return None
        if done is None:
            return None
        value, self._position = done
        return value

    def peek(self, layout: struct.Struct) -> tuple[Any, ...] | None:
        """Returns what ``unpack`` would, and consumes nothing; None if there are too few bytes."""
        if layout.size > len(self._data) - self._position:
            return None
        return layout.unpack_from(self._data, self._position)

    def unpack(self, layout: struct.Struct, field: str) -> tuple[Any, ...]:
        """Read several values at once."""
        try:
            values = layout.unpack_from(self._data, self._position)
        except struct.error:
            raise self._short(layout.size, field) from None
        self._position += layout.size
        return values

    def peek_between(self, before: bytes, layout: struct.Struct, after: bytes) -> tuple[Any, ...] | None:
        """Returns the values of ``layout`` if they and these bytes around them are all that is left."""
        start = self._position + len(before)
        if len(self._data) != start + layout.size + len(after):
            return None
        if not self._data.startswith(before, self._position) or not self._data.endswith(after):
            return None
        return layout.unpack_from(self._data, start)

    def ends_with(self, expected: bytes) -> bool:
        """If ``expected`` is all that is left, consume it. Returns whether it was."""
        if len(self._data) - self._position != len(expected) or not self._data.endswith(expected):
            return False
        self._position = len(self._data)
        return True

    def string(self, field: str) -> str:
        """STRING: int16 length, then UTF-8; never null."""
        try:
            (length,) = _INT16.unpack_from(self._data, self._position)
        except struct.error:
            raise self._short(2, field) from None
        if length < 0:
            raise DecodeError(f"{field}: negative string length {length}")
        start = self._position + 2
        end = start + length
        if end > len(self._data):
            self._position = start
            raise self._short(length, field)
        self._position = end
        try:
            return self._data[start:end].decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"{field}: not UTF-8: {error.reason} at byte {error.start}") from None

    def nullable_bytes(self, field: str) -> bytes | None:
        """NULLABLE_BYTES: int32 length, -1 for null."""
        length = self.int32(field)
        if length == -1:
            return None
        if length < 0:
            raise DecodeError(f"{field}: negative length {length}")
        return self.raw(length, field)

    def count(self, field: str, least_bytes: int) -> int | None:
        """The count of an ARRAY whose elements take at least ``least_bytes`` each; None for a null array."""
        count = self.int32(field)
        if count == -1:
            return None
        if count < 0 or count * least_bytes > self.remaining:
            raise DecodeError(f"{field}: count {count} does not fit the {self.remaining} bytes left")
        return count

    def int32_array(self, field: str) -> tuple[int, ...]:
        """ARRAY<int32>, not nullable."""
        count = self.count(field, 4)
        if count is None:
            raise DecodeError(f"{field}: the array is null")
        return struct.unpack_from(f">{count}i", self._data, self._take(4 * count, field))


def _pack(layout: struct.Struct, value: float, field: str) -> bytes:
    try:
        return layout.pack(value)
    except (struct.error, OverflowError) as error:
        raise EncodeError(f"{field}: {value!r} does not fit {layout.size} bytes ({error})") from None


def int8(value: int, field: str) -> bytes:
    return _pack(_INT8, value, field)


def int16(value: int, field: str) -> bytes:
    return _pack(_INT16, value, field)


def int32(value: int, field: str) -> bytes:
    return _pack(_INT32, value, field)


def int64(value: int, field: str) -> bytes:
    return _pack(_INT64, value, field)


def float64(value: float, field: str) -> bytes:
    return _pack(_FLOAT64, value, field)


def boolean(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def utf8(value: str, field: str) -> bytes:
    """``value`` as UTF-8. Lone surrogates, which UTF-8 cannot represent, raise EncodeError."""
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise EncodeError(f"{field}: {value!r} is not valid Unicode ({error.reason})") from None


def string(value: str, field: str) -> bytes:
    """STRING: at most 32767 bytes of UTF-8."""
    encoded = value.encode() if value.isascii() else utf8(value, field)
    if len(encoded) > _MAX_STRING_BYTES:
        raise EncodeError(f"{field}: {len(encoded)} bytes; a string holds at most {_MAX_STRING_BYTES}")
    return _INT16.pack(len(encoded)) + encoded


def nullable_bytes(value: bytes | None, field: str) -> bytes:
    if value is None:
        return b"\xff\xff\xff\xff"
    return int32(len(value), field) + value


def int32_array(values: list[int], field: str) -> bytes:
    count = len(values)
    pack = _SHORT_ARRAYS[count].pack if count < _SHORT else struct.Struct(f">i{count}i").pack
    try:
        return pack(count, *values)
    except struct.error:
        wrong = next(value for value in values if not -(2**31) <= value < 2**31)
        raise EncodeError(f"{field}: {wrong} is beyond 32 bits") from None
