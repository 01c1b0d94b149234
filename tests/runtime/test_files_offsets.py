"""Directories of earlier releases become plain ones, with their positions; offsets of files are changed."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cooperator.connectors import fence
from cooperator.connectors.intents import earlier
from cooperator.connectors.intents.directory import Directory
from cooperator.connectors.intents.owner import DirectoryOwner
from cooperator.connectors.offset_operations import Subject, alter, listed, migrate, reset
from cooperator.connectors.offsets import OffsetsError
from cooperator.connectors.options import OptionError
from cooperator.connectors.references import Resolver
from cooperator.connectors.topics import GroupCluster
from cooperator.connectors.units import Owner, read_layout, settle_layout
from cooperator.model import Epoch
from tests.harness.plain_files import read_plainly
from tests.runtime.test_offsets import kafka

QUERY = "5f0c2a4e-query"


@dataclass
class Earlier:
    """A connector with one unit, as an earlier release left it: its checkpoint, and Spark's log of files."""

    root: Path
    unit: str = "lines-0"
    numbers: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        settle_layout(self.checkpoints, "archive", Owner("lake"), {"path": str(self.path)}, [self.unit])
        for name in ("offsets", "commits"):
            (self.checkpoint / name).mkdir(parents=True)
        (self.checkpoint / "metadata").write_text(json.dumps({"id": QUERY}))
        self.log.mkdir(parents=True)
        (self.log / "owner").write_text(f"v1\n{QUERY}\narchive\n")

    @property
    def path(self) -> Path:
        return self.root / "out"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def checkpoint(self) -> Path:
        return self.checkpoints / "archive" / self.unit

    @property
    def log(self) -> Path:
        return self.path / self.unit / "_spark_metadata"

    @property
    def about(self) -> Subject:
        resolver = Resolver({}, frozenset(), (), "127.0.0.1:1")
        config = {"topics": "lines", "path": str(self.path), "partition.by": "day"}
        return Subject("archive", "kafka-to-files", config, "lake", self.checkpoints, resolver)

    def write(self, number: int, rows: int) -> str:
        """The files of a batch, as its tasks leave them; returns the log's line."""
        name = f"day={number % 2}/part-00000-{number}-c000.snappy.parquet"
        file = self.path / self.unit / name
        file.parent.mkdir(parents=True, exist_ok=True)
        first = 10 * number
        pq.write_table(pa.table({"offset": range(first, first + rows)}), file)
        return json.dumps({"path": f"file://{file}", "size": 1})

    def plan(self, number: int, end: int) -> None:
        text = json.dumps({"lines": {"0": end}})
        (self.checkpoint / "offsets" / str(number)).write_text(f"v1\n{{}}\n{text}")

    def batch(self, number: int, *, in_sink: bool = True, committed: bool = True) -> None:
        """Reads ten records."""
        self.plan(number, 10 * number + 10)
        line = self.write(number, 10)
        if in_sink:
            (self.log / str(number)).write_text(f"v1\n{line}\n")
        if committed:
            (self.checkpoint / "commits" / str(number)).write_text("v1\n{}")

    def offsets(self) -> Counter[int]:
        """Returns the rows that a plain reader finds."""
        return Counter(read_plainly(self.path)["offset"].to_pylist())


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Earlier:
    monkeypatch.setattr(GroupCluster, "id_if_known", lambda self: "")
    found = Earlier(tmp_path)
    found.batch(0)
    found.batch(1)
    return found


