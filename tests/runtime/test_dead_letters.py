"""The texts in a dead letter's headers."""

from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.dead_letters import LETTER_BYTES, _message, reason
from cooperator.model.visible import is_hidden


@given(st.text(st.characters(exclude_categories=())))
def test_the_error_in_a_letter_does_not_act_on_a_terminal(quoted: str) -> None:
    """Spark quotes the data in its errors; a header is shown by consumers on a terminal."""
    text = reason(ValueError(f"cannot cast '{quoted}'"))
    assert not any(map(is_hidden, text))
    assert len(text.encode()) < LETTER_BYTES


def test_json_that_cannot_be_read_is_shown_with_a_remedy_and_bounded() -> None:
    said = "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records: [null,null]"
    row = {"key": None, "value": b'{"id": \x1b[31m \xff' + b"x" * 100_000}
    told = _message(row, ValueError(said))
    assert told.startswith('not JSON of the converter\'s schema: key null, value {"id": ')
    assert told.endswith("JSON that key.schema or value.schema describes, or set the converter to string")
    assert "\x1b" not in told
    assert len(told) < LETTER_BYTES
