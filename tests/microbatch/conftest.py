"""Fixtures: one Spark session for all tests of this package, and a cluster with topics."""

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from cooperator.local.broker import EmbeddedBroker
from cooperator.runtime import RuntimeSettings
from cooperator.runtime.session import SparkHost
from tests.microbatch.cluster import Cluster


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark session as members have it."""
    root = tmp_path_factory.mktemp("spark")
    host = SparkHost(
        RuntimeSettings("lake-0", "life-1", checkpoints=root / "checkpoints", state_dir=root / "state")
    )
    yield host.session(Event())
    host.close(30)


@pytest.fixture(scope="session")
def cluster(broker: EmbeddedBroker) -> Cluster:
    """Topics of the tests' broker; ``unique`` names them."""
    return Cluster(broker.bootstrap_servers)
