"""The plans of a task: one for all units whose records are decoded in the same way."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from cooperator.connectors.conversion import Conversion
from cooperator.connectors.microbatch.batches import PlannedBatches
from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.options import OptionError
from cooperator.connectors.planned_decoding import Decoding, DecodingPlanner
from cooperator.connectors.transform import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


class Plans:
    """Makes the plans of a task when they are needed first. It is for one thread."""

    def __init__(
        self,
        spark: "SparkSession",
        conversion_of: Callable[[Partition], Conversion],
        make: Callable[[Decoding], PlannedBatches | None],
    ) -> None:
        """``make`` plans the batches of records that are decoded so; None: Spark cannot write their rows.

        It may raise what Spark raises.
        """
        self._planner = DecodingPlanner(spark)
        self._conversion_of = conversion_of
        self._make = make
        self._made: dict[Decoding, PlannedBatches | None] = {}

    def forget(self) -> None:
        """Lets the next batches be planned anew."""
        self._made.clear()

    def of(self, partition: Partition) -> PlannedBatches | None:
        """Returns what runs the partition's next batch; None: it has to be converted row by row."""
        decoding = self._conversion_of(partition).decoding(self._planner)
        if decoding is None:
            return None
        if decoding not in self._made:
            self._made[decoding] = self._planned(decoding, partition)
        return self._made[decoding]

    def _planned(self, decoding: Decoding, partition: Partition) -> PlannedBatches | None:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            made = self._make(decoding)
        except (PySparkException, Py4JJavaError, OptionError) as error:
            log.warning("%s: batches are converted row by row: %s", partition, first_line(error))
            return None
        if made is not None:
            log.info("%s: batches are converted in Spark's plan", partition)
        return made
