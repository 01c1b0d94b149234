"""Automatic restarts as text in a connector's configuration, and the pauses between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.model import RESERVED, AutoRestart, without_reserved

NUMBERS = st.integers(0, 10**12)
RESTARTS = st.builds(AutoRestart, st.booleans(), NUMBERS, NUMBERS, NUMBERS, NUMBERS)


@given(RESTARTS)
def test_they_come_back_from_a_configuration_and_no_connector_sees_them(restart: AutoRestart) -> None:
    config = {"path": "/in", **restart.settings()}
    assert AutoRestart.of(config) == restart
    assert without_reserved(config) == {"path": "/in"}
    assert all(name.startswith(RESERVED) for name in restart.settings())


def test_defaults_are_not_written() -> None:
    assert AutoRestart().settings() == {}


@pytest.mark.parametrize("text", ["", "-1", "1.5", "many", "٣", "9" * 30])
def test_a_value_that_is_not_a_number_counts_as_absent(text: str) -> None:
    assert AutoRestart.of({"cooperator.auto.restart.max": text}) == AutoRestart()


@given(RESTARTS, st.integers(0, 200))
def test_a_pause_is_twice_the_one_before_or_the_longest(restart: AutoRestart, restarts: int) -> None:
    before, after = restart.delay_ms(restarts), restart.delay_ms(restarts + 1)
    if before is None or not restart.enabled or restarts + 1 >= restart.max_restarts:
        assert after is None
    else:
        assert after in (2 * before, restart.backoff_max_ms)
        assert before <= after <= restart.backoff_max_ms
