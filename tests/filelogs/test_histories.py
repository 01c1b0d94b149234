"""Every record of every file arrives once and in order, whatever happens to attempts and files."""

from itertools import pairwise
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.filelogs.file_log import SourceFile
from cooperator.connectors.files import bucket_of
from cooperator.connectors.microbatch.batches import FailureKind, Stand
from cooperator.connectors.microbatch.ranges import Limits
from tests.filelogs.histories import BUCKETS, UNITS, Directory, Sink, attempt
from tests.microbatch.log_fakes import fate_of, fates_of_slots

FATES = fates_of_slots(30)
FILES = st.lists(st.tuples(st.integers(0, 70), st.booleans()), max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("more"), FILES),
        st.tuples(st.just("run"), FATES, st.integers(5, 60), st.none() | st.integers(1, 3)),
        st.tuples(st.just("vanish"), st.integers(0, 30)),
    ),
    max_size=12,
)


def whole(sink: Sink, file: SourceFile) -> bool:
    parts = sink.read.get(file.path, [])
    in_order = all(before[1] == after[0] for before, after in pairwise(parts))
    return bool(parts) and in_order and (parts[0][0], parts[-1][1]) == (0, file.size + 1)


@given(STEPS)
def test_every_byte_of_every_file_is_read_once_and_in_order(steps: list[tuple[object, ...]]) -> None:
    sink, directory, made = Sink(), Directory(), 0
    away: list[SourceFile] = []
    for what, *arguments in steps:
        if what == "more":
            for size, is_whole in cast(list[tuple[int, bool]], arguments[0]):
                file = SourceFile(f"d/{made}", made % 3, size, is_whole)
                directory.files[file.path] = file
                made += 1
        elif what == "vanish" and directory.files:
            path = sorted(directory.files)[int(str(arguments[0])) % len(directory.files)]
            if path not in sink.read or whole(sink, directory.files[path]):
                away.append(directory.files.pop(path))
        elif what == "run":
            fates, limit, max_files = cast(tuple[list[object], int, int | None], arguments)
            attempt(sink, directory, fate_of(iter(fates)), Limits(limit, 2 * limit), max_files)
    for file in away:
        directory.files[file.path] = file
    attempt(sink, directory)
    assert sorted(sink.read) == sorted(directory.files)
    assert all(whole(sink, file) for file in directory.files.values())
    again = Sink(stands=dict(sink.stands), names=dict(sink.names))
    attempt(again, directory)
    assert again.read == {}, "nothing is read twice"


def test_a_failed_batch_needs_no_reading_of_names() -> None:
    sink, directory = Sink(), Directory({f"{n}": SourceFile(f"{n}", n, 50) for n in range(9)})
    fates = iter([None, None, (FailureKind.RETRIABLE, False), (FailureKind.RETRIABLE, True)] * 5)
    attempt(sink, directory, fate_of(fates))
    assert all(whole(sink, file) for file in directory.files.values())
    assert sink.readings == 0
    attempt(sink, directory)
    assert sink.readings == 1, "once for all units"


def test_positions_of_earlier_releases_are_gone_on_with() -> None:
    paths = [f"{n}" for n in range(12)]
    directory = Directory({path: SourceFile(path, 1, 4) for path in paths})
    stands: dict[str, Stand] = {}
    sink, old = Sink(earlier=stands), paths[:7]
    for unit in UNITS.values():
        bucket = int(unit.split("-")[1])
        read = [path for path in old if bucket_of(path, BUCKETS) == bucket]
        files = ", ".join(f'["file:///in/{path}", 1]' for path in read)
        sink.names[f"copy/{unit}/old/all.0".encode()] = f'{{"files": [{files}]}}'.encode()
        if read:
            stands[unit] = Stand(len(read), "old")
    attempt(sink, directory)
    assert sorted(sink.read) == sorted(paths[7:])
    attempt(sink, directory)
    assert all(len(parts) == 1 for parts in sink.read.values())


def test_a_directory_that_is_away_for_a_moment_is_not_read_again() -> None:
    sink, directory = Sink(), Directory({"a": SourceFile("a", 1, 4)})
    attempt(sink, directory)
    directory.is_there = False
    attempt(sink, directory)
    directory.is_there = True
    attempt(sink, directory)
    assert sink.read == {"a": [(0, 5)]}


def test_a_position_that_the_logs_do_not_know_is_read_with_its_names() -> None:
    """No attempt can move it meanwhile; but if it did, nothing would be read twice."""
    sink, directory = Sink(), Directory({"a": SourceFile("a", 1, 4)})
    other = Sink()
    attempt(other, directory)
    directory.files["b"] = SourceFile("b", 2, 4)

    def moves() -> tuple[FailureKind | None, bool]:
        sink.stands, sink.names = dict(other.stands), dict(other.names)
        return FailureKind.RETRIABLE, False

    fates = iter([moves])
    attempt(sink, directory, lambda: next(fates, lambda: (None, True))())
    assert sink.read == {"b": [(0, 5)]}
