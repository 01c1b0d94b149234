"""``kafka-to-postgres``: writes records of topics to tables in PostgreSQL, exactly once.

A unit is a partition of a topic. A task is one loop of batches over its units (``microbatch``). The rows that
``transform.sql`` returns for a batch are written in one transaction with the positions that they reach: they
are inserted (``append``), or replace the row with the same key (``upsert``). The columns are those of the
table; whether they fit is checked when a task starts.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import ClassVar

from cooperator.connectors.base import Delivered, Delivery
from cooperator.connectors.conversion import ensure_letters
from cooperator.connectors.kafka_source import partition_lag, partition_units, source_partitions
from cooperator.connectors.options import Options
from cooperator.connectors.postgres import Database
from cooperator.connectors.postgres_position_offsets import (
    PostgresPositionOffsets,
    positions_of,
    stored_ends,
)
from cooperator.connectors.postgres_target import KafkaToPostgresOptions
from cooperator.connectors.postgres_task import open_postgres_task
from cooperator.connectors.tasks import InstanceContext, RunningTask, TaskConnector, TaskContext
from cooperator.connectors.topics import refuse_own_topic
from cooperator.connectors.units import Layout


class KafkaToPostgres(TaskConnector[KafkaToPostgresOptions]):
    options: ClassVar[type[Options]] = KafkaToPostgresOptions

    def delivery(self, options: KafkaToPostgresOptions) -> Delivered:
        return Delivered(
            Delivery.EXACTLY_ONCE, f"The table {options.positions_table} has the positions: keep it."
        )

    def offsets(self) -> PostgresPositionOffsets:
        return PostgresPositionOffsets()

    def lag(self, options: KafkaToPostgresOptions, ends: Mapping[str, str]) -> int:
        return partition_lag(options, ends)

    def units(self, options: KafkaToPostgresOptions, say: Callable[[str], None]) -> Sequence[str]:
        found = partition_units(source_partitions(options, say))
        ensure_letters(options)
        return found

    def open_task(self, options: KafkaToPostgresOptions, context: TaskContext) -> RunningTask:
        if context.server is not None:
            raise context.server.refusal(context.task.connector)
        refuse_own_topic(context.group_id, "errors.deadletterqueue.topic.name", options.dead_letters)
        return open_postgres_task(options, context)

    def settle_layout(
        self, options: KafkaToPostgresOptions, context: InstanceContext, layout: Layout
    ) -> None:
        positions = positions_of(options, context.group_id, context.connector)
        with closing(Database(options, context.connector, context.cancelled, context.say)) as database:
            database.run(positions.create)
            database.run(lambda connection: positions.settle_layout(connection, layout))

    def ends(
        self, options: KafkaToPostgresOptions, context: InstanceContext, units: Sequence[str]
    ) -> Mapping[str, str]:
        return stored_ends(options, context.group_id, context.connector, units)
