"""The contents of an output directory are what ``_spark_metadata`` lists, and nothing else."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.output import (
    OutputError,
    committed_files,
    plain_files,
    read_units,
    unit_directories,
)


def commit(unit: Path, batch: int, files: list[str], *, compact: bool = False) -> None:
    log = unit / "_spark_metadata"
    log.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": (unit / name).as_uri(), "size": 1, "action": "add"}) for name in files]
    name = f"{batch}.compact" if compact else str(batch)
    (log / name).write_text("\n".join(["v1", *lines]))
    (log / f".{name}.crc").write_bytes(b"crc")


def data(unit: Path, name: str, values: list[str]) -> str:
    file = unit / name
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"line": values}), file)
    return name


def test_files_that_no_batch_names_do_not_count(tmp_path: Path) -> None:
    unit = tmp_path / "lines-0"
    commit(unit, 0, [data(unit, "a.parquet", ["one", "two"])])
    commit(unit, 1, [data(unit, "é b+%.parquet", ["three"])])
    data(unit, "orphan.parquet", ["one"])
    (unit / "empty.parquet").touch()
    assert [file.name for file in committed_files(unit)] == ["a.parquet", "é b+%.parquet"]
    assert read_units(tmp_path)["line"].to_pylist() == ["one", "two", "three"]


def test_a_path_may_be_a_string(tmp_path: Path) -> None:
    unit = tmp_path / "lines-0"
    commit(unit, 0, [data(unit, "a.parquet", ["one", "two"])])
    assert read_units(str(tmp_path)).num_rows == 2
    assert unit_directories(str(tmp_path)) == [unit]
    assert committed_files(str(unit)) == [unit / "a.parquet"]


def test_partition_columns_are_restored(tmp_path: Path) -> None:
    for unit, kind in (("lines-0", "a"), ("lines-1", "b")):
        commit(tmp_path / unit, 0, [data(tmp_path / unit, f"kind={kind}/x.parquet", [f"of {kind}"])])
    rows = read_units(tmp_path).to_pylist()
    assert rows == [{"line": "of a", "kind": "a"}, {"line": "of b", "kind": "b"}]


def test_visible_files_of_a_plain_directory_are_read_whatever_columns_they_have(tmp_path: Path) -> None:
    for name in ("lines+0+0.parquet", "kind=b/lines+0+1.parquet", "_cooperator/staging/c.parquet"):
        data(tmp_path, name, ["x"])
    pq.write_table(pa.table({"more": [1]}), tmp_path / "lines+0+2.parquet")
    assert [file.name for file in plain_files(tmp_path)] == [
        "lines+0+1.parquet",
        "lines+0+0.parquet",
        "lines+0+2.parquet",
    ]
    assert sorted(read_units(tmp_path)["line"].to_pylist(), key=str) == [None, "x", "x"]
    assert plain_files(tmp_path / "_cooperator") == []


def test_an_output_that_was_moved_is_still_read(tmp_path: Path) -> None:
    unit = tmp_path / "before" / "lines-0"
    commit(unit, 0, [data(unit, "kind=a/x.parquet", ["x"])])
    (tmp_path / "before").rename(tmp_path / "after")
    assert read_units(tmp_path / "after").num_rows == 1


def test_a_batch_that_is_missing_is_an_error_not_a_loss(tmp_path: Path) -> None:
    unit = tmp_path / "lines-0"
    commit(unit, 0, [data(unit, "a.parquet", ["a"])])
    commit(unit, 2, [data(unit, "c.parquet", ["c"])])
    with pytest.raises(OutputError, match=r"batches \[1\] are missing"):
        committed_files(unit)


def test_a_file_that_was_committed_and_is_gone_is_an_error(tmp_path: Path) -> None:
    unit = tmp_path / "lines-0"
    commit(unit, 0, ["gone.parquet"])
    with pytest.raises(OutputError, match="does not exist"):
        committed_files(unit)


def test_an_unknown_version_is_an_error(tmp_path: Path) -> None:
    unit = tmp_path / "lines-0"
    commit(unit, 0, [])
    (unit / "_spark_metadata" / "0").write_text("v2")
    with pytest.raises(OutputError, match="unknown version 'v2'"):
        committed_files(unit)


@given(batches=st.lists(st.integers(0, 3), max_size=35), kept=st.integers(0, 10))
def test_compaction_changes_nothing_that_is_read(
    tmp_path_factory: pytest.TempPathFactory, batches: list[int], kept: int
) -> None:
    """Spark compacts batches 9, 19, 29, …, which repeat all earlier entries; older ones may be deleted."""
    unit = tmp_path_factory.mktemp("output") / "u"
    written: list[str] = []
    for batch, count in enumerate(batches):
        new = [f"{batch}-{number}.parquet" for number in range(count)]
        unit.mkdir(exist_ok=True)
        for name in new:
            (unit / name).touch()
        written += new
        compact = batch % 10 == 9
        commit(unit, batch, written if compact else new, compact=compact)
        if compact:
            for old in range(batch - kept):
                (unit / "_spark_metadata" / str(old)).unlink(missing_ok=True)
                (unit / "_spark_metadata" / f"{old}.compact").unlink(missing_ok=True)
    if batches:
        assert [file.name for file in committed_files(unit)] == written
