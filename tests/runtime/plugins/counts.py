"""Connectors of plug-ins with state, as their authors write them: nothing here knows of checkpoints.

Rows are counted by key. A batch is a file, and one that is there is passed over.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from cooperator.connectors.plugin import (
    FullPath,
    Options,
    SparkConnector,
    SparkOptions,
    UnitContext,
    option,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_FOUND = "key STRING, n LONG"


class CountsOptions(SparkOptions):
    path: FullPath = option("path", expected="a directory with files of JSON lines", fixed=True)
    target: FullPath = option("target", expected="a directory to write to", fixed=True)


class Counts(SparkConnector[CountsOptions]):
    """Counts with ``applyInPandasWithState``."""

    options: ClassVar[type[Options]] = CountsOptions

    def units(self, options: CountsOptions, say: Callable[[str], None]) -> Sequence[str]:
        return ["all"]

    def reader(self, spark: "SparkSession", options: CountsOptions, context: UnitContext) -> "DataFrame":
        rows = spark.readStream.format("json").schema("key STRING").load(options.path)
        return self.counted(rows)

    def counted(self, rows: "DataFrame") -> "DataFrame":
        return rows.groupBy("key").applyInPandasWithState(_count, _FOUND, "n LONG", "update", "NoTimeout")

    def writer(self, stream: "DataFrame", options: CountsOptions, context: UnitContext) -> "DataStreamWriter":
        target = Path(options.target)
        target.mkdir(exist_ok=True)

        def write(batch: "DataFrame", number: int) -> None:
            file = target / f"{number}.json"
            if file.exists():
                return
            part = file.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps({row["key"]: row["n"] for row in batch.collect()}))
            assert context.fence is not None
            context.fence.check()
            part.rename(file)

        return stream.writeStream.outputMode("update").foreachBatch(write)


class Visits(Counts):
    """Counts with ``transformWithStateInPandas``."""

    def counted(self, rows: "DataFrame") -> "DataFrame":
        return rows.groupBy("key").transformWithStateInPandas(_Visits(), _FOUND, "update", "None")


def found(target: Path) -> Counter[str]:
    """The newest count of each key."""
    counts: Counter[str] = Counter()
    for file in sorted(target.glob("*.json"), key=lambda file: int(file.stem)):
        counts |= Counter(json.loads(file.read_text()))
    return counts


def _count(key: tuple[str], parts: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    n = (state.get[0] if state.exists else 0) + sum(len(part) for part in parts)
    state.update((n,))
    yield pd.DataFrame({"key": [key[0]], "n": [n]})


class _Visits(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self._n = handle.getValueState("n", "n LONG")

    def handleInputRows(  # noqa: N802 (Spark's name)
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        n = (self._n.get()[0] if self._n.exists() else 0) + sum(len(part) for part in rows)
        self._n.update((n,))
        yield pd.DataFrame({"key": [key[0]], "n": [n]})

    def close(self) -> None:
        """Nothing is open."""
