"""At most one value per interval, and the newest in the end."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cooperator.model.throttle import Throttle

EVERY_MS = 1_000


@given(st.lists(st.integers(0, 2_500), min_size=1, max_size=30))
def test_the_newest_value_is_passed_on_and_never_two_within_an_interval(gaps_ms: list[int]) -> None:
    throttle: Throttle[int] = Throttle()
    sent: list[tuple[int, int]] = []
    now_ms = 5

    def run_until(end_ms: int) -> None:
        nonlocal now_ms, throttle
        while (due_ms := throttle.due_ms(now_ms, EVERY_MS)) is not None and due_ms <= end_ms:
            assert throttle.waiting is not None
            now_ms = due_ms
            sent.append((now_ms, throttle.waiting))
            throttle = throttle.sent(now_ms)
        now_ms = end_ms

    for number, gap_ms in enumerate(gaps_ms):
        run_until(now_ms + gap_ms)
        throttle = throttle.offer(number)
        run_until(now_ms)
    run_until(now_ms + EVERY_MS)

    assert sent[0] == (5 + gaps_ms[0], 0), "the first one waits for nothing"
    assert sent[-1][1] == len(gaps_ms) - 1
    times = [at_ms for at_ms, _ in sent]
    assert all(later - earlier >= EVERY_MS for earlier, later in pairwise(times))
    assert throttle.due_ms(now_ms, EVERY_MS) is None
