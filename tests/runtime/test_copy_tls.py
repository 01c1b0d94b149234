"""Spark's tasks connect to a real PostgreSQL with the encryption that the member's own connection has."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cooperator.model import TaskId
from tests.harness.support import eventually
from tests.kubernetes.certificates import Authority
from tests.runtime.postgres import Postgres
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_kafka_to_postgres import sink, table_of

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="module")
def encrypted(authority: Authority) -> Iterator[Postgres]:
    """A server that is known as localhost only."""
    postgres = Postgres()
    served = authority.server("postgres", ["localhost"])
    postgres.encrypt(served.certificate, served.key)
    postgres.start()
    yield postgres
    postgres.close()


def config_for(postgres: Postgres, unique: str, **parameters: str) -> dict[str, str]:
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    url = f"jdbc:postgresql://localhost:{postgres.port}/postgres?{query}"
    config = sink(postgres, topics=unique, transform_sql="SELECT value FROM input")
    return {**config, "connection.url": url, "table.name.format": table_of(unique)}


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_rows_are_copied_over_tls(
    spark: SparkBench, encrypted: Postgres, authority: Authority, unique: str, mode: str
) -> None:
    encrypted.query(f"CREATE TABLE {table_of(unique)} (value text)")
    spark.create_topic(unique, 2)
    spark.produce(unique, [f"{number}" for number in range(50)])
    root = {} if mode == "require" else {"sslrootcert": f"{authority.own.certificate}"}
    tasks = spark.start_connector(unique, config_for(encrypted, unique, sslmode=mode, **root), 2)
    eventually(lambda: encrypted.count(table_of(unique)) == 50, 60)
    connections = encrypted.query(
        "SELECT application_name, ssl FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) "
        "WHERE application_name LIKE %s",
        f"%{unique}%",
    )
    assert len(connections) > 1, "the slots' beside the member's"
    assert all(is_encrypted for _, is_encrypted in connections)
    spark.stop(*tasks)


def test_a_server_of_another_authority_is_refused(
    spark: SparkBench, encrypted: Postgres, tmp_path: Path, unique: str
) -> None:
    encrypted.query(f"CREATE TABLE {table_of(unique)} (value text)")
    spark.produce(unique, ["1"])
    other = Authority(tmp_path / "other")
    config = config_for(encrypted, unique, sslmode="verify-full", sslrootcert=f"{other.own.certificate}")
    task = TaskId(unique, 0)
    spark.start(task, {**config, "task.units": f"{unique}-0"})
    eventually(lambda: "SSL error" in spark.heard.texts.get(task, ""), 60)
    assert encrypted.count(table_of(unique)) == 0
    spark.stop(task)
