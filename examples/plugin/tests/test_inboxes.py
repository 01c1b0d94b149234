"""Tests that an author runs with ``pytest`` in this directory, with the package installed."""

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cooperator.connectors.conformance import Trial, check
from cooperator.connectors.output import read_units


class InboxesTrial(Trial):
    connector_class = "inboxes"
    senders: tuple[str, ...] = ("ada", "bob")

    @property
    def path(self) -> Path:
        return self.directory / "in"

    def config(self) -> Mapping[str, str]:
        return {
            "path": str(self.path),
            "target": str(self.directory / "out"),
            "columns": "text STRING",
            "max.files.per.trigger": "2",
            "trigger.interval.ms": "200",
        }

    def refused(self) -> Iterable[tuple[Mapping[str, str], str]]:
        yield {"columns": ""}, "columns"
        yield {"max.files.per.trigger": "0"}, "max.files.per.trigger"
        yield {"path": "in"}, "path"
        yield {"target": f"{self.path}/out"}, "target"
        yield {"transform.sql": "SELECT text FROM elsewhere"}, "transform.sql"

    def prepare(self) -> None:
        for sender in self.senders:
            (self.path / sender).mkdir(parents=True)

    def grow(self) -> bool:
        self.senders = (*self.senders, "eve")
        (self.path / "eve").mkdir()
        return True

    def feed(self, records: Sequence[str]) -> None:
        """A file for each ten records."""
        for first in range(0, len(records), 10):
            lines = [json.dumps({"text": record}) for record in records[first : first + 10]]
            name = f"{zlib.crc32(lines[0].encode())}.json"
            part = self.directory / name
            part.write_text("\n".join(lines))
            part.rename(self.path / self.senders[first // 10 % len(self.senders)] / name)

    def found(self) -> Counter[str]:
        rows = read_units(self.directory / "out") if (self.directory / "out").exists() else None
        return Counter(rows["text"].to_pylist() if rows is not None and rows.num_rows else [])


def test_it_conforms(tmp_path: Path) -> None:
    check(InboxesTrial(tmp_path))
