"""The sub-protocols of Kafka Connect's group protocol (KIP-415, KIP-507), and ours."""

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
    RECONCILED = "reconciled"
    """Ours, version 100: rounds are for membership only. Metadata and assignments have the layout of
    ``sessioned`` without tasks, which are reconciled between rounds; requests are signed."""

    @property
    def version(self) -> int:
        return _VERSIONS[self]


_VERSIONS: Final = MappingProxyType(
    {Protocol.SESSIONED: 2, Protocol.COMPATIBLE: 1, Protocol.DEFAULT: 0, Protocol.RECONCILED: 100}
)

ALL_PROTOCOLS: Final[tuple[Protocol, ...]] = (Protocol.SESSIONED, Protocol.COMPATIBLE, Protocol.DEFAULT)
"""Kafka Connect's, in order of preference. Offer all three: the broker picks one that every member offers."""


def signs_requests(protocol: str) -> bool:
    """Whether members sign their requests under the sub-protocol of this name (KIP-507)."""
    return protocol in (Protocol.SESSIONED.value, Protocol.RECONCILED.value)


def check_version(version: int, field: str) -> int:
    """Versions above 2 are read as 2, as in Java; a negative version is a DecodeError."""
    if version < 0:
        raise DecodeError(f"{field}: negative version {version}")
    return version
