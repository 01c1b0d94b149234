"""What is remembered is what would be found anew, whatever was asked for and forgotten before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.model import TaskId
from cooperator.model import recent as remembered
from cooperator.model.recent import Recent, missing, remaining, set_of, without

TASKS = st.builds(TaskId, st.sampled_from("abc"), st.integers(-1, 3))
ITEMS = st.lists(TASKS, max_size=10).map(tuple)
GONE = st.frozensets(TASKS, max_size=6)


@given(st.lists(st.tuples(ITEMS, st.lists(GONE, max_size=4)), max_size=6), st.integers(1, 60))
def test_sets_and_what_is_left_of_them_are_as_found_anew(
    asked: list[tuple[tuple[TaskId, ...], list[frozenset[TaskId]]]], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        for memory in ("_sets", "_equal", "_rests", "_gone"):
            patched.setattr(remembered, memory, Recent(most))
        for items, losses in [*asked, *asked]:
            assert set_of(items) == frozenset(items)
            for gone in losses:
                rest = without(set_of(items), gone)
                assert rest == frozenset(items) - gone
                assert missing(set_of(items), rest) == frozenset(items) & gone
                left = remaining(items, gone)
                assert left == tuple(item for item in items if item not in gone)
                assert set_of(left) == frozenset(left)
                assert missing(set_of(items), set_of(left)) == frozenset(items) - frozenset(left)
                items = left


@given(ITEMS, GONE)
def test_what_is_left_is_one_object_however_it_is_asked_for(
    items: tuple[TaskId, ...], gone: frozenset[TaskId]
) -> None:
    decided = without(set_of(items), gone)
    assert without(set_of(items), frozenset(list(gone))) is decided
    assert set_of(remaining(items, gone)) is decided
