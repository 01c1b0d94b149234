"""Lists of items: every fast way gives what the plain one gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.model import TaskId
from cooperator.model.java import hash_set_order
from cooperator.wire import KnownItems
from cooperator.wire import items as codec
from cooperator.wire.primitives import ByteReader
from tests.wire.strategies import ITEMS, NAMES

SPREAD = st.lists(st.builds(TaskId, NAMES, st.integers(-1, 1)), min_size=1, max_size=30, unique=True)


@given(SPREAD | ITEMS.filter(bool))
def test_items_with_entries_of_their_own_are_written_as_groups_are(items: list[TaskId]) -> None:
    assert codec.write_items(items, "field") == codec.ItemsWriter()._write_groups(
        items, dict.fromkeys, "field"
    )
    assert codec.write_items_hashed(items, "field") == codec.ItemsWriter()._write_groups(
        items, hash_set_order, "field"
    )


@given(ITEMS, ITEMS, st.booleans())
def test_expected_items_equal_decoded_items(
    expected: tuple[TaskId, ...], now: tuple[TaskId, ...], rightly: bool
) -> None:
    known = KnownItems()
    now = expected if rightly else now
    known.expect(expected, codec.write_items_hashed(expected, "field"))
    found = read(known, now)
    plain = read(KnownItems(), now)
    assert (frozenset(found), len(found)) == (frozenset(plain), len(plain))
    assert read(known, now) is found, "unchanged bytes are the same object"


@given(ITEMS, st.lists(st.tuples(st.sets(st.integers(0, 30)), ITEMS), max_size=5))
def test_a_report_in_arrival_order_is_predicted(
    first: tuple[TaskId, ...], assignments: list[tuple[set[int], tuple[TaskId, ...]]]
) -> None:
    known = KnownItems()
    known.expect(first, codec.write_items_hashed(first, "field"))
    found = read(known, first)
    assert frozenset(found) == frozenset(first)
    own = dict.fromkeys(as_written(first))
    for lost, given_now in assignments:
        gone = frozenset(item for n, item in enumerate(own) if n in lost)
        new = tuple(item for item in given_now if item not in own)
        owned = (*found, *new)
        known.foresee(owned, gone, codec.write_items_hashed(new, "field"))
        own = dict.fromkeys([*(item for item in own if item not in gone), *as_written(new)])
        with pytest.MonkeyPatch.context() as patched:
            patched.delattr(codec, "read_items")
            found = read(known, tuple(own))
        assert (frozenset(found), len(found)) == (own.keys(), len(own))
        assert frozenset(map(id, owned)).issuperset(map(id, found)), "identical objects compare at once"


@given(ITEMS, st.frozensets(st.sampled_from(range(30))), ITEMS, ITEMS)
def test_an_unpredicted_report_is_decoded(
    before: tuple[TaskId, ...], lost: frozenset[int], new: tuple[TaskId, ...], now: tuple[TaskId, ...]
) -> None:
    known = KnownItems()
    read(known, before)
    gone = frozenset(item for n, item in enumerate(before) if n in lost)
    known.foresee((*before, *new), gone, codec.write_items_hashed(new, "field"))
    found = read(known, now)
    assert (frozenset(found), len(found)) == (frozenset(now), len(now))
    assert read(known, now) is found, "unchanged bytes are the same object"


@given(SPREAD | ITEMS)
def test_items_are_read_fast_as_with_care(items: list[TaskId]) -> None:
    data = codec.write_items(items, "field")
    found = codec.read_items(ByteReader(data), "field")
    reader = ByteReader(data)
    assert found == codec._read_with_care(reader, reader.int32("count"), "field")


def as_written(items: tuple[TaskId, ...]) -> tuple[TaskId, ...]:
    """``items`` in the order in which they are read from their bytes."""
    return read(KnownItems(), items)


def read(known: KnownItems, items: tuple[TaskId, ...]) -> tuple[TaskId, ...]:
    """Returns what is read where somebody reports ``items``."""
    return known.read(ByteReader(codec.write_items_hashed(items, "field")), "field")
