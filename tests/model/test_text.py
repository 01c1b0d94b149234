"""Words for people fit what there is one of."""

import pytest

from cooperator.model.text import counted, listed


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 positions"), (1, "1 position"), (2, "2 positions"), (1600, "1,600 positions")],
)
def test_one_is_not_several(number: int, words: str) -> None:
    assert counted(number, "position") == words


@pytest.mark.parametrize(
    ("names", "words"),
    [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (["a", "b", "c"], "a, b and 1 more")],
)
def test_a_list_is_as_long_as_it_may_be(names: list[str], words: str) -> None:
    assert listed(names, 2) == words
