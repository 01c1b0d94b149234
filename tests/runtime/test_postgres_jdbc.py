"""Spark's tasks connect to PostgreSQL as the member does, or a Connector is refused."""

from pathlib import Path
from threading import Event
from typing import Any

import pytest
from psycopg import pq

from cooperator.connectors import validate
from cooperator.connectors.options import OptionError
from cooperator.connectors.postgres_jdbc import JdbcSettings, jdbc_properties, jdbc_settings
from cooperator.connectors.postgres_parameters import remedy_of
from cooperator.model import TaskId
from tests.harness.support import eventually
from tests.runtime.postgres import PASSWORD, Postgres
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_kafka_to_postgres import sink
from tests.runtime.test_postgres_to_kafka import source

URL = "jdbc:postgresql://db/shop"
CONFIGS = {
    "kafka-to-postgres": {"topics": "orders"},
    "postgres-to-kafka": {"tables": "orders", "mode": "incrementing"},
}
NO_CERTIFICATE = {"sslcert": "", "sslkey": ""}
REFUSED = {
    *("gsslib", "oauth_client_id", "oauth_client_secret", "oauth_issuer", "oauth_scope", "replication"),
    *("scram_client_key", "scram_server_key", "sslcrl", "sslcrldir", "sslkeylogfile", "sslpassword"),
}
"""libpq's parameters that the driver follows in no value."""
CHOICES = {
    "gssencmode": ("prefer", "require"),
    "gssdelegation": ("0", "1"),
    "krbsrvname": ("postgres", "other"),
    "min_protocol_version": ("3.0", "3.2"),
    "require_auth": ("scram-sha-256", "oauth"),
    "ssl_min_protocol_version": ("TLSv1.2", "TLSv1.3"),
    "ssl_max_protocol_version": ("TLSv1.3", "TLSv1.2"),
    "sslcertmode": ("disable", "require"),
    "sslsni": ("1", "0"),
}
"""Parameters with a value that the driver follows, and one that it does not."""
FOLLOWED = {
    *("application_name", "channel_binding", "client_encoding", "connect_timeout", "dbname"),
    *("fallback_application_name", "host", "hostaddr", "keepalives", "keepalives_count", "keepalives_idle"),
    *("keepalives_interval", "load_balance_hosts", "max_protocol_version", "options", "passfile", "password"),
    *("port", "requirepeer", "service", "servicefile", "sslcert", "sslcompression", "sslkey", "sslmode"),
    *("sslnegotiation", "sslrootcert", "target_session_attrs", "tcp_user_timeout", "user"),
}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, {}),
        ({"host": "h", "port": "1", "user": "u", "target_session_attrs": "read-write"}, {}),
        ({"client_encoding": "LATIN1", "gssencmode": "prefer", "sslsni": "1", "sslcompression": "1"}, {}),
        ({"sslmode": "require"}, {"sslmode": "require"}),
        ({"channel_binding": "require"}, {"channelBinding": "require"}),
        (
            {"sslmode": "require", "sslnegotiation": "direct"},
            {"sslmode": "require", "sslNegotiation": "direct"},
        ),
        ({"require_auth": "!password,!md5"}, {"requireAuth": "!password,!md5"}),
        (
            {"options": "-c lock_timeout=5s", "application_name": "a"},
            {"options": "-c lock_timeout=5s", "ApplicationName": "a"},
        ),
    ],
)
def test_parameters_of_libpq_are_those_of_the_driver(
    given: dict[str, str], found: dict[str, str], tmp_path: Path
) -> None:
    assert jdbc_properties(given, tmp_path) == {**found, **NO_CERTIFICATE}


