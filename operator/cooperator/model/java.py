"""Iteration orders of Java's collections, on which Kafka's tie-breaks and bytes depend (docs/protocol.md,
section 11), and names of connectors as Java and Kafka know them."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from cooperator.model.ids import TaskId

_DIGITS: Final = b"0123456789abcdefghijklmnopqrstu"
_HIGH: Final = bytes(_DIGITS[unit // 31] if unit < 128 else 0 for unit in range(256))
_LOW: Final = bytes(_DIGITS[unit % 31] if unit < 128 else 0 for unit in range(256))
"""Each ASCII character as two digits to the base 31, by which ``String.hashCode()`` multiplies."""
_SHORT: Final = 256
_LEAST_BUCKETS: Final = 16
_MAX_STRING_BYTES: Final = 0x7FFF


def hash_map_order(keys: Sequence[str]) -> list[str]:
    """Return ``keys`` (distinct) in the order of a ``java.util.HashMap`` into which they were put one by one.

    The table has 16 buckets and doubles when more than three quarters of them are in use. (A bucket of more
    than eight keys is a tree in Java, whose order may differ.)
    """
    buckets = _LEAST_BUCKETS
    while len(keys) > buckets * 3 // 4:
        buckets *= 2
    return _by_bucket(keys, buckets)


class SpreadHashes(dict[str, int]):
    """``spread_hash`` of strings, made on first use. ``least``: their buckets in the smallest table."""

    def __init__(self, strings: Iterable[str] = ()) -> None:
        super().__init__((string, spread_hash(string)) for string in strings)
        self.least = _LeastBuckets(self)

    def __missing__(self, key: str) -> int:
        self[key] = found = spread_hash(key)
        return found


class _LeastBuckets(dict[str, int]):
    def __init__(self, hashes: SpreadHashes) -> None:
        super().__init__((string, spread & (_LEAST_BUCKETS - 1)) for string, spread in hashes.items())
        self._hashes = hashes

    def __missing__(self, key: str) -> int:
        self[key] = found = self._hashes[key] & (_LEAST_BUCKETS - 1)
        return found


class KnownNames(NamedTuple):
    """Names that many members' assignments contain. ``strings``: as STRING of Kafka's protocol."""

    hashes: SpreadHashes
    strings: dict[str, bytes]

    @classmethod
    def of(cls, names: Sequence[str]) -> "KnownNames":
        """A name that is not valid as a STRING has none."""
        encoded = {name: name.encode("utf-8", "surrogatepass") for name in names}
        strings = {
            name: len(data).to_bytes(2, "big") + data
            for name, data in encoded.items()
            if len(data) <= _MAX_STRING_BYTES and (name.isascii() or _is_unicode(name))
        }
        return cls(SpreadHashes(names), strings)


def hash_set_order(keys: Iterable[str], hashes: SpreadHashes | None = None) -> list[str]:
    """Return the distinct ``keys`` in the order of ``new HashSet<>(keys)``.

    The table is sized in advance, by all of ``keys``. (As above, a bucket of more than eight may differ.)
    ``hashes``: those that are known already.
    """
    given = list(keys)
    if len(given) < 2:
        return given
    wanted = max(int(len(given) / 0.75) + 1, _LEAST_BUCKETS)
    return _by_bucket(given, 1 << (wanted - 1).bit_length(), hashes)


def sort_strings(strings: Iterable[str]) -> list[str]:
    """Sort as Java does: by UTF-16 code unit, not by code point."""
    return sorted(strings, key=_code_units)


def sort_tasks(tasks: Iterable[TaskId]) -> list[TaskId]:
    """Sort by connector name in Java's order, then by task number."""
    return sorted(tasks, key=lambda task: (_code_units(task.connector), task.task))


def spread_hash(key: str) -> int:
    """Return ``String.hashCode()`` with its upper half folded in; HashMap uses the lower bits of this."""
    if 0 < len(key) <= _SHORT and key.isascii():
        # Python reads digits much faster than a loop adds them up: a leader hashes 10,000 names.
        units = key.encode()
        value = 31 * int(units.translate(_HIGH), 31) + int(units.translate(_LOW), 31)
    else:
        value = 0
        for unit in _code_units_of(key):
            value = 31 * value + unit
    value &= 0xFFFFFFFF
    return value ^ (value >> 16)


def _by_bucket(keys: Iterable[str], buckets: int, hashes: SpreadHashes | None = None) -> list[str]:
    mask, known = buckets - 1, SpreadHashes() if hashes is None else hashes
    if buckets == _LEAST_BUCKETS:
        return sorted(dict.fromkeys(keys), key=known.least.__getitem__)
    return sorted(dict.fromkeys(keys), key=lambda key: known[key] & mask)


def _is_unicode(name: str) -> bool:
    return not any("\ud800" <= unit <= "\udfff" for unit in name)


def _code_units_of(string: str) -> memoryview:
    return memoryview(string.encode("utf-16-le", "surrogatepass")).cast("H")


def _code_units(string: str) -> bytes:
    return string.encode("utf-16-be", "surrogatepass")
