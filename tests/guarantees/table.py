"""The table of the docs, generated from the tests: ``python -m tests.guarantees.table``."""

import sys
from pathlib import Path
from typing import Any, ClassVar

from cooperator.connectors.base import Delivery
from tests.guarantees.faults import FAULTS
from tests.guarantees.pipelines import PIPELINES, Kafka, Place

MARK, END = "<!-- made by: python -m tests.guarantees.table -->", "<!-- end of the table -->"
_WORDS = {Delivery.EXACTLY_ONCE: "exactly once", Delivery.AT_LEAST_ONCE: "at least once"}


class NoTables:
    """Stands for a database in configurations that nothing connects with."""

    config: ClassVar[dict[str, str]] = {"connection.url": "jdbc:postgresql://localhost/table"}

    def query(self, text: str) -> list[Any]:
        raise AssertionError(f"there is no database: {text}")


def rendered() -> str:
    """The table of faults by connectors in Markdown."""
    nowhere = Place(Kafka("localhost:9092"), NoTables(), "table", Path("/sources"), Path("/shared"))
    words = [_WORDS[row.delivery(nowhere)] for row in PIPELINES]
    lines = [
        f"| fault | {' | '.join(row.title() for row in PIPELINES)} |",
        f"|---|{'---|' * len(PIPELINES)}",
        f"| source to sink | {' | '.join(f'{row.source} to {row.sink}' for row in PIPELINES)} |",
        *(f"| {fault.title} | {' | '.join(words)} |" for fault in FAULTS),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(rendered())
