"""``kafka-to-files``: writes topics to files in a plain directory, exactly once.

A unit is a partition of a topic. A task is one loop of batches over its units (``microbatch``). Each file has
records of one unit, and becomes visible whole, once (``intents``): any reader of the format reads the
directory. The positions are beside the files, in ``_cooperator``.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from cooperator.connectors.base import Delivered, Delivery
from cooperator.connectors.conversion import ensure_letters
from cooperator.connectors.files_position_offsets import FilesPositionOffsets, directory
from cooperator.connectors.files_target import KafkaToFilesOptions
from cooperator.connectors.files_task import open_files_task
from cooperator.connectors.intents.moves import positions
from cooperator.connectors.kafka_source import partition_lag, partition_units, source_partitions
from cooperator.connectors.microbatch.ranges import end_of
from cooperator.connectors.options import OptionError, Options, Problem
from cooperator.connectors.tasks import InstanceContext, RunningTask, TaskConnector, TaskContext
from cooperator.connectors.topics import refuse_own_topic
from cooperator.connectors.units import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator


class KafkaToFiles(TaskConnector[KafkaToFilesOptions]):
    options: ClassVar[type[Options]] = KafkaToFilesOptions

    def delivery(self, options: KafkaToFilesOptions) -> Delivered:
        return Delivered(Delivery.EXACTLY_ONCE, "The directory's _cooperator has the positions: keep it.")

    def outputs(self, options: KafkaToFilesOptions) -> Sequence[str]:
        return [options.path]

    def offsets(self) -> FilesPositionOffsets:
        return FilesPositionOffsets()

    def lag(self, options: KafkaToFilesOptions, ends: Mapping[str, str]) -> int:
        return partition_lag(options, ends)

    def units(self, options: KafkaToFilesOptions, say: Callable[[str], None]) -> Sequence[str]:
        found = partition_units(source_partitions(options, say))
        ensure_letters(options)
        return found

    def open_task(self, options: KafkaToFilesOptions, context: TaskContext) -> RunningTask:
        if context.server is not None:
            raise context.server.refusal(context.task.connector)
        refuse_own_topic(context.group_id, "errors.deadletterqueue.topic.name", options.dead_letters)
        return open_files_task(options, context)

    def settle_layout(self, options: KafkaToFilesOptions, context: InstanceContext, layout: Layout) -> None:
        found = directory(options, context.group_id, context.connector, context.conf)
        with _usable(options):
            found.settle()
            found.settle_layout(layout)

    def ends(
        self, options: KafkaToFilesOptions, context: InstanceContext, units: Sequence[str]
    ) -> Mapping[str, str]:
        found = directory(options, context.group_id, context.connector, context.conf)
        stands = positions(found.logs(), units) if found.is_mine else {}
        reached = {unit: stands.get(unit) for unit in units}
        return {unit: end_of(unit, None if at is None else at.next) for unit, at in reached.items()}


@contextmanager
def _usable(options: KafkaToFilesOptions) -> "Iterator[None]":
    """Raises ``OptionError`` when the directory cannot be used now."""
    try:
        yield
    except OSError as error:
        problem = f"cannot be used: {error}"
        remedy = "check that every member sees it and may write there"
        raise OptionError([Problem("path", options.path, problem, remedy)], passing=True) from None
