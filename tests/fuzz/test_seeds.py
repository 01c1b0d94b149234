"""What fuzzing has found or reached once, as ordinary tests; the long run is ``python -m tests.fuzz``."""

import pytest

from tests.fuzz.targets import CORPUS, TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_no_seed_breaks_a_promise(target: str) -> None:
    seeds = sorted((CORPUS / target).iterdir())
    assert seeds
    for seed in seeds:
        TARGETS[target](seed.read_bytes())
