"""Python Data Sources as users write them: a counting source, and a sink that appends lines to a file."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamWriter,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)
from pyspark.sql.types import Row


class Counting(DataSource):
    """The numbers 0, 1, … below the option ``count``, ten per batch."""

    @classmethod
    def name(cls) -> str:
        return "counting"

    def schema(self) -> str:
        return "number INT"

    def simpleStreamReader(self, schema: Any) -> "CountingReader":  # noqa: N802
        return CountingReader(int(self.options["count"]))


class CountingReader(SimpleDataSourceStreamReader):
    def __init__(self, count: int) -> None:
        self._count = count

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"next": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        end = min(start["next"] + 10, self._count)
        return iter([(number,) for number in range(start["next"], end)]), {"next": end}

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[int]]:
        return iter([(number,) for number in range(start["next"], end["next"])])

    def commit(self, end: dict[str, int]) -> None:
        pass


class Lines(DataSource):
    """Appends the rows of each finished batch, as lines of JSON, to the file in the option ``path``."""

    @classmethod
    def name(cls) -> str:
        return "lines"

    def streamWriter(self, schema: Any, overwrite: bool) -> "LinesWriter":  # noqa: N802
        return LinesWriter(self.options["path"])


@dataclass
class Part(WriterCommitMessage):
    lines: list[str]


class LinesWriter(DataSourceStreamWriter):
    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, iterator: Iterator[Row]) -> Part:
        return Part([json.dumps(row.asDict()) for row in iterator])

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        with Path(self._path).open("a") as file:
            file.writelines(f"{line}{os.linesep}" for part in messages if part for line in part.lines)
