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


@given(ITEMS, ITEMS, st.booleans())
def test_what_is_expected_is_what_decoding_gives(
    expected: tuple[TaskId, ...], now: tuple[TaskId, ...], rightly: bool
) -> None:
    known = KnownItems()
    now = expected if rightly else now
    known.expect(expected, codec.write_items_hashed(expected, "field"))
    found = read(known, now)
    plain = read(KnownItems(), now)
    assert (frozenset(found), len(found)) == (frozenset(plain), len(plain))
    assert read(known, now) is found, "unchanged bytes are the same object"


@given(SPREAD | ITEMS)
def test_items_are_read_fast_as_with_care(items: list[TaskId]) -> None:
    data = codec.write_items(items, "field")
    for _ in range(2):
        found = codec.read_items(Reader(data), "field")
        reader = Reader(data)
        assert found == codec._read_with_care(reader, reader.int32("count"), "field")


def read(known: KnownItems, items: tuple[TaskId, ...]) -> tuple[TaskId, ...]:
    """What is read where somebody reports ``items``."""
    return known.read(Reader(codec.write_items_hashed(items, "field")), "field")
