"""Spark's tasks connect to a real PostgreSQL with the encryption and the certificate of the member's own
connection."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from cooperator.model import TaskId
from tests.harness.support import eventually
from tests.kubernetes.certificates import Authority, Certificate
from tests.runtime.postgres import Postgres
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_kafka_to_postgres import sink, table_of
from tests.runtime.test_postgres_to_kafka import numbers, source

pytestmark = pytest.mark.real

CERTIFIED = "certified"
"""A role that logs in by its certificate, without a password."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="module")
def encrypted(authority: Authority) -> Iterator[Postgres]:
    """A server that is known as localhost only."""
    postgres = Postgres()
    served = authority.server("postgres", ["localhost"])
    postgres.encrypt(served.certificate, served.key, authority.own.certificate, CERTIFIED)
    postgres.start()
    postgres.query(f"CREATE ROLE {CERTIFIED} SUPERUSER LOGIN")
    yield postgres
    postgres.close()


@pytest.fixture(scope="module")
def certified(authority: Authority) -> Certificate:
    """The role's certificate, with its key in PKCS #8."""
    signed = authority.client(CERTIFIED)
    key = load_pem_private_key(signed.key.read_bytes(), None)
    signed.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return signed


def url_of(postgres: Postgres, parameters: dict[str, str]) -> str:
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    return f"jdbc:postgresql://localhost:{postgres.port}/postgres?{query}"


def config_for(postgres: Postgres, unique: str, **parameters: str) -> dict[str, str]:
    config = sink(postgres, topics=unique, transform_sql="SELECT value FROM input")
    return {**config, "connection.url": url_of(postgres, parameters), "table.name.format": table_of(unique)}


def connections_of(postgres: Postgres, unique: str) -> list[tuple[bool, str]]:
    """Whether each connection of a task is encrypted, and the name in its client's certificate."""
    found = postgres.query(
        "SELECT ssl, client_dn FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) "
        "WHERE application_name LIKE %s",
        f"%{unique}%",
    )
    assert len(found) > 1, "the slots' beside the member's"
    return [(is_encrypted, name or "") for is_encrypted, name in found]


OVER_TLS = "tests/runtime/test_copy_tls.py::test_rows_are_copied_over_tls"


@pytest.mark.parametrize(
    "mode",
    [
        "require",
        pytest.param("verify-ca", marks=pytest.mark.long(OVER_TLS)),
        "verify-full",
        pytest.param("system", marks=pytest.mark.long(OVER_TLS)),
    ],
)
def test_rows_are_copied_over_tls(
    spark: SparkBench,
    encrypted: Postgres,
    authority: Authority,
    unique: str,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encrypted.query(f"CREATE TABLE {table_of(unique)} (value text)")
    spark.create_topic(unique, 2)
    spark.produce(unique, [f"{number}" for number in range(50)])
    parameters = {"sslmode": mode, "sslrootcert": f"{authority.own.certificate}"}
    if mode == "require":
        del parameters["sslrootcert"]
    if mode == "system":
        parameters = {"sslrootcert": "system"}
        monkeypatch.setenv("SSL_CERT_FILE", f"{authority.own.certificate}")
    tasks = spark.start_connector(unique, config_for(encrypted, unique, **parameters), 2)
    eventually(lambda: encrypted.count(table_of(unique)) == 50, 60)
    assert set(connections_of(encrypted, unique)) == {(True, "")}
    spark.stop(*tasks)


@pytest.fixture(params=["named", "in DER", "of the member"])
def identity(
    request: pytest.FixtureRequest, certified: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Parameters by which the client has its certificate: named in the URL, or where libpq looks itself."""
    if request.param == "named":
        return {"sslcert": f"{certified.certificate}", "sslkey": f"{certified.key}"}
    if request.param == "in DER":
        key = tmp_path / "client.pk8"
        key.touch(0o600)
        pem = load_pem_private_key(certified.key.read_bytes(), None)
        key.write_bytes(pem.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))
        return {"sslcert": f"{certified.certificate}", "sslkey": f"{key}"}
    (tmp_path / ".postgresql").mkdir()
    (tmp_path / ".postgresql" / "postgresql.crt").symlink_to(certified.certificate)
    (tmp_path / ".postgresql" / "postgresql.key").symlink_to(certified.key)
    monkeypatch.setenv("HOME", f"{tmp_path}")
    return {}


COPY = pytest.mark.long(
    "tests/runtime/test_copy_tls.py::test_tasks_of_spark_copy_rows_with_the_certificate_of_the_client"
)


@pytest.mark.parametrize(
    "identity",
    [pytest.param("named", marks=COPY), "in DER", pytest.param("of the member", marks=COPY)],
    indirect=True,
)
def test_tasks_of_spark_copy_rows_with_the_certificate_of_the_client(
    spark: SparkBench, encrypted: Postgres, unique: str, identity: dict[str, str]
) -> None:
    encrypted.query(f"CREATE TABLE {table_of(unique)} (value text)")
    spark.create_topic(unique, 2)
    spark.produce(unique, [f"{number}" for number in range(50)])
    config = config_for(encrypted, unique, sslmode="require", **identity)
    login = {"connection.user": CERTIFIED, "connection.password": ""}
    tasks = spark.start_connector(unique, {**config, **login}, 2)
    eventually(lambda: encrypted.count(table_of(unique)) == 50, 60)
    assert set(connections_of(encrypted, unique)) == {(True, f"/CN={CERTIFIED}")}
    spark.stop(*tasks)


READ = pytest.mark.long(
    "tests/runtime/test_copy_tls.py::test_tasks_of_spark_read_tables_with_the_certificate_of_the_client"
)


@pytest.mark.parametrize(
    "identity",
    [pytest.param("named", marks=READ), pytest.param("in DER", marks=READ), "of the member"],
    indirect=True,
)
def test_tasks_of_spark_read_tables_with_the_certificate_of_the_client(
    spark: SparkBench, encrypted: Postgres, unique: str, identity: dict[str, str]
) -> None:
    table = table_of(unique)
    encrypted.query(f"CREATE TABLE {table} (id bigserial PRIMARY KEY)")
    encrypted.query(f"INSERT INTO {table} SELECT FROM generate_series(1, 50)")
    url = url_of(encrypted, {"sslmode": "require", **identity})
    login = {"connection.url": url, "connection.user": CERTIFIED, "connection.password": ""}
    tasks = spark.start_connector(unique, {**source(encrypted, tables=table, topic=unique), **login}, 1)
    eventually(lambda: spark.end_of(unique) >= 50, 60)
    assert set(connections_of(encrypted, unique)) == {(True, f"/CN={CERTIFIED}")}
    spark.stop(*tasks)
    assert numbers(spark, unique) == list(range(1, 51))


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
