"""Spark's tasks connect to PostgreSQL as the member does, or not at all."""

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from cooperator.connectors.postgres_jdbc import JdbcSettings, NotByJdbc, jdbc_properties, jdbc_settings
from tests.runtime.postgres import PASSWORD, Postgres
from tests.runtime.spark_bench import SparkBench


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, {}),
        ({"host": "h", "port": "1", "user": "u", "target_session_attrs": "read-write"}, {}),
        ({"client_encoding": "LATIN1", "gssencmode": "prefer", "sslsni": "1"}, {}),
        ({"sslmode": "require"}, {"sslmode": "require"}),
        (
            {"sslmode": "verify-full", "sslrootcert": "/ca.pem", "channel_binding": "require"},
            {"sslmode": "verify-full", "sslrootcert": "/ca.pem", "channelBinding": "require"},
        ),
        # libpq verifies the server where it has a root, whatever the name of the mode says.
        (
            {"sslmode": "require", "sslrootcert": "/ca.pem"},
            {"sslmode": "verify-ca", "sslrootcert": "/ca.pem"},
        ),
        (
            {"options": "-c lock_timeout=5s", "application_name": "a"},
            {"options": "-c lock_timeout=5s", "ApplicationName": "a"},
        ),
    ],
)
def test_parameters_of_libpq_are_those_of_the_driver(
    given: dict[str, str], found: dict[str, str], tmp_path: Path
) -> None:
    assert jdbc_properties(given, tmp_path) == found


@pytest.mark.parametrize(
    "given",
    [
        {"sslcert": "/client.pem"},
        {"sslcrl": "/crl"},
        {"sslrootcert": "system"},
        {"sslmode": "verify-full"},
        {"require_auth": "scram-sha-256"},
        {"gssencmode": "require"},
        {"ssl_min_protocol_version": "TLSv1.3"},
        {"sslnegotiation": "direct"},
        {"krbsrvname": "other"},
    ],
)
def test_the_driver_is_not_used_where_it_lacks_a_parameter(given: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(NotByJdbc, match=next(iter(given.values()))):
        jdbc_properties(given, tmp_path)


def test_a_root_of_the_member_itself_is_not_forgotten(tmp_path: Path) -> None:
    assert jdbc_properties({"sslmode": "require"}, tmp_path) == {"sslmode": "require"}
    (tmp_path / ".postgresql").mkdir()
    (tmp_path / ".postgresql" / "root.crt").touch()
    with pytest.raises(NotByJdbc, match="sslmode=require without sslrootcert"):
        jdbc_properties({"sslmode": "require"}, tmp_path)


def test_no_text_of_the_settings_has_the_password() -> None:
    assert "secret" not in repr(JdbcSettings("jdbc:postgresql://h:1/d", "::1", 1, {"password": "secret"}))


@pytest.mark.real
def test_the_driver_uses_no_password_of_the_member(
    spark: SparkBench, postgres: Postgres, tmp_path: Path
) -> None:
    untyped: Any = spark.runtime.session(Event())
    java = untyped._jvm
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"*:*:*:*:{PASSWORD}")
    passwords.chmod(0o600)
    java.java.lang.System.setProperty("org.postgresql.pgpassfile", str(passwords))
    try:
        with postgres.session() as connection:
            settings = jdbc_settings(connection)
        properties = java.java.util.Properties()
        for name, value in settings.properties.items():
            properties.setProperty(name, value)
        driver = java.org.postgresql.Driver()
        driver.connect(settings.url, properties).close()
        properties.setProperty("password", "")
        with pytest.raises(Exception, match="password"):
            driver.connect(settings.url, properties)
    finally:
        java.java.lang.System.clearProperty("org.postgresql.pgpassfile")
