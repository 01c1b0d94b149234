"""A group of its own for each test, on the run's broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cooperator.local.broker import EmbeddedBroker
from tests.harness.member_group import MemberGroup


@pytest.fixture
def group(broker: EmbeddedBroker, unique: str, tmp_path: Path) -> Iterator[MemberGroup]:
    group = MemberGroup(broker.bootstrap_servers, tmp_path, unique)
    yield group
    group.close()
