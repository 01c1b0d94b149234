"""Replays the inputs that fuzzing found; the long run is ``python -m tests.fuzz``."""

import pytest

from tests.fuzz.targets import TARGETS, seeds


@pytest.mark.parametrize("target", TARGETS)
def test_no_seed_breaks_a_promise(target: str) -> None:
    for seed in seeds(target):
        TARGETS[target](seed)
