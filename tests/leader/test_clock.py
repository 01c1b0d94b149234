"""The leader waits for leases by its clock: setting the machine's clock must not end that wait."""

import time

import pytest

from cooperator.leader.process import SteadyClock


def test_it_tells_the_time_of_day_when_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_456_789)
    monkeypatch.setattr(time, "monotonic", lambda: 50.0)
    assert SteadyClock()() == 1_700_000_000_123


@pytest.mark.parametrize("jump_ms", [600_000, -600_000])
def test_a_wall_clock_that_is_set_does_not_move_it(monkeypatch: pytest.MonkeyPatch, jump_ms: int) -> None:
    wall_ms, elapsed_s = 1_700_000_000_000, 50.0
    monkeypatch.setattr(time, "time_ns", lambda: wall_ms * 1_000_000)
    monkeypatch.setattr(time, "monotonic", lambda: elapsed_s)
    clock = SteadyClock()
    wall_ms += jump_ms
    elapsed_s += 9.0
    assert clock() == 1_700_000_009_000
