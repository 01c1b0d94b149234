"""A stage for each test: an own group on the run's broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cooperator.local.broker import EmbeddedBroker
from stage import Stage


@pytest.fixture
def stage(broker: EmbeddedBroker, unique: str, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(broker.bootstrap_servers, tmp_path, unique)
    yield stage
    stage.close()
