"""One group for the whole table, and one strike of each fault for all of its cells."""

from collections.abc import Iterator

import pytest

from cooperator.local.broker import EmbeddedBroker
from guarantees.faults import Fault
from guarantees.pipelines import PIPELINES, Kafka, Place
from guarantees.world import Disk, World
from runtime.postgres import Postgres
from stage import Stage


@pytest.fixture(scope="module")
def world(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("guarantees")
    disk = Disk(directory / "disk")
    postgres = Postgres()
    postgres.start()
    kafka = Kafka(broker.bootstrap_servers)
    place = Place(kafka, postgres, directory.name, directory / "sources", disk.directory)
    stage = Stage(broker.bootstrap_servers, directory, directory.name)
    world = World(stage, broker, disk, [pipeline(place) for pipeline in PIPELINES])
    try:
        world.begin()
        yield world
    finally:
        stage.close()
        disk.close()
        postgres.close()


@pytest.fixture(scope="module")
def struck(world: World, request: pytest.FixtureRequest) -> World:
    """The world after a fault in the middle of its streams, when all tasks run again."""
    fault: Fault = request.param
    world.settled()
    world.flowing()
    fault.strike(world)
    world.feed()
    world.settled()
    return world
