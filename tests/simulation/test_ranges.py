"""A long run in pieces: nothing is left out, nothing that has run with this code is run again."""

import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.simulation import ranges
from tests.simulation.ranges import Piece

pieces = st.builds(
    lambda first, length: Piece("c", first, first + length, 0), st.integers(0, 60), st.integers(0, 20)
)


@given(start=st.integers(0, 40), count=st.integers(0, 40), done=st.lists(pieces, max_size=5))
def test_ranges_that_are_left_and_done_are_all_seeds_once(start: int, count: int, done: list[Piece]) -> None:
    seeds = range(start, start + count)
    left = [seed for piece in ranges.left(seeds, done, 7) for seed in piece]
    ran = {seed for piece in done for seed in range(piece.first, piece.end)}
    assert left == [seed for seed in seeds if seed not in ran]
    assert all(0 < len(piece) <= 7 for piece in ranges.left(seeds, done, 7))


def test_a_record_counts_for_the_code_that_ran_only(tmp_path: Path) -> None:
    record = tmp_path / "runs"
    assert ranges.read(record, "a") == []
    ranges.note(record, Piece("a", 0, 100, 0))
    ranges.note(record, Piece("b", 100, 200, 1))
    assert ranges.read(record, "a") == [Piece("a", 0, 100, 0)]
    assert ranges.read(record, "b") == [Piece("b", 100, 200, 1)]


def test_the_code_of_a_run_is_all_that_histories_load() -> None:
    """What is loaded only while one runs would change it without a change of the code."""
    later = f"""{ranges.LOADED}
before = set(files)
for seed in (5, 17):
    tests.simulation.run.run(seed)
loaded = {{module.__file__ for module in [*sys.modules.values()] if getattr(module, "__file__", None)}}
print(*sorted(loaded - before), sep="\\n", file=sys.stderr)
"""
    ran = subprocess.run(
        [sys.executable, "-c", later], cwd=ranges.ROOT, check=True, capture_output=True, text=True
    )
    assert not [line for line in ran.stderr.splitlines() if "/cooperator/" in line or "/tests/" in line]
    names = {str(path.relative_to(ranges.ROOT)) for path in ranges.files()}
    assert {"operator/cooperator/leader/machine.py", "tests/simulation/kubelet.py"} <= names
    assert "operator/cooperator/connectors/postgres_lines.py" not in names
    assert ranges.code() == ranges.code()
