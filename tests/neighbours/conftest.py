"""One member for all cells of a process, and two connectors in it that no fault touches."""

from collections.abc import Iterator

import pytest

from tests.neighbours.pipelines import KafkaToKafka, Pipeline, PostgresToKafka, World
from tests.runtime.postgres import Postgres
from tests.runtime.spark_bench import SparkBench


@pytest.fixture(scope="session")
def world(spark: SparkBench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    tables = Postgres()
    tables.start()
    yield World(spark, tables, tmp_path_factory.mktemp("neighbours"))
    tables.close()


@pytest.fixture(scope="session")
def neighbours(world: World) -> Iterator[list[Pipeline]]:
    made = [KafkaToKafka(world, "next-kafka"), PostgresToKafka(world, "next-postgres")]
    for each in made:
        each.start()
    yield made
    for each in made:
        each.stop()
