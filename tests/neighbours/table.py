"""The table of the docs, generated from the tests: ``python -m tests.neighbours.table``."""

import sys

from tests.neighbours import faults_kafka
from tests.neighbours.faults import Fault
from tests.neighbours.pipelines import PIPELINES

MARK, END = "<!-- made by: python -m tests.neighbours.table -->", "<!-- end of the table of neighbours -->"
FAULTS: tuple[Fault, ...] = (*faults_kafka.FAULTS,)


def rendered() -> str:
    """The table of faults by connectors in Markdown: a tick where a cell is a test."""
    lines = [
        f"| what happens to one part | {' | '.join(row.title() for row in PIPELINES)} |",
        f"|---|{'---|' * len(PIPELINES)}",
    ]
    for fault in FAULTS:
        cells = ["✓" if fault.applies(row) else "-" for row in PIPELINES]
        lines.append(f"| {fault.title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(rendered())
