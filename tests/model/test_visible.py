"""One function makes text safe to show, whatever is in it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.model.visible import bounded, visible_json, visible_line, visible_lines, visible_text
from tests.harness.hostile_text import acting, hostile

values = st.recursive(hostile | st.integers(), lambda part: st.lists(part) | st.dictionaries(hostile, part))


@given(hostile)
def test_nothing_acts_and_a_line_is_one_line(text: str) -> None:
    assert acting(visible_line(text), "") == []
    assert acting(visible_text(text), "\n\t") == []
    assert len(visible_line(text).splitlines()) <= 1
    assert len(visible_lines([text, text]).split("\n")) == 2


@given(hostile)
def test_escaping_twice_is_escaping_once(text: str) -> None:
    assert visible_line(visible_line(text)) == visible_line(text)
    assert visible_text(visible_text(text)) == visible_text(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]).filter(lambda c: not acting(c))))
def test_visible_text_stays(text: str) -> None:
    assert visible_line(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b", r"\x1b"),
        ("\u202e", r"\u202e"),
        ("\U000e0041", r"\U000e0041"),
        ("\ud800", r"\ud800"),
        ("a\n\tb\r", r"a\n\tb\r"),
        ("❤\ufe0f ü\u3000", "❤\\ufe0f ü\u3000"),
    ],
)
def test_escapes_are_those_of_python(text: str, shown: str) -> None:
    assert visible_line(text) == shown


@given(values)
def test_a_json_document_means_the_same(value: object) -> None:
    document = visible_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert acting(document) == []
    # Two lone surrogates beside each other are a pair in JSON.
    assert _paired(json.loads(document)) == _paired(value)


def _paired(value: object) -> object:
    return json.loads(json.dumps(value))


@given(st.text(), st.integers(0, 50))
def test_a_bounded_text_keeps_its_beginning_and_end(text: str, most: int) -> None:
    found = bounded(text, most)
    assert len(found) <= most
    if len(text) <= most:
        assert found == text
    elif most > 10:
        assert text.startswith(found[:4])
        assert text.endswith(found[-3:])
