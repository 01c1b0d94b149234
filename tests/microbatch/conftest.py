"""Fixtures: the session of the tests' Spark, and a cluster with topics."""

from threading import Event
from typing import Any

import pytest

from cooperator.local.broker import EmbeddedBroker
from tests.microbatch.cluster import Cluster
from tests.runtime.spark_bench import SparkBench


@pytest.fixture
def session(spark: SparkBench) -> Any:
    """A Spark session as members have it."""
    return spark.runtime.session(Event())


@pytest.fixture(scope="session")
def cluster(broker: EmbeddedBroker) -> Cluster:
    """Topics of the tests' broker; ``unique`` names them."""
    return Cluster(broker.bootstrap_servers)
