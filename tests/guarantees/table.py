"""The table of the docs, generated from the tests: ``python -m tests.guarantees.table``."""

import sys
from pathlib import Path
from typing import Any, ClassVar

from tests.guarantees.faults import FAULTS
from tests.guarantees.pipeline import Kafka, Place
from tests.guarantees.pipelines import PIPELINES

MARK, END = "<!-- made by: python -m tests.guarantees.table -->", "<!-- end of the table -->"


class NoTables:
    """Stands for a database in configurations that nothing connects with."""

    config: ClassVar[dict[str, str]] = {"connection.url": "jdbc:postgresql://localhost/table"}

    def query(self, text: str) -> list[Any]:
        raise AssertionError(f"there is no database: {text}")


def rendered() -> str:
    """The table of faults by connectors in Markdown."""
    nowhere = Place(Kafka("localhost:9092"), NoTables(), "table", Path("/sources"), Path("/shared"))
    lines = [
        f"| fault | {' | '.join(row.title() for row in PIPELINES)} |",
        f"|---|{'---|' * len(PIPELINES)}",
        f"| source to sink | {' | '.join(f'{row.source} to {row.sink}' for row in PIPELINES)} |",
    ]
    for fault in FAULTS:
        cells = [fault.outcome(row, nowhere) for row in PIPELINES]
        lines.append(f"| {fault.title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(rendered())
