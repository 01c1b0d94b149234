"""Distributions of durations, as Prometheus' histograms have them."""

from bisect import bisect_left
from itertools import accumulate
from typing import Any, Final

BOUNDS_S: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
"""Upper bounds of the buckets, inclusive; one more bucket has no bound."""


class Distribution:
    """Counts durations by bucket, and only grows."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0

    def add(self, duration_s: float) -> None:
        self._counts[bisect_left(BOUNDS_S, duration_s)] += 1
        self._sum_s += duration_s

    def shown(self) -> dict[str, Any]:
        """Returns ``sum_s`` and ``counts``: for each bound, and last for none, how many were not above it."""
        return {"sum_s": self._sum_s, "counts": list(accumulate(self._counts))}
