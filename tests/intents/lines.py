"""Attempts without Spark: a line per offset is staged as Spark's tasks would name it."""

import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from cooperator.connectors.intents.batches import FileBatches, StageFailed, Written
from cooperator.connectors.intents.stores import LocalStore
from cooperator.connectors.intents.units import FileUnits
from cooperator.connectors.microbatch.batches import FailureKind, Outcome, Owned, Stand
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition
from cooperator.model import Epoch

A, B = Partition("orders", 0), Partition("orders", 1)


class LineStager:
    """Writes a line per offset, as Spark's tasks name their files. ``fails`` is asked before each file."""

    def __init__(self) -> None:
        self.kind: FailureKind | None = None
        self.days: Sequence[str] = ("",)

    def write(self, directory: str, ranges: Sequence[OffsetRange]) -> Written:
        root, job = Path(urlsplit(directory).path), uuid.uuid4()
        for number, each in enumerate(ranges):
            for day in self.days:
                folder = root / day
                folder.mkdir(parents=True, exist_ok=True)
                file = folder / f"part-{number:05}-{job}-c000.csv.staged"
                lines = range(each.start, each.end)
                of_day = [n for n in lines if self.days[n % len(self.days)] == day]
                file.write_text("".join(f"{each.partition},{n}\n" for n in of_day))
                if self.kind is not None:
                    raise StageFailed(self.kind, "no space")
        return Written(sum(each.size for each in ranges), {each.partition: each.size for each in ranges})

    def cancel(self) -> None: ...


class Writer:
    """One attempt at both units."""

    def __init__(self, root: Path, attempt: int, units: Sequence[Partition] = (A, B)) -> None:
        self.claim = Claim(Epoch(1, attempt), 1, "m-0")
        self.store = LocalStore(root)
        self.stopped = threading.Event()
        names = {unit: str(unit) for unit in units}
        self.units = FileUnits(self.claim, names, lambda unit: self.store, self.stopped)
        self.stager = LineStager()
        self.batches = FileBatches(self.units, self.stager)
        self.owned = Owned({}, "")

    def begin(self) -> dict[Partition, int]:
        self.owned = self.units.claim()
        return {unit: stand.next for unit, stand in self.owned.positions.items()}

    def run(self, *ranges: OffsetRange) -> Outcome:
        records = {
            each.partition: self.units.record(each.partition, Stand(each.end, "id")) for each in ranges
        }
        return self.batches.run(self.owned.session, [ranges], records)


def visible(root: Path) -> dict[str, str]:
    """The files that a reader finds by matching names, in all directories below, hidden ones included."""
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*.csv"))}


def offsets(root: Path, unit: Partition) -> list[int]:
    lines = [line.split(",") for text in visible(root).values() for line in text.splitlines()]
    return sorted(int(number) for name, number in lines if name == str(unit))
