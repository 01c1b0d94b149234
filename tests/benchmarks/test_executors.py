"""The table of executors: medians, and the ratio to the least number of them."""

from benchmarks.executors import table


def turn(contender: str, rows_per_s: float) -> dict[str, object]:
    result = {"rows_per_s": rows_per_s, "cpu_s_per_million": 10.0, "others_cores": 0.0}
    return {"case": "to files", "contender": contender, "result": result}


def test_more_executors_are_compared_with_the_least_by_medians() -> None:
    turns = [turn("1 executor", 100), turn("2 executors", 170), turn("1 executor", 90)]
    turns += [turn("2 executors", 190), turn("2 executors", 400), turn("1 executor", 120)]
    one, two = table(turns).splitlines()[2:]
    assert "| 1 executor | 3 | 100 | 1.00 |" in one
    assert "| 2 executors | 3 | 190 | 1.90 |" in two


def test_a_turn_that_failed_is_left_out() -> None:
    failed = {"case": "to files", "contender": "2 executors", "error": "no executor came up"}
    [line] = table([turn("1 executor", 100), failed]).splitlines()[2:]
    assert "| 1 executor | 1 |" in line
