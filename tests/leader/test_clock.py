"""The leader waits by its clock: setting the machine's clock must not end a wait, nor make it longer.

The clock of the leader before it may be hours apart.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.leader.absences import by_own_clock
from cooperator.leader.process import SteadyClock
from cooperator.model import Memory, Policy, Warmup
from tests.planner.test_any_memory import NOW_MS, identities, memories, times_ms

HOUR_MS = 3_600_000
AWAITED_MS = 20_000
TIMES_WITHOUT_UNIT = {"returns", "joins", "departing"}
"""Fields of a memory that are times by their documentation."""


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


def times_in(value: object, name: str = "") -> Iterator[tuple[str, int]]:
    """All times of a memory, with the names of their fields."""
    if is_dataclass(value):
        for each in fields(value):
            yield from times_in(getattr(value, each.name), each.name)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from times_in(each, name)
    elif isinstance(value, tuple):
        for each in value:
            yield from times_in(each, name)
    elif isinstance(value, int) and (name.endswith("_ms") or name in TIMES_WITHOUT_UNIT):
        yield name, value


@given(
    memory=memories,
    warmups=st.lists(st.builds(Warmup, st.just("a"), st.integers(0, 2), identities, times_ms), max_size=2),
    departing=st.dictionaries(identities, times_ms, max_size=2),
    own_ms=st.sampled_from([NOW_MS - 3 * HOUR_MS, NOW_MS, NOW_MS + 3 * HOUR_MS]),
    delay_ms=st.sampled_from([0, 3_000, 300_000]),
)
def test_no_wait_of_a_leader_before_is_longer_than_one_of_its_own(
    memory: Memory, warmups: list[Warmup], departing: dict[str, int], own_ms: int, delay_ms: int
) -> None:
    policy = Policy(scheduled_rebalance_max_delay_ms=delay_ms)
    memory = replace(memory, warmups=tuple(warmups), departing=departing)

    own = by_own_clock(memory, memory.term - 1, policy, AWAITED_MS, own_ms)

    longest = {"deadline_ms": max(delay_ms, AWAITED_MS), "not_before_ms": policy.fence_ms}
    for name, at_ms in times_in(own):
        assert at_ms == 0 or at_ms <= own_ms + longest.get(name, 0), name
    # Nothing but the wait for a member that may return ends before its time.
    assert all(each.since_ms == own_ms for each in own.warmups)
    assert {*own.joins.values(), *own.departing.values()} <= {own_ms}
    assert all(entry.gone_since_ms is None for entry in own.unstopped)
    for identity, hold in memory.holds.items():
        if hold.not_before_ms:
            assert own.holds[identity].not_before_ms == own_ms + policy.fence_ms


@given(memories)
def test_a_leader_goes_on_with_its_own_times(memory: Memory) -> None:
    assert by_own_clock(memory, memory.term, Policy(), AWAITED_MS, NOW_MS) is memory
