"""The options of connectors that read tables and write to topics."""

import re
from collections.abc import Iterable
from typing import Annotated, Final, Self

from pydantic import AfterValidator, model_validator

from cooperator.connectors.encoding import EncodingOptions
from cooperator.connectors.kafka_sink import KafkaSinkOptions
from cooperator.connectors.options import is_topic_name, option, refuse
from cooperator.connectors.postgres_source import PostgresSourceOptions
from cooperator.connectors.sql_rules import treats_rows_alone

_TABLE = "{table}"
_SCHEMA = "{schema}"
_VARIABLE: Final = re.compile(r"\{(?:table|schema)\}")
_OTHER_TOPIC: Final = "rename the table, or read it by a connector whose topic has no {table} or {schema}"
APART: Final = "write {schema}.{table}, or a topic without {table} if their rows are to be together"


def _pattern(value: str) -> str:
    if not is_topic_name(value.replace(_TABLE, "t").replace(_SCHEMA, "s")):
        remedy = (
            "use letters, digits, dots, underscores and dashes; {schema} and {table} stand for the source's"
        )
        raise refuse("is not a valid topic name", remedy)
    return value


class TableToKafkaOptions(PostgresSourceOptions, KafkaSinkOptions, EncodingOptions):
    topic: Annotated[str, AfterValidator(_pattern)] = option(
        "topic",
        _TABLE,
        expected="the topic to write to; {schema} and {table} stand for the source's, as in shop.{table}",
        fixed=True,
    )
    partitions: int = option(
        "topic.partitions",
        4,
        expected="the number of partitions to create a topic with, 1 or more",
        instance_only=True,
        ge=1,
    )

    @property
    def has_state(self) -> bool:
        """Whether the SELECT may make a row of several rows of a batch."""
        return bool(self.transform_sql) and not treats_rows_alone(self.transform_sql)

    def target(self, table: str) -> str:
        """Returns the topic that rows of ``table`` go to."""
        schema, _, name = table.partition(".") if "." in table else ("public", "", table)
        named = {_TABLE: name, _SCHEMA: schema}
        return _VARIABLE.sub(lambda found: named[found[0]], self.topic)

    def why_unreadable(self, schema: str, table: str) -> str:
        topic = self.target(f"{schema}.{table}")
        return super().why_unreadable(schema, table) or (
            "" if is_topic_name(topic) else f"{topic!r} is not a valid topic name: {_OTHER_TOPIC}"
        )

    def together(self, tables: Iterable[str]) -> tuple[str, str] | None:
        """Returns two tables whose rows would meet in one topic although topics are named after tables; None:
        there are none. Rows of both may have the same keys.
        """
        if _TABLE not in self.topic:
            return None
        by_topic: dict[str, str] = {}
        for table in tables:
            if (other := by_topic.setdefault(self.target(table), table)) != table:
                return other, table
        return None

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.together(self.tables):
            raise refuse("stands for one topic of two of the tables", APART, "topic")
        return self
