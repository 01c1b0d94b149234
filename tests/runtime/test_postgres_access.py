"""A Connector's database is shown no password of the member itself."""

import threading
from pathlib import Path

import psycopg
import pytest

from cooperator.connectors.options import parse
from cooperator.connectors.postgres import Database, DatabaseUnavailable
from cooperator.connectors.postgres_target import KafkaToPostgresOptions
from tests.runtime.postgres import PASSWORD, Postgres

pytestmark = pytest.mark.real


@pytest.mark.parametrize("source", ["variable", "file", "service"])
def test_the_password_of_the_member_is_not_used(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    if source == "variable":
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
    if source == "file":
        passwords = tmp_path / "pgpass"
        passwords.write_text(f"*:*:*:*:{PASSWORD}")
        passwords.chmod(0o600)
        monkeypatch.setenv("PGPASSFILE", str(passwords))
    if source == "service":
        (tmp_path / "services").write_text(f"[own]\npassword={PASSWORD}\n")
        monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
        monkeypatch.setenv("PGSERVICE", "own")
    url = postgres.url.removeprefix("jdbc:")
    psycopg.connect(url, user="tester").close()  # The client itself would use it.
    with pytest.raises(DatabaseUnavailable, match="no password supplied"):
        database(postgres, {}).once(lambda connection: connection.execute("SELECT 1"))
    own = {"connection.password": PASSWORD}
    rows = database(postgres, own).once(lambda connection: connection.execute("SELECT 1").fetchall())
    assert rows == [(1,)]


def database(postgres: Postgres, more: dict[str, str]) -> Database:
    config = {"connector.class": "kafka-to-postgres", "topics": "a", "connection.user": "tester", **more}
    options = parse(
        KafkaToPostgresOptions,
        {**config, "connection.url": postgres.url, "bootstrap.servers": "b:1", "table.name.format": "t"},
    )
    return Database(options, "test", threading.Event(), lambda text: None)
