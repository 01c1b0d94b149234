"""A task that copies tables into topics: what its loop needs (compare ``microbatch.kafka_task``)."""

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from cooperator.connectors.access import of_java
from cooperator.connectors.microbatch.batches import Stand
from cooperator.connectors.microbatch.earlier import EarlierUnits
from cooperator.connectors.microbatch.kafka_task import opening_of, owned_units
from cooperator.connectors.microbatch.loop import TaskLoop
from cooperator.connectors.microbatch.ranges import Grouping, Limits, Partition
from cooperator.connectors.microbatch.task import LoopTask, Shown, run_loop
from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.output_record import OutputRecord
from cooperator.connectors.postgres import Database
from cooperator.connectors.postgres_jdbc import jdbc_settings
from cooperator.connectors.postgres_source import offset_of
from cooperator.connectors.references import own_topics
from cooperator.connectors.tablelogs.arrivals import NewRows
from cooperator.connectors.tablelogs.batches import TableBatches, TableSource
from cooperator.connectors.tablelogs.database import PostgresTables
from cooperator.connectors.tablelogs.earlier import TablePosition
from cooperator.connectors.tablelogs.options import TableToKafkaOptions
from cooperator.connectors.tablelogs.table_log import TableLogs
from cooperator.connectors.tablelogs.units import TableUnits
from cooperator.connectors.tasks import TaskContext
from cooperator.connectors.topics import client_config

_TASK_ROWS: Final = 100_000
"""The maximum number of rows in a batch of a task, unless a table may have more."""


def open_tables_task(options: TableToKafkaOptions, context: TaskContext) -> LoopTask:
    """Claims the units and returns the task once it runs. Raises what it fails with, and ``Cancelled``."""
    _refuse_own_topics(options, context)
    member = context.session()
    stopped = threading.Event()
    # The name of a unit may end like that of a partition, and stays a name.
    units = {Partition(unit, 0): unit for unit in context.units}
    client, connector = client_config(options), context.task.connector
    producer = {
        **of_java(options),
        "max.request.size": str(options.most_in_request),
        "transaction.timeout.ms": str(options.transaction_timeout_ms),
    }
    database = Database(options, str(context.task), context.cancelled, context.say)
    is_open = False
    try:
        # A connection that Spark's tasks cannot have is reported now.
        database.run(jdbc_settings)
        tables = PostgresTables(database, options, units)
        opening = opening_of(context, client, producer, member, stopped)
        earlier = EarlierUnits(
            options,
            context.group_id,
            connector,
            opening.patience,
            context.checkpoint,
            lambda unit: TablePosition(),
        )
        unmarked: set[str] = set()

        def taken_over(missing: Sequence[str]) -> Mapping[str, Stand]:
            earlier.ensure()
            found = earlier.taken_over(missing, earlier.markers())
            unmarked.update(set(missing) - found.keys())
            return {unit: Stand(0, position) for unit, position in found.items() if position}

        def beside(partition: Partition) -> list[OutputRecord]:
            unit = units[partition]
            return [earlier.closing(unit)] if unit in unmarked else []

        logs = TableLogs(units)
        source = TableSource(options, tables.described, database, str(context.task), beside)
        batches = TableBatches(opening.spark, source, logs, opening.target)
        is_open = True
    finally:
        if not is_open:
            database.close()
    # From here on the loop uses the database, and closes it.
    database.cancelled_by(stopped)
    arrivals = NewRows(logs, tables, options.trigger_interval_ms, options.max_rows, context.say)
    loop = TaskLoop(
        units=tuple(units),
        ownership=TableUnits(owned_units(context, opening, batches.open, units), logs, taken_over),
        batches=batches,
        ends=arrivals,
        limits=_limits(options, len(units)),
        grouping=Grouping(opening.target.slots.count),
        first_offsets=lambda missing: dict.fromkeys(missing, 0),
        say=context.say,
        cut=arrivals.cut,
        stopped=stopped,
    )

    def end(unit: str, at: int | None) -> str:
        log = logs[Partition(unit, 0)]
        return json.dumps(offset_of(log.position)) if log.position and log.next == at else ""

    return run_loop(context, member, loop, units, Shown(end))


def _limits(options: TableToKafkaOptions, units: int) -> Limits:
    """Rows that are collected are held in memory, so the limit is that of all tables then."""
    if options.has_state:
        return Limits(options.max_rows, options.max_rows)
    return Limits(options.max_rows, max(options.max_rows, min(_TASK_ROWS, options.max_rows * units)))


def _refuse_own_topics(options: TableToKafkaOptions, context: TaskContext) -> None:
    """Raises ``OptionError`` if rows would go to a topic of the Worker's own group."""
    own = {options.target(unit) for unit in context.units} & own_topics(context.group_id)
    if own:
        problem = f"stands for {min(own)}, a topic of the Worker's own group"
        raise OptionError([Problem("topic", options.topic, problem, "use another topic")])
