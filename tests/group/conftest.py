"""Parties that end with their test, however it ends."""

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from cooperator.local import EmbeddedBroker
from cooperator.wire import Role
from group.party import Party


class Invite(Protocol):
    def __call__(self, name: str, **settings: Any) -> Party: ...


@pytest.fixture
def invite(broker: EmbeddedBroker, unique: str) -> Iterator[Invite]:
    """Make a member of this test's group; ``start`` is the test's."""
    guests: list[Party] = []

    def invite(name: str, **settings: Any) -> Party:
        if settings.get("role") is Role.LEADER:
            settings.setdefault("instance_id", f"{unique}-operator")
        guest = Party(settings.pop("bootstrap_servers", broker.bootstrap_servers), unique, name, **settings)
        guests.append(guest)
        return guest

    yield invite
    for guest in guests:
        guest.membership.stop(leave=True, timeout_s=5)
    assert not [guest.name for guest in guests if guest.membership.alive]


@pytest.fixture
def operator(invite: Invite) -> Party:
    return invite("operator", role=Role.LEADER)
