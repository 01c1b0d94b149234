"""``postgres-to-kafka``: writes rows of tables in PostgreSQL to topics, exactly once.

A unit is a table. A task is one loop of batches over its tables (``tablelogs``): Spark's tasks read the rows
between two positions (see ``postgres_source``), and commit them with the positions that they reach in one
transaction, so readers need ``read_committed``. Each row becomes a record: the key is the table's primary
key, the value the columns.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import ClassVar

from cooperator.connectors.base import Delivered
from cooperator.connectors.kafka_sink import DELIVERED
from cooperator.connectors.microbatch.members import settle_layout
from cooperator.connectors.offsets.sources import ConnectorOffsets
from cooperator.connectors.options import OptionError, Options, Problem, is_topic_name
from cooperator.connectors.postgres import Database
from cooperator.connectors.postgres_source import source_tables
from cooperator.connectors.tablelogs.options import APART, TableToKafkaOptions
from cooperator.connectors.tasks import InstanceContext, RunningTask, TaskConnector, TaskContext
from cooperator.connectors.topics import client_config, ensure_topic, reaching
from cooperator.connectors.units import Layout


class PostgresToKafka(TaskConnector[TableToKafkaOptions]):
    options: ClassVar[type[Options]] = TableToKafkaOptions

    def delivery(self, options: TableToKafkaOptions) -> Delivered:
        return DELIVERED

    def offsets(self) -> ConnectorOffsets[TableToKafkaOptions]:
        # A command that only checks options does not load all that a task needs.
        from cooperator.connectors.postgres_offsets import TableOffsets

        return TableOffsets()

    def units(self, options: TableToKafkaOptions, say: Callable[[str], None]) -> Sequence[str]:
        with closing(Database(options, "units", threading.Event(), say)) as database:
            tables = source_tables(database, options, say)
        if found := options.together(tables):
            problem = f"stands for {options.target(found[0])} for both {' and '.join(found)}"
            raise OptionError([Problem("topic", options.topic, problem, APART)])
        with reaching(options):
            for topic in dict.fromkeys(map(options.target, tables)):
                if not is_topic_name(topic):
                    remedy = "write another name, or one without {schema}"
                    raise OptionError(
                        [Problem("topic", options.topic, f"{topic} is not a valid topic name", remedy)]
                    )
                ensure_topic(client_config(options), topic, options.partitions, options.replication)
        return tables

    def open_task(self, options: TableToKafkaOptions, context: TaskContext) -> RunningTask:
        if context.server is not None:
            raise context.server.refusal(context.task.connector)
        from cooperator.connectors.tablelogs.task import open_tables_task

        return open_tables_task(options, context)

    def settle_layout(self, options: TableToKafkaOptions, context: InstanceContext, layout: Layout) -> None:
        settle_layout(client_config(options), context, layout)

    def ends(
        self, options: TableToKafkaOptions, context: InstanceContext, units: Sequence[str]
    ) -> Mapping[str, str]:
        return dict.fromkeys(units, "")  # Nothing counts the rows of a table.
