"""Claims and positions of units: the values, and their records in the topic of positions.

A record's key says what it is: ``p/CONNECTOR/UNIT`` is the position of a unit, ``c/CONNECTOR/UNIT/CLAIM`` a
claim on it, ``n/CONNECTOR/NAME`` a note of a connector, such as its layout. No part contains ``/``, so keys
are unambiguous. Values are JSON with a version. Fields that a reader does not know are passed over; a later
release raises the version where they must not be.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cooperator.model import Epoch

VERSION: Final = 1
MAX_SLOTS: Final = 1024
"""A claim with more slots is refused: a successor initialises each of them."""
_MAX_OFFSET: Final = 2**63 - 1
_NAME = re.compile(r"[A-Za-z0-9._-]{1,300}\Z")
_MOST_OF_A_UNIT: Final = 300
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_NUMBER = r"(0|[1-9][0-9]{0,18})"
_CLAIM = re.compile(rf"{_NUMBER}-{_NUMBER}-{_NUMBER}-([A-Za-z0-9._-]{{1,249}})\Z")
_OWNER_LIMIT: Final = 120
_DIGEST: Final = 20
_POSITION: Final = "p"
_CLAIMED: Final = "c"
_NOTED: Final = "n"


class InvalidName(ValueError):
    """A name cannot be part of a key; the message names the field, the value and the remedy."""


class UnreadableRecord(ValueError):
    """A record of a unit cannot be read; the message names the key, the field, the value and the remedy.

    It must not be passed over: an unread claim is a writer that is not fenced.
    """


class UnitKey(NamedTuple):
    """A unit of a connector."""

    connector: str
    unit: str

    def __str__(self) -> str:
        return f"{self.connector}/{self.unit}"


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """The name of one attempt. Claims compare in the order of attempts: by epoch, attempt and owner.

    No two attempts have the same claim: ``owner`` names the incarnation that counts ``attempt``. Attempts of
    different owners in one epoch have no natural order; the owners' names give them one that all agree on.
    """

    epoch: Epoch
    attempt: int
    owner: str

    def __post_init__(self) -> None:
        for field, number in (("term", self.epoch.term), ("generation", self.epoch.generation)):
            _refuse_negative(field, number)
        _refuse_negative("attempt", self.attempt)
        _check_name("owner", self.owner)

    def __str__(self) -> str:
        return f"{self.epoch.term}-{self.epoch.generation}-{self.attempt}-{self.owner}"

    @classmethod
    def of(cls, epoch: Epoch, attempt: int, owner: str) -> "Claim":
        """Returns the claim of any owner's text: the end of it, without characters that a key cannot have."""
        clamped = Epoch(max(epoch.term, 0), max(epoch.generation, 0))
        return cls(clamped, attempt, _UNSAFE.sub("_", owner)[-_OWNER_LIMIT:])

    @classmethod
    def parse(cls, text: str) -> "Claim":
        """Returns the claim of this name. Raises ValueError."""
        match = _CLAIM.match(text)
        if match is None:
            raise ValueError(f"{text!r} is no claim; use TERM-GENERATION-ATTEMPT-OWNER")
        term, generation, attempt, owner = match.groups()
        return cls(Epoch(int(term), int(generation)), int(attempt), owner)


@dataclass(frozen=True, slots=True)
class TransactionalIds:
    """The transactional ids that an attempt may use: ``PREFIX/0`` to ``PREFIX/COUNT-1``."""

    prefix: str
    count: int

    def __post_init__(self) -> None:
        if not self.prefix:
            raise ValueError("prefix = '' is empty; use a prefix of transactional ids")
        if not 1 <= self.count <= MAX_SLOTS:
            raise ValueError(f"slots = {self.count} is not a number of slots; use 1 to {MAX_SLOTS}")

    @classmethod
    def of_units(
        cls, group_id: str, connector: str, units: Collection[str], count: int
    ) -> "TransactionalIds":
        """Returns the transactional ids of an attempt at these units, in any order.

        Attempts with other units have other ids. Two attempts share ids only if they share units, and then
        the newer one's claims end the older one. A task's number would not do: after a regrouping two
        attempts of one number may have no unit in common, and would fence each other until one of them ends.
        """
        digest = hashlib.sha256("\n".join(sorted(units)).encode()).hexdigest()[:_DIGEST]
        return cls(f"{group_id}-units/{connector}/{digest}", count)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(f"{self.prefix}/{slot}" for slot in range(self.count))

    def encode(self) -> bytes:
        return _dump({"prefix": self.prefix, "slots": self.count})


@dataclass(frozen=True, slots=True)
class Position:
    """The offset of the next record of a unit, and the attempt that committed it.

    ``topic_id`` is that of the source topic, which a topic that is created again does not have; empty: the
    brokers had told none. Where units read files, it is the id of a set of names (``filelogs``).
    """

    next: int
    claim: Claim
    topic_id: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.next <= _MAX_OFFSET:
            raise ValueError(f"next = {self.next} is no offset; use 0 to {_MAX_OFFSET}")

    def encode(self) -> bytes:
        topic = {"topic_id": self.topic_id} if self.topic_id else {}
        return _dump({"next": self.next, "claim": str(self.claim), **topic})


