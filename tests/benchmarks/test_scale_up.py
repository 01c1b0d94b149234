"""The benchmark of scale-ups with state finds pauses around claims, and judges them."""

import math

from benchmarks.scale_up import judged, pause_s, table

MOVES = {"tasks": 12, "pauses_s": {0: 1.5, 7: 2.5}}


def test_a_pause_is_between_the_commits_around_a_claim() -> None:
    assert pause_s([1.0, 2.0, 4.5, 5.0], claim=3.0) == 2.5
    assert pause_s([1.0, 2.0], claim=3.0) == math.inf, "the new owner has committed nothing yet"
    assert pause_s([4.0], claim=3.0) == math.inf, "nothing was committed before"


def test_the_sum_of_pauses_and_the_longest_one_of_a_death_are_judged() -> None:
    assert judged(MOVES, {"pauses_s": {1: 4.0, 2: 5.1}}).splitlines() == [
        "scale-up: 2 of 12 tasks moved, with pauses of 4.0 s in all (must: 36 s), the longest 2.5 s: met",
        "death: 2 tasks, pauses of at most 5.1 s (must: 5 s): not met",
    ]
    assert judged({"tasks": 1, "pauses_s": {0: 3.1}}, None).endswith("not met")


def test_each_part_is_a_row() -> None:
    assert table(MOVES, None).splitlines()[-1] == "| scale-up 3 -> 5 | 2 | 1.5 s, 2.5 s | 4.0 s |"
