"""What is waited for: from a task's parts to what users are shown."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cooperator.model.waits import Wait, grouped, names_a_wait, read, written

WAITS = st.builds(
    Wait, st.text(min_size=1, max_size=9), st.integers(0, 10**13), st.lists(st.text(), max_size=4).map(tuple)
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda part: st.lists(part, max_size=2) | st.dictionaries(st.text(max_size=5), part, max_size=2),
    max_leaves=4,
)
ENTRIES = st.dictionaries(st.sampled_from(["for", "since_ms", "parts", "newer"]), ANYTHING)


@given(st.lists(WAITS, max_size=5))
def test_what_is_written_is_read(waits: list[Wait]) -> None:
    report = json.loads(json.dumps({"waits": written(waits)}))
    assert read(report) == tuple(waits)
    assert names_a_wait(json.dumps(report)) == bool(waits)


@given(ANYTHING | st.lists(ENTRIES | ANYTHING))
def test_a_report_of_any_form_has_waits_or_none(waits: Any) -> None:
    for each in read({"waits": waits}):
        assert isinstance(each.text, str)
        assert isinstance(each.named, str)
        assert each.since_ms >= 0


@given(st.lists(WAITS))
def test_parts_that_wait_for_the_same_are_one_wait_since_the_first_of_them(waits: list[Wait]) -> None:
    found = grouped(waits)
    assert sorted(each.text for each in found) == sorted({each.text for each in waits})
    assert [each.since_ms for each in found] == sorted(each.since_ms for each in found)
    for each in found:
        same = [wait for wait in waits if wait.text == each.text]
        assert each.since_ms == min(wait.since_ms for wait in same)
        assert each.parts == tuple(part for wait in same for part in wait.parts)


def test_the_first_parts_are_named_and_the_others_counted() -> None:
    assert Wait("a", 0, ("a-0", "a-1", "a-2")).named == "a-0, a-1, a-2"
    assert Wait("a", 0, ("a-0", "a-1", "a-2", "a-3", "a-4")).named == "a-0, a-1, a-2 and 2 more"
    assert Wait("a", 0).named == ""
