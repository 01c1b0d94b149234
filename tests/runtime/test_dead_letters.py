"""The texts in a dead letter's headers."""

from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.dead_letters import LETTER_BYTES, reason
from cooperator.model.visible import is_hidden


@given(st.text(st.characters(exclude_categories=())))
def test_the_error_in_a_letter_does_not_act_on_a_terminal(quoted: str) -> None:
    """Spark quotes the data in its errors; a header is shown by consumers on a terminal."""
    text = reason(ValueError(f"cannot cast '{quoted}'"))
    assert not any(map(is_hidden, text))
    assert len(text.encode()) < LETTER_BYTES
