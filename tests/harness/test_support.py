"""Waits look often where looking is cheap, and leave the processor alone where it is not."""

from types import SimpleNamespace

import pytest

from tests.harness import support
from tests.harness.support import eventually


@pytest.mark.parametrize(("takes_s", "pause_s"), [(0.001, 0.05), (0.1, 0.4), (5.0, 0.5)])
def test_a_look_that_takes_long_is_repeated_later(
    monkeypatch: pytest.MonkeyPatch, takes_s: float, pause_s: float
) -> None:
    now_s, pauses, looks = 100.0, list[float](), 0

    def look() -> bool:
        nonlocal now_s, looks
        now_s += takes_s
        looks += 1
        return looks == 4

    monkeypatch.setattr(support, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=pauses.append))
    assert eventually(look)
    assert pauses == pytest.approx([pause_s] * 3)
