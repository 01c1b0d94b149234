"""A task that copies files into a topic: what its loop needs (compare ``microbatch.kafka_task``)."""

import json
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from cooperator.connectors.access import of_java
from cooperator.connectors.file_positions import FileSnapshot, files_read
from cooperator.connectors.file_records import file_records
from cooperator.connectors.filelogs.file_log import FileLogs
from cooperator.connectors.filelogs.listing import NewFiles, SparkListing, bucket_number
from cooperator.connectors.filelogs.names import below_root
from cooperator.connectors.filelogs.names_topic import KafkaNames
from cooperator.connectors.filelogs.pieces import PieceBatches, PieceSource
from cooperator.connectors.filelogs.units import NamedUnits
from cooperator.connectors.files_source import MAX_BYTES, FilesToKafkaOptions
from cooperator.connectors.microbatch.batches import Stand
from cooperator.connectors.microbatch.earlier import EarlierUnits
from cooperator.connectors.microbatch.kafka_task import opening_of, owned_units
from cooperator.connectors.microbatch.loop import TaskLoop
from cooperator.connectors.microbatch.ranges import Grouping, Limits, OffsetRange, Partition
from cooperator.connectors.microbatch.task import LoopTask, Shown, run_loop
from cooperator.connectors.output_record import OutputRecord
from cooperator.connectors.tasks import TaskContext
from cooperator.connectors.topics import client_config, refuse_own_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TASK_BYTES: Final = 64 << 20
"""The bytes in a batch of a task, unless a unit may have more."""
_SLOT_BYTES: Final = 1 << 20
_TASK_FILES: Final = 256
"""Files in a batch of a task by default: in a store, each takes some 20 ms to open."""
_LEAST_FILES: Final = 8
"""Files of a unit in a batch, however many units there are."""


def open_files_task(options: FilesToKafkaOptions, context: TaskContext) -> LoopTask:
    """Claims the units and returns the task once it runs. Raises what it fails with, and ``Cancelled``."""
    refuse_own_topic(context.group_id, "topic", options.topic)
    member = context.session()
    stopped = threading.Event()
    units = {Partition.of_unit(unit): unit for unit in context.units}
    logs = FileLogs(units)
    client, connector = client_config(options), context.task.connector
    producer = {
        **of_java(options),
        "max.request.size": str(options.most_in_request),
        "transaction.timeout.ms": str(options.transaction_timeout_ms),
    }
    opening = opening_of(context, client, producer, member, stopped)
    listing = SparkListing(
        opening.spark,
        options.path,
        recursive=options.recursive,
        wholetext=options.format == "wholetext",
        glob=options.glob,
        buckets=options.units,
        units=[bucket_number(unit) for unit in context.units],
    )
    kept = files_read(options, context.group_id, connector, opening.patience)
    earlier = EarlierUnits(options, context.group_id, connector, opening.patience, context.checkpoint, kept)
    names = KafkaNames(client, context.group_id, connector, opening.patience, below_root(listing.root()))
    unmarked: set[str] = set()

    def taken_over(missing: Sequence[str]) -> Mapping[str, Stand]:
        markers = earlier.markers()
        taken = earlier.taken_over(missing, markers)
        found = {unit: FileSnapshot.decode(position) for unit, position in taken.items()}
        unmarked.update(set(missing) - found.keys() - markers.keys())
        return {unit: Stand(each.files, each.id) for unit, each in found.items() if each.id}

    def beside(partition: Partition) -> list[OutputRecord]:
        unit = units[partition]
        return [earlier.closing(unit)] if unit in unmarked else []

    batches = PieceBatches(
        opening.spark,
        PieceSource(
            path=options.path,
            wholetext=options.format == "wholetext",
            connector=connector,
            max_record=options.max_record,
            place=names.place,
            beside=beside,
        ),
        logs,
        lambda pieces: _records(options, pieces),
        opening.target,
    )
    ownership = NamedUnits(owned_units(context, opening, batches.open), logs, listing, names, taken_over)

    def cut(ranges: Sequence[OffsetRange]) -> Sequence[OffsetRange]:
        return logs.cut(ranges, options.max_files or max(_LEAST_FILES, _TASK_FILES // len(units)))

    loop = TaskLoop(
        units=tuple(units),
        ownership=ownership,
        batches=batches,
        ends=NewFiles(logs, listing, options.trigger_interval_ms, context.say),
        limits=_limits(options),
        grouping=Grouping(opening.target.slots.count, _SLOT_BYTES),
        first_offsets=lambda missing: dict.fromkeys(missing, 0),
        say=context.say,
        cut=cut,
        stopped=stopped,
    )
    return run_loop(context, member, loop, units, Shown(_end))


def _limits(options: FilesToKafkaOptions) -> Limits:
    per_unit = options.max_bytes or MAX_BYTES
    return Limits(per_unit, max(per_unit, _TASK_BYTES))


def _end(unit: str, at: int | None) -> str:
    return "" if at is None else json.dumps({"bytes": at})


def _records(options: FilesToKafkaOptions, pieces: "DataFrame") -> "DataFrame":
    """Returns the records of pieces of files as ``SparkBatches`` writes them."""
    import pyspark.sql.functions as F  # noqa: N812

    records = file_records(options, pieces, F.col("path"), F.col("line"))
    return records.withColumn("topic", F.lit(options.topic))