@pytest.mark.parametrize("class_name", CONFIGS)
@pytest.mark.parametrize(
    ("parameter", "remedy"),
    [
        ("sslcrl=/crl", "remove it"),
        ("sslcrldir=/crls", "remove it"),
        ("require_auth=oauth", "use some of gss, md5, none, password, scram-sha-256, sspi"),
        ("require_auth=!gss,!md5,!none,!password,!scram-sha-256,!sspi", "use some of gss"),
        ("gssencmode=require", "remove it, or use disable or prefer"),
        ("krbsrvname=other", "remove it, or use postgres"),
        ("min_protocol_version=3.2", "remove it, or use 3.0"),
        ("ssl_min_protocol_version=TLSv1.3", "remove it, or use TLSv1.2"),
        ("ssl_max_protocol_version=TLSv1.2", "remove it, or use TLSv1.3"),
        ("sslcertmode=require", "remove it, or use allow or disable"),
        ("sslsni=0", "remove it, or use 1"),
        ("sslsni=", "remove it, or use 1"),
        ("sslrootcert=system&sslmode=require", "write verify-full"),
    ],
)
def test_a_url_that_the_driver_cannot_follow_is_refused(class_name: str, parameter: str, remedy: str) -> None:
    url = f"{URL}?{parameter}"
    [problem] = validate(class_name, {**CONFIGS[class_name], "connection.url": url})
    assert (problem.option, problem.value) == ("connection.url", url)
    assert parameter.partition("=")[0] in problem.problem
    assert problem.remedy.startswith(remedy)


@pytest.mark.parametrize(
    "parameters",
    [
        "sslmode=verify-full&sslrootcert=/ca.pem&sslcert=/client.crt&sslkey=/client.key",
        "sslrootcert=system",
        "sslmode=require&sslnegotiation=direct&require_auth=scram-sha-256&channel_binding=require",
        "gssencmode=disable&ssl_min_protocol_version=TLSv1.2&sslsni=1&sslcertmode=disable",
    ],
)
def test_a_url_that_the_driver_follows_is_accepted(parameters: str) -> None:
    for class_name, config in CONFIGS.items():
        assert not validate(class_name, {**config, "connection.url": f"{URL}?{parameters}"})


def test_each_parameter_of_libpq_is_followed_or_refused() -> None:
    """A parameter that is missing here is one of a newer libpq."""
    names = {each.keyword.decode() for each in pq.Conninfo.get_defaults()}
    assert names - REFUSED - FOLLOWED - CHOICES.keys() == set()
    assert all(remedy_of(name, "x") for name in REFUSED)
    assert not any(remedy_of(name, "x") for name in FOLLOWED)
    for name, (good, bad) in CHOICES.items():
        assert not remedy_of(name, good)
        assert remedy_of(name, bad)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sslcrl": "/crl"}, "sslcrl=/crl from the member's environment: .*; unset PGSSLCRL for"),
        ({"require_auth": "oauth"}, "require_auth=oauth from .*; unset PGREQUIREAUTH for"),
        ({"sslpassword": "secret"}, "sslpassword from .*; unset PGSERVICE for"),
        ({"sslrootcert": "system"}, "sslrootcert=system from .*; set sslrootcert in connection.url"),
    ],
)
def test_a_parameter_from_the_environment_is_refused_with_its_variable(
    given: dict[str, str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match=f"'connection.url': does not work with {said}"):
        jdbc_properties({"sslmode": "verify-full", **given}, tmp_path)


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


@pytest.mark.real
@pytest.mark.parametrize("class_name", CONFIGS)
def test_a_task_ends_at_its_start_where_the_environment_asks_for_more_than_the_driver_can(
    spark: SparkBench,
    postgres: Postgres,
    unique: str,
    class_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, task = unique.replace("-", "_"), TaskId(unique, 0)
    postgres.query(f"CREATE TABLE {table} (value text, id bigserial PRIMARY KEY)")
    if class_name == "kafka-to-postgres":
        spark.create_topic(unique, 1)
        config = {**sink(postgres, topics=unique), "table.name.format": table, "task.units": f"{unique}-0"}
    else:
        config = {**source(postgres, tables=table, topic=unique), "task.units": table}
    monkeypatch.setenv("PGSSLSNI", "0")
    spark.start(task, config)
    eventually(lambda: spark.heard.of(task) == [("failed", 1)], 60)
    assert "does not work with sslsni=0 from the member's environment" in spark.heard.traces[task, 1]
    assert "unset PGSSLSNI for the Worker's members" in spark.heard.traces[task, 1]
