"""The outcomes of a run, as they are checked in: ``python -m tests.values.record`` runs the whole table, and
writes ``record.json`` and the page. Tests compare the record with the table, with the page and with each run.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.runtime.postgres import Postgres
from tests.values.cells import Cell, Outcome, Status, problems, shown, status_of
from tests.values.gaps import EXCEPTIONS
from tests.values.run import outcomes_of
from tests.values.table import PAIRS
from tests.values.world import World

PATH = Path(__file__).with_name("record.json")


@dataclass(frozen=True)
class Entry:
    """A cell and what came of it, in texts that are short enough to be shown."""

    pair: str
    type: str
    value: str
    given: str
    due: str
    status: Status
    kind: str
    came: str

    @property
    def name(self) -> str:
        return f"{self.pair} / {self.type} / {self.value}"


def entry(cell: Cell, outcome: Outcome) -> Entry:
    # A message may name a moment, an offset or a path of its run: its beginning says enough.
    most = 100 if outcome.kind == "row" else 160
    came = shown(outcome.text.partition("\n")[0] if outcome.kind != "row" else outcome.text, most)
    status = status_of(cell, outcome)
    return Entry(
        cell.pair, cell.type, cell.value, shown(cell.given), shown(cell.due), status, outcome.kind, came
    )


def read() -> list[Entry]:
    return [Entry(**each) for each in json.loads(PATH.read_text("utf-8"))]


def write(outcomes: Mapping[Cell, Outcome]) -> None:
    lines = [json.dumps(asdict(entry(*each)), ensure_ascii=False) for each in outcomes.items()]
    PATH.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")


def changed(outcomes: Mapping[Cell, Outcome], recorded: Sequence[Entry]) -> list[str]:
    """Rows of a run that read otherwise than they did when the page was made."""
    known = {each.name: each for each in recorded}
    found = []
    for cell, outcome in outcomes.items():
        now, then = entry(cell, outcome), known.get(cell.name)
        if then is None:
            found.append(f"{cell.name}: not recorded")
        elif now.kind != then.kind or (now.kind == "row" and now.came != then.came):
            found.append(f"{cell.name}: {then.kind} {then.came} is now {now.kind} {now.came}")
    return found


@contextmanager
def running_world(root: Path) -> Iterator[World]:
    """A world that has begun; it ends with all that it has started."""
    postgres = Postgres()
    postgres.start()
    try:
        world = World(root, postgres)
        try:
            world.up()
            yield world
        finally:
            world.down()
    finally:
        postgres.close()


def main() -> None:
    from tests.values.page import PAGE, rendered

    with tempfile.TemporaryDirectory(prefix="cooperator-values-") as root, running_world(Path(root)) as world:
        outcomes = outcomes_of(world, PAIRS, EXCEPTIONS, "batch")
        outcomes |= outcomes_of(world, PAIRS, EXCEPTIONS, "alone")
    # In the order of the table, whatever travelled first.
    outcomes = {cell: outcomes[cell] for pair in PAIRS for cell in pair.cells()}
    found = problems(outcomes, EXCEPTIONS)
    sys.stdout.write("\n".join([*found, f"{len(outcomes)} cells, {len(found)} not as expected", ""]))
    write(outcomes)
    PAGE.write_text(rendered(read()), "utf-8")


if __name__ == "__main__":
    main()
