"""Offsets without a running Spark: documents, checkpoints, and what a file sink has."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.offsets import Entry, OffsetsError, decode, encode
from cooperator.connectors.offsets.entries import altered, changes
from cooperator.connectors.offsets.sinks import Sink, file_sink
from cooperator.connectors.offsets.sources import UnitPlace
from cooperator.connectors.offsets.unit_log import read_unit, settle_in_flight
from cooperator.connectors.raw_offsets import RawOffsets

PARTITION = st.fixed_dictionaries({"p": st.integers(0, 4)})
OFFSET = st.fixed_dictionaries({"o": st.integers(0, 3)})


def entries(offset: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Entry]]:
    return st.lists(st.builds(Entry, PARTITION, offset), unique_by=lambda entry: entry.key, max_size=5)


@given(current=entries(OFFSET), wanted=entries(st.none() | OFFSET))
def test_the_preview_lists_the_changes_that_are_made(current: list[Entry], wanted: list[Entry]) -> None:
    after = altered(current, wanted)
    replayed = {entry.key: entry.offset for entry in current}
    for change in changes(current, after):
        assert replayed.get(Entry(change.partition, None).key) == change.before != change.after
        replayed[Entry(change.partition, None).key] = change.after
    named = {entry.key: entry.offset for entry in wanted}
    untouched = {entry.key: entry.offset for entry in current if entry.key not in named}
    assert {key: offset for key, offset in replayed.items() if offset is not None} == {
        **untouched,
        **{key: offset for key, offset in named.items() if offset is not None},
    }


@given(written=entries(st.none() | OFFSET))
def test_printed_offsets_can_be_parsed(written: list[Entry]) -> None:
    assert decode(json.dumps(encode(written)), "a.json") == written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "a.json: the document is not valid JSON"),
        ("[]", "a.json: offsets is not a list"),
        ('{"offsets": [], "offset": 1}', "a.json: offset is unknown"),
        ('{"offsets": [{"offset": {}}]}', r"offsets\[0\].partition is not an object"),
        ('{"offsets": [{"partition": {}}]}', r"offsets\[0\].offset is neither an object nor null"),
        (
            '{"offsets": [{"partition": {"a": 1}, "offset": null}, {"partition": {"a": 1}, "offset": {}}]}',
            r'offsets\[1\] names the partition \{"a": 1\} twice',
        ),
    ],
)
def test_errors_in_a_document_name_the_field(text: str, said: str) -> None:
    with pytest.raises(OffsetsError, match=said):
        decode(text, "a.json")


def checkpoint(root: Path, committed: int, newest: int) -> Path:
    for batch in range(newest + 1):
        (root / "offsets").mkdir(exist_ok=True, parents=True)
        (root / "offsets" / str(batch)).write_text(f'v1\n{{"conf":{{}}}}\n{{"t":{{"0":{10 * batch + 10}}}}}')
    for batch in range(committed + 1):
        (root / "commits").mkdir(exist_ok=True)
        (root / "commits" / str(batch)).write_text("v1\n{}")
    (root / "metadata").write_text('{"id":"query"}')
    return root


@pytest.mark.parametrize(("sink_has", "committed", "seen"), [(True, 3, 3), (False, 2, 2), (None, 3, 2)])
def test_a_batch_in_flight_counts_as_done_if_the_sink_has_it_and_otherwise_as_never_begun(
    tmp_path: Path, sink_has: bool | None, committed: int, seen: int
) -> None:
    """If the sink cannot tell, the number of the batch is not used again."""
    root = checkpoint(tmp_path / "unit", committed=2, newest=3)

    def look(query: str, batch: int) -> bool | None:
        assert (query, batch) == ("query", 3)
        return sink_has

    assert read_unit(root, look).ends == (f'{{"t":{{"0":{10 * seen + 10}}}}}',)
    found = settle_in_flight(root, look)
    assert (found.committed, found.newest) == (committed, committed)
    assert found.ends == (f'{{"t":{{"0":{10 * committed + 10}}}}}',)
    assert settle_in_flight(root, look) == found


def test_a_checkpoint_that_is_damaged_or_of_another_version_is_refused(tmp_path: Path) -> None:
    root = checkpoint(tmp_path / "unit", committed=1, newest=1)
    (root / "offsets" / "1").write_text("v2\n{}\n{}")
    with pytest.raises(OffsetsError, match="unknown version 'v2'"):
        read_unit(root, lambda query, batch: None)
    (root / "offsets" / "1").unlink()
    with pytest.raises(OffsetsError, match="reset the connector"):
        read_unit(root, lambda query, batch: None)


def test_the_position_of_a_source_of_files_of_class_spark_is_not_altered() -> None:
    with pytest.raises(OffsetsError, match="reset the connector, or use class files-to-kafka"):
        RawOffsets(Sink()).check(None, [Entry({}, {"logOffset": 3})])


# --- batches in a file sink ---


@pytest.mark.parametrize("spelling", ["{}", "file:{}", "file://{}", "file://localhost{}/"])
def test_a_batch_in_flight_that_the_sink_has_counts_as_done_however_the_directory_is_spelled(
    tmp_path: Path, spelling: str
) -> None:
    """Otherwise its number would be given to other rows, which the sink would skip."""
    place = UnitPlace("group", "files", "unit-0", checkpoint(tmp_path / "unit", committed=1, newest=2))
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    (log / "owner").write_text("v1\nid\nname\n")
    sink = file_sink(lambda options, unit: spelling.format(tmp_path / "out"))
    assert sink.has(None, place, "", 2) is False
    sink.refuse_forgetting(None, place)
    (log / "2").write_text("v1")
    assert sink.has(None, place, "", 2) is True
    with pytest.raises(OffsetsError, match="move the directory away first"):
        sink.refuse_forgetting(None, place)
    assert read_unit(place.checkpoint, sink.at(None, place)).committed == 2


def test_an_unreadable_sink_is_an_error(tmp_path: Path) -> None:
    place = UnitPlace("group", "files", "unit-0", checkpoint(tmp_path / "unit", committed=1, newest=2))
    sink = file_sink(lambda options, unit: "hdfs://names/out")
    with pytest.raises(
        OffsetsError, match=r"hdfs://names/out has batch 2.*resume the connector until the batch is done"
    ):
        settle_in_flight(place.checkpoint, sink.at(None, place))
    with pytest.raises(OffsetsError, match="cannot be read from here"):
        sink.refuse_forgetting(None, place)


def test_a_document_of_any_depth_is_refused() -> None:
    with pytest.raises(OffsetsError, match=r"a.json: the document is nested too deep; write"):
        decode("[" * 100_000, "a.json")
