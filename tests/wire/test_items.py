"""Lists of items: every fast way gives what the plain one gives."""

from hypothesis import given
from hypothesis import strategies as st

from cooperator.model import TaskId
from cooperator.model.java import hash_set_order
from cooperator.wire import KnownItems
from cooperator.wire import items as codec
from cooperator.wire.primitives import Reader
from wire.strategies import ITEMS, NAMES

SPREAD = st.lists(st.builds(TaskId, NAMES, st.integers(-1, 1)), min_size=1, max_size=30, unique=True)


@given(SPREAD | ITEMS.filter(bool))
def test_items_with_entries_of_their_own_are_written_as_groups_are(items: list[TaskId]) -> None:
    assert codec.write_items(items, "field") == codec._write_groups(items, dict.fromkeys, "field")
    assert codec.write_items_hashed(items, "field") == codec._write_groups(items, hash_set_order, "field")


@given(ITEMS, ITEMS, ITEMS, st.booleans())
def test_what_is_expected_is_what_decoding_gives(
    before: tuple[TaskId, ...], now: tuple[TaskId, ...], expected: tuple[TaskId, ...], rightly: bool
) -> None:
    known = KnownItems()
    known.read(Reader(codec.write_items_hashed(before, "field")), "field")
    data = codec.write_items_hashed(now, "field")
    decoded = codec.read_items(Reader(data), "field")
    known.expect(now if rightly else expected, codec.write_items_hashed(now, "field") if rightly else b"")
    read = known.read(Reader(data), "field")
    assert frozenset(read) == frozenset(decoded)
    assert len(read) == len(decoded)
    if rightly and data != codec.write_items_hashed(before, "field"):
        assert read is now
    assert known.read(Reader(data), "field") is read, "unchanged bytes are the same object"
