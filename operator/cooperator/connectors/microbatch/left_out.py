"""Leaves out records that cannot be converted, so that Spark's plan converts all others.

The plan fails as a whole, so the records that it fails for are searched in Spark's tasks. These alone are
converted row by row, which decides about each of them: it is left out, or it has a type that is new, or only
the plan cannot convert it.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from cooperator.connectors.conversion import Conversion
from cooperator.connectors.dead_letters import Letter
from cooperator.connectors.microbatch.batches import FailureKind, PlannedBatches, SearchFailed
from cooperator.connectors.microbatch.ranges import LeftOut, OffsetRange, Partition
from cooperator.connectors.microbatch.spark_batches import of_partition
from cooperator.connectors.output_record import OutputRecord
from cooperator.model.text import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

PutLetters = Callable[[OffsetRange, Sequence[Letter]], Sequence[OutputRecord]]
"""Writes the letters of all records that are left out of a range, or returns those to write with its rows."""
Slots = Mapping[int, Sequence[OffsetRange]]
"""Ranges by the number of their slot."""


class LeavingOut:
    """Searches for one task."""

    def __init__(
        self,
        spark: "SparkSession",
        conversion_of: Callable[[Partition], Conversion],
        put: PutLetters,
        say: Callable[[str], None],
    ) -> None:
        self._spark = spark
        self._conversion_of = conversion_of
        self._put = put
        self._say = say

    def probed(self, plan: PlannedBatches, slots: Slots) -> Slots:
        """Returns the slots whose first failing record cannot be converted, and those without one.

        The others have a record of a type that was new, or that only the plan cannot convert. Raises
        ``SearchFailed`` for other reasons than rows, and what the record fails with if none may be left out.
        """
        found = self._letters(plan, slots, 1)
        return {number: slots[number] for number, letters in found.items() if None not in letters.values()}

    def searched(self, plan: PlannedBatches, slots: Slots, most: int) -> Slots:
        """Returns the slots without the records that cannot be converted, whose letters are written.

        Slots with ``most`` of these, or with failing records that can be converted, are not among them.
        Raises as ``probed`` does.
        """
        ready = {}
        for number, letters in self._letters(plan, slots, most).items():
            known = {partition: some for partition, some in letters.items() if some is not None}
            if len(known) == len(letters) and sum(map(len, known.values())) < most:
                ready[number] = [self._without(each, known.get(each.partition, [])) for each in slots[number]]
        return ready

    def _letters(
        self, plan: PlannedBatches, slots: Slots, most: int
    ) -> dict[int, dict[Partition, list[Letter] | None]]:
        """Returns the letters of failing records by slot and partition; None where one can be converted.

        There are none if the search itself fails because of rows.
        """
        if not slots:
            return {}
        offsets = sum(each.size for ranges in slots.values() for each in ranges)
        self._say(f"searching {counted(offsets, 'offset')} for records that fail")
        try:
            raw = plan.failing(list(slots.values()), most)
            return {number: self._of_slot(raw, ranges) for number, ranges in slots.items()}
        except SearchFailed as error:
            if error.kind not in (FailureKind.ROWS, FailureKind.FAILED):
                raise
            return {}
        finally:
            self._say("")

    def _of_slot(
        self, raw: "pa.Table", ranges: Sequence[OffsetRange]
    ) -> dict[Partition, list[Letter] | None]:
        found: dict[Partition, list[Letter] | None] = {}
        for partition in [each.partition for each in ranges]:
            records = of_partition(raw, partition)
            if records.num_rows:
                found[partition] = self._conversion_of(partition).refused(records, self._spark)
        return found

    def _without(self, range_: OffsetRange, letters: list[Letter]) -> OffsetRange:
        if not letters:
            return range_
        self._conversion_of(range_.partition).note(letters)
        written = self._put(range_, letters)
        left_out = zip_longest((letter.row["offset"] for letter in letters), written)
        return range_._replace(left_out=tuple(LeftOut(offset, record) for offset, record in left_out))
