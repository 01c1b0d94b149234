"""The log of a unit: any batches that follow each other read every byte of every file once, in order."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.filelogs.file_log import FileLog, LogStand, SourceFile, in_order

FILES = st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=12)
LIMITS = st.lists(st.tuples(st.integers(1, 60), st.none() | st.integers(1, 4)), min_size=1, max_size=60)


def files_of(sizes: list[tuple[int, bool]]) -> list[SourceFile]:
    return [SourceFile(f"f{number}", number, *each) for number, each in enumerate(sizes)]


@given(FILES, LIMITS)
def test_batches_read_every_offset_of_every_file_once_and_in_order(
    sizes: list[tuple[int, bool]], limits: list[tuple[int, int | None]]
) -> None:
    files, log = files_of(sizes), FileLog(LogStand("s"))
    log.append(files)
    end, names = log.end, []
    read: dict[str, list[tuple[int, int]]] = {}
    for limit, max_files in [*limits, (end, None)]:
        while log.next < end:
            start = log.next
            to = log.cut(start, min(start + limit, end), max_files)
            pieces = log.pieces(start, to)
            assert start < to <= end
            assert max_files is None or len(pieces) <= max_files
            assert to - start <= limit or pieces[-1].file.is_whole
            names += [placed.file for placed in log.begun(start, to)]
            for piece in pieces:
                read.setdefault(piece.file.path, []).append((piece.start, piece.end))
            log.reach(to)
            if limit < end:
                break
    assert names == files, "each name is committed once, with the first of its records"
    assert list(read) == [file.path for file in files]
    for file in files:
        parts = read[file.path]
        assert (parts[0][0], parts[-1][1]) == (0, file.size + 1)
        assert all(before[1] == after[0] for before, after in pairwise(parts))
        assert len(parts) == 1 or not file.is_whole


def test_a_batch_ends_with_a_file_unless_not_even_one_fits() -> None:
    log = FileLog(LogStand("s"))
    log.append([SourceFile("a", 0, 9), SourceFile("b", 0, 99), SourceFile("c.gz", 0, 99, is_whole=True)])
    assert [log.cut(0, 50), log.cut(10, 50), log.cut(110, 120)] == [10, 50, 210]


def test_a_log_goes_on_in_the_middle_of_a_file() -> None:
    log = FileLog(LogStand("s"))
    log.append([SourceFile("a", 0, 9), SourceFile("b", 0, 99)])
    log.reach(40)
    assert [file.path for file in log.drop_new()] == []
    assert log.pieces(40, 60) == [(SourceFile("b", 0, 99), 30, 50)]
    assert log.begun(40, 60) == []
    log.append([SourceFile("c", 0, 1)])
    assert [file.path for file in log.drop_new()] == ["c"]
    assert log.end == 110


@pytest.mark.parametrize("position", [-1, 11])
def test_a_position_that_the_log_does_not_have_is_refused(position: int) -> None:
    log = FileLog(LogStand("s"))
    log.append([SourceFile("a", 0, 9)])
    with pytest.raises(ValueError, match=f"position {position} is not in the log, from 0 to 10"):
        log.reach(position)


def test_the_oldest_files_come_first() -> None:
    files = [SourceFile("b", 2, 0), SourceFile("c", 1, 0), SourceFile("a", 2, 0)]
    assert [file.path for file in in_order(files)] == ["c", "a", "b"]
