"""Names of files in Kafka: a start knows all of them, or says that some are missing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.filelogs.file_log import FileLog, LogStand, SourceFile
from cooperator.connectors.filelogs.names import (
    NameKey,
    NamesRead,
    below_root,
    digest,
    name_records,
)
from cooperator.connectors.offsets.entries import OffsetsError

KEY = NameKey("copy", "bucket-0-of-1", "s1")
BELOW = below_root("/in/")


def old(*names: str, part: str = "0.0") -> tuple[bytes, bytes]:
    """A record of an earlier release."""
    files = [[f"file:///in/{name}", 7] for name in names]
    return f"copy/bucket-0-of-1/s1/{part}".encode(), json.dumps({"files": files}).encode()


def committed(log: FileLog, ends: list[int], limit_bytes: int = 200) -> list[tuple[bytes, bytes]]:
    """The records of batches that end there."""
    found = []
    for end in ends:
        for key, value in name_records(KEY, log.begun(log.next, end), limit_bytes):
            found.append((key.encode(), value.encode()))
        log.reach(end)
    return found


def read(records: list[tuple[bytes, bytes]]) -> NamesRead:
    names = NamesRead({KEY.unit: KEY.snapshot}, BELOW)
    for key, value in records:
        assert names.is_wanted(key)
        names.add(key, value)
    return names


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=20),
    st.lists(st.integers(0, 600), max_size=8),
    st.integers(0, 3),
    st.integers(60, 400),
    st.data(),
)
def test_names_that_were_committed_are_known_and_none_can_be_missing(
    sizes: list[int], ends: list[int], earlier: int, limit_bytes: int, data: st.DataObject
) -> None:
    before = [old(f"old {number}", part=f"{number}.0") for number in range(earlier)]
    log = FileLog(LogStand("s1", earlier))
    files = [SourceFile(f"f{number}", 5, size) for number, size in enumerate(sizes)]
    log.append(files)
    marks = sorted({min(max(end, earlier), log.end) for end in ends})
    records = [*before, *committed(log, marks, limit_bytes)]
    position = log.next
    begun, start = [], earlier
    for file in files:
        if start < position:
            begun.append(file)
        start += file.size + 1
    stand, digests = read(data.draw(st.permutations(records))).stand(KEY.unit, position)
    wanted = [f"old {number}" for number in range(earlier)] + [file.path for file in begun]
    assert sorted(digests[at : at + 16] for at in range(0, len(digests), 16)) == sorted(map(digest, wanted))
    assert (stand.snapshot, stand.next) == ("s1", position)
    again = FileLog(stand)
    assert again.pieces(position, again.end) == log.pieces(position, again.end)
    assert again.end == sum(file.size + 1 for file in begun) + earlier
    if records:
        records.remove(data.draw(st.sampled_from(records)))
        with pytest.raises(OffsetsError, match=r"lacks names .* reset or alter"):
            read(records).stand(KEY.unit, position)


def test_records_of_other_units_and_older_snapshots_are_not_read() -> None:
    names = NamesRead({"bucket-0-of-1": "s1", "bucket-1-of-2": ""}, BELOW)
    for key in (
        b"copy/bucket-0-of-1/s0/@0",
        b"copy/bucket-9-of-1/s1/@0",
        b"copy/bucket-1-of-2//@0",
        b"other",
    ):
        assert not names.is_wanted(key)


def test_a_record_has_at_least_one_name_and_about_as_many_bytes_as_allowed() -> None:
    log = FileLog(LogStand("s1"))
    log.append(SourceFile("x" * 150, 1, 0) for _ in range(10))
    found = name_records(KEY, log.begun(0, 10), 400)
    assert [json.loads(value)["start"] for _, value in found] == [0, 2, 4, 6, 8]
    assert len({key for key, _ in found}) == 5
    assert len(name_records(KEY, log.begun(0, 10), 10)) == 10


def test_a_uri_of_an_earlier_release_is_the_path_below_the_directory() -> None:
    below = below_root("/in put/")
    assert below("file:///in%20put/a/%C3%A9%201+%25.txt") == "a/é 1+%.txt"
    assert below("s3a://bucket/in%20put/b=1/c") == "b=1/c"
    with pytest.raises(OffsetsError, match=r"file:///other/a was read, which is not below /in put/"):
        below("file:///other/a")
