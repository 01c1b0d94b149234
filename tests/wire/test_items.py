"""Lists of items: every fast way gives what the plain one gives."""

from hypothesis import given
from hypothesis import strategies as st

from cooperator.model import TaskId
from cooperator.model.java import hash_set_order
from cooperator.wire import items as codec
from wire.strategies import ITEMS, NAMES

SPREAD = st.lists(st.builds(TaskId, NAMES, st.integers(-1, 1)), min_size=1, max_size=30, unique=True)


@given(SPREAD | ITEMS.filter(bool))
def test_items_with_entries_of_their_own_are_written_as_groups_are(items: list[TaskId]) -> None:
    assert codec.write_items(items, "field") == codec._write_groups(items, dict.fromkeys, "field")
    assert codec.write_items_hashed(items, "field") == codec._write_groups(items, hash_set_order, "field")
