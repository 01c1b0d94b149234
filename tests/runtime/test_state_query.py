"""Questions about state: their form, and the limits of answers."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.state_query import (
    MOST_BYTES,
    MOST_ROWS,
    Answer,
    StateError,
    StateQuery,
    decode,
    keys_of,
    wrong_column,
)
from cooperator.terminal.state import RowsFormat, state_text

QUERIES = st.builds(
    StateQuery,
    st.dictionaries(st.text(), st.text(), max_size=3),
    st.text(),
    st.none() | st.integers(0, 9),
    st.integers(1, MOST_ROWS),
)


@given(QUERIES)
def test_a_question_arrives_as_it_was_sent(query: StateQuery) -> None:
    assert decode(json.loads(json.dumps(query.encode()))) == query


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([], "the question is not an object"),
        ({"limti": 3}, "the unknown field 'limti': did you mean 'limit'?"),
        ({"keys": ["a"]}, "keys is not a map of texts"),
        ({"keys": {"a": 1}}, "keys is not a map of texts"),
        ({"unit": 0}, "unit is '0': use the name of a unit"),
        ({"operator": -1}, "operator is '-1': use a number of at least 0"),
        ({"operator": True}, "operator is 'True': use a number of at least 0"),
        ({"limit": 1_001}, "limit is '1001': use a number from 1 to 1,000"),
    ],
)
def test_a_malformed_question_is_refused_with_the_remedy(asked: Any, said: str) -> None:
    with pytest.raises(StateError) as caught:
        decode(asked)
    assert said in str(caught.value)


def test_a_value_may_contain_the_sign() -> None:
    assert keys_of(["a=1=2", "b="]) == {"a": "1=2", "b": ""}


@given(st.lists(st.integers(0, 30_000), max_size=30), st.integers(1, 20))
def test_an_answer_is_bounded_and_says_whether_there_is_more(sizes: list[int], limit: int) -> None:
    answer = Answer(limit)
    for size in sizes:
        answer.add({"value": "x" * size})
    found = answer.encode()
    assert len(found["rows"]) <= limit
    assert len(json.dumps(found["rows"])) <= MOST_BYTES + 2
    assert found["cut"] == (len(found["rows"]) < len(sizes))
    assert [len(row["value"]) for row in found["rows"]] == sizes[: len(found["rows"])]


def test_a_wrong_column_is_named_with_those_that_exist() -> None:
    assert str(wrong_column(["usr"], ["user", "window.start"])) == (
        "key 'usr' is not a column of the state's key: did you mean 'user'? use one of user, window.start"
    )
    assert str(wrong_column(["x1"], ["user", "window.start"])) == (
        "key 'x1' is not a column of the state's key: use one of user, window.start"
    )
    assert "no part of the state has all of these" in str(wrong_column(["a", "b"], ["a", "b"]))


def test_long_values_are_shortened_in_tables_alone() -> None:
    row = {"unit": "u", "batch": 1, "operator": 0, "kind": "k", "part": "left"}
    answer = {"rows": [{**row, "key": None, "key_chars": 30_000, "value": "x" * 500}], "cut": False}
    text = state_text(answer, RowsFormat.TABLE)
    assert "<30,000 characters>" in text
    assert "0 k.left" in text
    assert max(map(len, text.splitlines())) < 200
    assert json.loads(state_text(answer, RowsFormat.JSON)) == answer
