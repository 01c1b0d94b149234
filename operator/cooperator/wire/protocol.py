"""The sub-protocols of Kafka Connect's group protocol (KIP-415, KIP-507)."""

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from cooperator.wire.primitives import DecodeError


class Protocol(StrEnum):
    """A sub-protocol, by the name that a JoinGroup request carries."""

    SESSIONED = "sessioned"
    """Version 2: incremental, and requests between members are signed."""
    COMPATIBLE = "compatible"
    """Version 1: incremental."""
    DEFAULT = "default"
    """Version 0, "eager": every worker stops everything before it joins."""

    @property
    def version(self) -> int:
        return _VERSIONS[self]


_VERSIONS: Final = MappingProxyType({Protocol.SESSIONED: 2, Protocol.COMPATIBLE: 1, Protocol.DEFAULT: 0})

ALL_PROTOCOLS: Final[tuple[Protocol, ...]] = tuple(Protocol)
"""In order of preference. Offer all three: the broker picks one that every member offers."""


def check_version(version: int, field: str) -> int:
    """Versions above 2 are read as 2, as in Java; a negative version is a DecodeError."""
    if version < 0:
        raise DecodeError(f"{field}: negative version {version}")
    return version
