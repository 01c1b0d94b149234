"""Members that stop when their test ends, whether it passes or fails."""

import warnings
from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from cooperator.local.broker import EmbeddedBroker
from cooperator.wire import Role
from tests.group.recording_member import RecordingMember


class NewMember(Protocol):
    def __call__(self, name: str, **settings: Any) -> RecordingMember: ...


@pytest.fixture
def new_member(broker: EmbeddedBroker, unique: str, caplog: pytest.LogCaptureFixture) -> Iterator[NewMember]:
    """Creates members of this test's group; the test starts them."""
    members: list[RecordingMember] = []

    def new_member(name: str, **settings: Any) -> RecordingMember:
        if settings.get("role") is Role.LEADER:
            settings.setdefault("instance_id", f"{unique}-operator")
        member = RecordingMember(
            settings.pop("bootstrap_servers", broker.bootstrap_servers), unique, name, **settings
        )
        members.append(member)
        return member

    yield new_member
    for member in members:
        member.membership.stop(leave=True, timeout_s=5)
    assert not [member.name for member in members if member.membership.alive]
    for record in caplog.get_records("call"):
        if "heartbeats wait" in record.getMessage():
            # This is no failure: a busy machine may starve a thread.
            warnings.warn(record.getMessage(), stacklevel=1)


@pytest.fixture
def operator(new_member: NewMember) -> RecordingMember:
    return new_member("operator", role=Role.LEADER)
