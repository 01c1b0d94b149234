"""A group of its own for each test, or one for all of a file, on the run's broker."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cooperator.local.broker import EmbeddedBroker
from tests.harness.member_group import MemberGroup


@pytest.fixture
def group(broker: EmbeddedBroker, unique: str, tmp_path: Path) -> Iterator[MemberGroup]:
    with closing(MemberGroup(broker.bootstrap_servers, tmp_path, unique)) as group:
        yield group


@pytest.fixture(scope="module")
def shared(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory, file_name: str
) -> Iterator[MemberGroup]:
    """One for all tests of a file, with its name."""
    with closing(
        MemberGroup(broker.bootstrap_servers, tmp_path_factory.mktemp(file_name), file_name)
    ) as group:
        yield group
