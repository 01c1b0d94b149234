"""The histories of a test run: some fixed ones, and some that no run has had before.

With the same seeds every time, the code adapts to them, and bugs that they cannot show stay unseen.
"""

import os
import time

FIXED = 100
"""This number of first seeds is in every long run, and half of them in every run (``test_seeds``)."""
FRESH = 60
"""Each run has this number of further, different seeds."""
FOUND_WITHOUT_LIMITS = (
    *(777_545, 800_186, 801_334, 801_376, 806_044, 806_219, 806_248, 809_217, 811_643, 819_255),
    *(802_036, 819_910, 827_087),
    *(901_203, 901_396, 902_997, 903_356, 179_552_455_549, 179_562_529_220),
)
"""Found before any world had a limit of the group's record: these keep the world that they had."""
FOUND = (
    *FOUND_WITHOUT_LIMITS,
    *(800_287, 800_381, 800_895, 809_616, 821_391, 824_163, 825_103, 825_723, 826_557, 827_104),
)
"""Seeds that broke a promise, or could not come to rest, outside of the fixed ones."""
FOUND_SINCE = (
    *(848, 3_000_007, 3_003_198, 3_008_635, 3_031_878, 3_032_262, 3_034_990, 3_037_283, 3_040_578),
    *(3_061_208, 3_072_398, 3_101_015, 3_103_812, 3_117_799, 3_120_425, 3_121_710),
)
"""Later ones: their worlds are what any seed's are."""

FIRST_FRESH = "COOPERATOR_FRESH_SEEDS"
"""The environment variable with the first fresh seed: set it to repeat a run."""


def first_fresh() -> int:
    """The same for all processes of a run, once the process that starts them has asked."""
    return int(os.environ.setdefault(FIRST_FRESH, str(10_000_000 + int(time.time()) * FRESH)))


def name_fresh() -> str:
    """The fresh seeds of a run, and how to run them again."""
    first = first_fresh()
    return (
        f"fresh histories: seeds {first} to {first + FRESH - 1}; "
        f"again: python -m tests.simulation --start {first} --seeds {FRESH}"
    )
