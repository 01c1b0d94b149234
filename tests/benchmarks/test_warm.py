"""The benchmark of warm moves judges its results, and shows them as a table."""

from benchmarks.warm import judged, table


def case(keys: int, warm_s: float, cold_s: float) -> dict[str, object]:
    return {
        "keys": keys,
        "state_bytes": keys * 14,
        "learned_s": [2.0],
        "warm": [{"pause_s": warm_s - 0.1}, {"pause_s": warm_s}, {"pause_s": warm_s + 0.1}],
        "cold": [{"pause_s": cold_s}],
    }


def test_pauses_are_judged_by_their_length_and_by_their_growth() -> None:
    small, large = case(100_000, 1.5, 1.6), case(2_000_000, 1.9, 6.0)
    assert judged([small, large]) == (
        "warm pauses: at most 1.9 s (must: 3 s), and at most 0.4 s longer for a larger state than for a "
        "smaller one (must: 1 s): met"
    )
    assert "1.1 s longer" in (grown := judged([small, case(2_000_000, 2.6, 6.0)]))
    assert grown.endswith("not met")
    assert judged([case(1, 2.9, 6.0), small]).endswith("(must: 1 s): met"), "a first pause may be longer"
    assert judged([case(1, 3.1, 6.0)]).startswith("warm pauses: at most 3.1 s (must: 3 s)")


def test_a_case_is_a_row_with_medians_and_ranges() -> None:
    assert table([case(2_000_000, 1.9, 6.0)]).splitlines()[-1] == (
        "| 2,000,000 | 28 MB | 2.0 s | 1.9 s (1.8 to 2.0) | 6.0 s (6.0 to 6.0) |"
    )
