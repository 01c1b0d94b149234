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
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkHost]:
    root = tmp_path_factory.mktemp("spark")
    host = SparkHost(
        RuntimeSettings("lake-0", "incarnation-1", checkpoints=root / "checkpoints", state_dir=root / "state")
    )
    yield host
    host.close(30)


@pytest.fixture
def session(host: SparkHost) -> Any:
    """A Spark session as members have it.

    pyspark has one context in a process: after a test with another session, this one is started again.
    """
    return host.session(Event())


@pytest.fixture(scope="session")
def cluster(broker: EmbeddedBroker) -> Cluster:
    """Topics of the tests' broker; ``unique`` names them."""
    return Cluster(broker.bootstrap_servers)
