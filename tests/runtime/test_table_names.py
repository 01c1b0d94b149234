"""Tables whose names cannot be read, or have no legal topic, are named with a remedy, and others are read."""

import threading
from contextlib import closing

import pytest

from cooperator.connectors.options import parse
from cooperator.connectors.postgres import Database
from cooperator.connectors.postgres_source import source_tables
from cooperator.connectors.tablelogs.options import TableToKafkaOptions
from tests.runtime.postgres import Postgres

pytestmark = pytest.mark.real


def found_by(postgres: Postgres, pattern: str, topic: str) -> tuple[list[str], str]:
    """The tables that a connector reads, and what it says of others."""
    config = {"connector.class": "x", "mode": "incrementing", "tables.regex": pattern, "topic": topic}
    options = parse(TableToKafkaOptions, {**config, "bootstrap.servers": "unused:1", **postgres.config})
    said: list[str] = []
    with closing(Database(options, "names", threading.Event(), said.append)) as database:
        return list(source_tables(database, options, said.append)), said[-1]


@pytest.fixture
def schema(postgres: Postgres, unique: str) -> str:
    name = unique.replace("-", "_")
    postgres.query(f"CREATE SCHEMA {name}")
    return name


def create(postgres: Postgres, schema: str, *names: str) -> None:
    for name in names:
        postgres.query(f'CREATE TABLE "{schema}"."{name}" (id serial PRIMARY KEY)')


def test_a_name_that_makes_no_topic_is_left_out_with_a_word(postgres: Postgres, schema: str) -> None:
    create(postgres, schema, "plain", "größe x", "pay$me")
    found, said = found_by(postgres, f"{schema}[.].*", "shop.{table}")
    assert found == [f"{schema}.plain"]
    for name in ("größe x", "pay$me"):
        assert f"table '{schema}.{name}' is not read: 'shop.{name}' is not a valid topic name: rename" in said
    found, said = found_by(postgres, f"{schema}[.].*", "shop")
    assert (sorted(found), said) == ([f"{schema}.{name}" for name in ("größe x", "pay$me", "plain")], "")


@pytest.mark.parametrize("name", ["a,b", "a/b", "a ", "a\u202eb"])
def test_a_name_that_lists_and_keys_cannot_have_is_left_out_with_a_word(
    postgres: Postgres, schema: str, name: str
) -> None:
    create(postgres, schema, name, "plain")
    found, said = found_by(postgres, f"{schema}[.].*", "shop")
    assert found == [f"{schema}.plain"]
    assert said.startswith(f"table {f'{schema}.{name}'!r} is not read: its name has a comma, a slash,")
    assert said.endswith("rename it, or read a view of it by the option tables")


def test_a_schema_with_a_dot_is_left_out_with_a_word(postgres: Postgres, schema: str) -> None:
    postgres.query(f'CREATE SCHEMA "{schema}.x"')
    create(postgres, f"{schema}.x", "y")
    found, said = found_by(postgres, f"{schema}[.].*", "shop")
    assert found == []
    assert said == (
        f"waiting for a table that matches {schema}[.].*; table '{schema}.x.y' is not read: the name of its "
        "schema has a dot: rename the schema"
    )


def test_of_many_tables_that_are_left_out_some_are_named(postgres: Postgres, schema: str) -> None:
    create(postgres, schema, *(f"{number},x" for number in range(8)))
    said = found_by(postgres, f"{schema}[.].*", "shop")[1]
    assert said.count("is not read") == 5
    assert said.endswith("; nor are 3 more that match tables.regex")