@dataclass(frozen=True, slots=True)
class PositionKey:
    """The key of a unit's position."""

    unit: UnitKey

    def encode(self) -> bytes:
        return _key(_POSITION, self.unit)


@dataclass(frozen=True, slots=True)
class ClaimKey:
    """The key of a claim on a unit."""

    unit: UnitKey
    claim: Claim

    def encode(self) -> bytes:
        return _key(_CLAIMED, self.unit, str(self.claim))


@dataclass(frozen=True, slots=True)
class NoteKey:
    """The key of a note. ``name`` is one of the connector's own, such as a unit."""

    connector: str
    name: str

    def encode(self) -> bytes:
        return _key(_NOTED, UnitKey(self.connector, self.name))


class RawKey(NamedTuple):
    """A key before its claim is read. ``claim`` is empty for a position, and for a note."""

    unit: UnitKey
    claim: str = ""
    is_note: bool = False


def split_key(key: bytes | None) -> RawKey | None:
    """Returns what a record is about; None: it is of a kind that this release does not know."""
    try:
        kind, *parts = (key or b"").decode().split("/")
    except UnicodeDecodeError:
        return None
    if kind == _POSITION and len(parts) == 2:
        return RawKey(UnitKey(*parts))
    if kind == _NOTED and len(parts) == 2:
        return RawKey(UnitKey(*parts), is_note=True)
    if kind == _CLAIMED and len(parts) == 3 and parts[2]:
        return RawKey(UnitKey(*parts[:2]), parts[2])
    return None


def decode_claim(raw: RawKey) -> Claim:
    """Returns the claim of a claim's key. Raises UnreadableRecord."""
    try:
        return Claim.parse(raw.claim)
    except ValueError as error:
        key = f"{_CLAIMED}/{raw.unit}/{raw.claim}".encode()
        raise _unreadable(key, "claim", raw.claim, str(error)) from None


def decode_slots(key: bytes, value: bytes) -> TransactionalIds:
    """Returns the slots of a claim's record. Raises UnreadableRecord."""
    fields = _load(key, value)
    prefix, count = _text(key, fields, "prefix"), _integer(key, fields, "slots")
    try:
        return TransactionalIds(prefix, count)
    except ValueError as error:
        raise _unreadable(key, "value", value, str(error)) from None


def decode_position(key: bytes, value: bytes) -> Position:
    """Returns the position of a position's record. Raises UnreadableRecord."""
    fields = _load(key, value)
    offset, claim = _integer(key, fields, "next"), _text(key, fields, "claim")
    topic_id = _text(key, {"topic_id": "", **fields}, "topic_id")
    try:
        return Position(offset, Claim.parse(claim), topic_id)
    except ValueError as error:
        raise _unreadable(key, "value", value, str(error)) from None


def check_unit(unit: UnitKey) -> UnitKey:
    """Returns the unit. Raises InvalidName."""
    _check_name("connector", unit.connector)
    # The name of a table, or that of a topic or a directory.
    if not 0 < len(unit.unit) <= _MOST_OF_A_UNIT or "/" in unit.unit or not unit.unit.isprintable():
        raise InvalidName(
            f"unit = {unit.unit!r} cannot be part of a key in the topic of positions; use 1 to "
            f"{_MOST_OF_A_UNIT} printable characters other than slashes"
        )
    return unit


def _key(kind: str, unit: UnitKey, *more: str) -> bytes:
    return "/".join((kind, *check_unit(unit), *more)).encode()


def _check_name(field: str, name: str) -> None:
    if _NAME.match(name) is None:
        raise InvalidName(
            f"{field} = {name!r} cannot be part of a key in the topic of positions; use 1 to 300 letters, "
            "digits, dots, underscores and dashes"
        )


def _refuse_negative(field: str, number: int) -> None:
    if number < 0:
        raise ValueError(f"{field} = {number} is negative; use 0 or more")


def _dump(fields: Mapping[str, Any]) -> bytes:
    return json.dumps({"version": VERSION, **fields}, separators=(",", ":")).encode()


def _load(key: bytes, value: bytes) -> Mapping[str, Any]:
    try:
        fields = json.loads(value)
    except (ValueError, RecursionError):
        raise _unreadable(key, "value", value, "it is not JSON") from None
    if not isinstance(fields, dict):
        raise _unreadable(key, "value", value, "it is no JSON object")
    version = _integer(key, fields, "version")
    if version != VERSION:
        raise UnreadableRecord(
            f"record {_shown(key)}: version = {version} is of another release, which knows {VERSION}; use "
            "the release that wrote it, or a later one"
        )
    return fields


def _integer(key: bytes, fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if type(value) is not int:
        raise _unreadable(key, name, value, "it is no integer")
    return value


def _text(key: bytes, fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _unreadable(key, name, value, "it is no text")
    return value


def _unreadable(key: bytes, field: str, value: object, why: str) -> UnreadableRecord:
    shown = value[:200] if isinstance(value, bytes | str) else value
    return UnreadableRecord(
        f"record {_shown(key)}: {field} = {shown!r}: {why}. Only cooperator may write to the topic of "
        "positions; stop the connector, and reset or alter its offsets, which replaces the record"
    )


def _shown(key: bytes) -> str:
    return key.decode(errors="replace")
