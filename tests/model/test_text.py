"""Words for people fit what there is one of."""

import pytest

from cooperator.model.text import counted


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 positions"), (1, "1 position"), (2, "2 positions"), (1600, "1,600 positions")],
)
def test_one_is_not_several(number: int, words: str) -> None:
    assert counted(number, "position") == words
