"""One group for the table's faults, another one with executors, and one occurrence of each fault for all of
its cells."""

from collections.abc import Iterator

import pytest

from cooperator.local.broker import EmbeddedBroker
from tests.guarantees.faults import Fault
from tests.guarantees.pipeline import Kafka, Place
from tests.guarantees.pipelines import PIPELINES
from tests.guarantees.pipelines_group import Disk, PipelinesGroup
from tests.harness.member_group import MemberGroup
from tests.runtime.postgres import Postgres
from tests.runtime.spark_servers import StandaloneCluster


@pytest.fixture(scope="module")
def pipelines_group(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[PipelinesGroup]:
    """The parameter tells whether members have two executors each on a cluster of Spark's own kind."""
    directory = tmp_path_factory.mktemp("guarantees")
    disk = Disk(directory / "disk")
    postgres = Postgres()
    postgres.start()
    kafka = Kafka(broker.bootstrap_servers)
    place = Place(kafka, postgres, directory.name, directory / "sources", disk.directory)
    group = MemberGroup(broker.bootstrap_servers, directory, directory.name)
    spark = StandaloneCluster(directory, cores=4) if request.param else None
    conf = spark.conf(2) if spark else {}
    pipelines_group = PipelinesGroup(group, broker, disk, [pipeline(place) for pipeline in PIPELINES], conf)
    try:
        pipelines_group.begin()
        yield pipelines_group
    finally:
        group.close()
        if spark:
            spark.close()
        disk.close()
        postgres.close()


@pytest.fixture(scope="module")
def after_fault(pipelines_group: PipelinesGroup, request: pytest.FixtureRequest) -> PipelinesGroup:
    """The group after a fault in mid-stream, once all tasks run again."""
    fault: Fault = request.param
    pipelines_group.settled()
    pipelines_group.flowing()
    fault.strike(pipelines_group)
    pipelines_group.feed()
    pipelines_group.settled()
    return pipelines_group