@pytest.mark.parametrize("is_in_sink", [True, False], ids=["in the sink", "not in the sink"])
def test_a_position_is_taken_over_with_the_batch_in_flight(archive: Earlier, is_in_sink: bool) -> None:
    archive.batch(2, in_sink=is_in_sink, committed=False)
    directory = Directory(archive.path, DirectoryOwner("lake", "archive"))
    with pytest.raises(OptionError, match=r"_spark_metadata.*migrate its offsets"):
        directory.settle()
    assert listed(archive.about) == []
    with pytest.raises(
        OffsetsError, match="which is not beside its files yet; migrate the offsets of archive"
    ):
        reset(archive.about, "earliest", dry_run=True)  # type: ignore[arg-type]
    position = 30 if is_in_sink else 20
    [change] = migrate(archive.about, dry_run=True)
    assert (change.before, change.after) == (None, {"kafka_offset": position})
    assert listed(archive.about) == [], "a dry run changes nothing"
    assert archive.log.exists()
    assert migrate(archive.about, dry_run=False) == [change]
    assert listed(archive.about) == [kafka("lines", 0, position)]
    assert archive.offsets() == Counter(range(position)), "any reader finds what was committed, and no more"
    assert sorted(path.name for path in archive.path.iterdir()) == ["_cooperator", "day=0", "day=1"]
    assert migrate(archive.about, dry_run=False) == []
    directory.settle()
    assert directory.layout() == read_layout(archive.checkpoints, "archive")


@pytest.mark.parametrize("moved", [0, 1, 2, 3])
def test_a_migration_that_was_interrupted_goes_on(
    archive: Earlier, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.batch(2, in_sink=False, committed=False)
    done = earlier._move
    left = [moved]

    def failing(source: Any, target: Any) -> None:
        if not left[0]:
            raise OSError("the disk is away")
        left[0] -= 1
        done(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(earlier, "_move", failing)
        if moved < 2:
            with pytest.raises(OffsetsError, match="the disk is away; check that this machine sees"):
                migrate(archive.about, dry_run=False)
        else:
            migrate(archive.about, dry_run=False)
    migrate(archive.about, dry_run=False)
    assert listed(archive.about) == [kafka("lines", 0, 20)]
    assert archive.offsets() == Counter(range(20))


def test_an_attempt_of_the_earlier_release_that_wakes_commits_nothing(archive: Earlier) -> None:
    claim = fence.claim(archive.checkpoint, Epoch(1, 1), 1, "earlier")
    migrate(archive.about, dry_run=False)
    with pytest.raises(fence.Fenced):
        claim.check()


def test_a_checkpoint_that_is_older_than_its_files_is_refused(archive: Earlier) -> None:
    (archive.log / "2").write_text(f"v1\n{archive.write(2, 10)}\n")
    with pytest.raises(
        OffsetsError, match="ends with batch 1: the checkpoint was restored from an older copy"
    ):
        migrate(archive.about, dry_run=True)


def test_a_directory_of_another_checkpoint_is_refused(archive: Earlier) -> None:
    (archive.log / "owner").write_text("v1\nanother\nother\n")
    with pytest.raises(OffsetsError, match="was written by another checkpoint"):
        migrate(archive.about, dry_run=False)
    assert archive.log.exists()


def test_a_reset_forgets_positions_and_owner_and_keeps_the_files(archive: Earlier) -> None:
    migrate(archive.about, dry_run=False)
    [change] = reset(archive.about, dry_run=False)
    assert (change.before, change.after) == ({"kafka_offset": 20}, None)
    assert listed(archive.about) == []
    assert archive.offsets() == Counter(range(20))
    other = Directory(archive.path, DirectoryOwner("lake", "other"))
    other.settle()
    assert other.layout() is None
    assert reset(archive.about, dry_run=False) == [], "the directory is another's now"
    assert other.is_mine
    with pytest.raises(OptionError, match="is the directory of Connector other of the group lake"):
        Directory(archive.path, DirectoryOwner("lake", "archive")).settle()


def test_another_place_than_a_directory_or_a_store_is_refused(archive: Earlier) -> None:
    about = archive.about
    config = {**about.config, "path": "hdfs://names/out"}
    with pytest.raises(OptionError, match=r"'path' = 'hdfs://names/out': is neither in a file system"):
        alter(
            Subject(about.name, about.class_name, config, "lake", about.checkpoints, about.resolver),
            [],
            dry_run=True,
        )
