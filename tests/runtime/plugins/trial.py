"""The suite's input to ``copies``, and how it reads the output."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cooperator.connectors.conformance import Trial


class CopiesTrial(Trial):
    def __init__(self, connector_class: str, directory: Path) -> None:
        super().__init__(directory)
        self.connector_class = connector_class  # type: ignore[misc]
        self.folders = ["ada", "bob"]
        self.fed = 0

    def config(self) -> Mapping[str, str]:
        """The configuration; one value is a reference to a file, which only members resolve elsewhere."""
        pause = self.directory / "pause"
        pause.parent.mkdir(parents=True, exist_ok=True)
        # Values of references are hidden in messages; no number of a process contains this one.
        pause.write_text("+50")
        paths = {"path": str(self.directory / "in"), "target": str(self.directory / "out")}
        return {**paths, "pause.ms": f"${{file:{pause}}}"}

    def refused(self) -> Iterable[tuple[Mapping[str, str], str]]:
        yield {"pause.ms": "0"}, "pause.ms"

    def prepare(self) -> None:
        for folder in self.folders:
            (self.directory / "in" / folder).mkdir(parents=True)

    def grow(self) -> bool:
        self.folders.append("eve")
        (self.directory / "in" / "eve").mkdir()
        return True

    def feed(self, records: Sequence[str]) -> None:
        for record in records:
            part = self.directory / "part"
            part.write_text(record)
            folder = self.folders[self.fed % len(self.folders)]
            part.replace(self.directory / "in" / folder / f"{self.fed:05}.txt")
            self.fed += 1

    def found(self) -> Counter[str]:
        files = [path for path in self.directory.glob("out/*/*.txt") if not path.name.startswith(".")]
        lines = (line for path in files for line in path.read_text().splitlines())
        return Counter(line for line in lines if re.match("record ", line))
