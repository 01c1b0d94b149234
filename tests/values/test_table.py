"""The table itself: it judges strictly, knows each of its exceptions, and reaches into no product code."""

import ast
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.values.cells import Cell, Gap, Outcome, Refusal, listed_for, problems, status_of, unnamed
from tests.values.gaps import EXCEPTIONS
from tests.values.readings import day_text, days_of, float_text, moment_text, parsed_moment
from tests.values.table import PAIRS

ROOT = Path(__file__).resolve().parents[2]
CELLS = [cell for pair in PAIRS for cell in pair.cells()]
CELL = Cell("topics to files", "INT", "the largest", "2147483647", "2147483647", "amount", "order-17")


def imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
    return found


def test_the_table_imports_nothing_of_the_product_even_indirectly() -> None:
    unseen, seen = set(Path(__file__).parent.glob("*.py")), set()
    while unseen:
        path = unseen.pop()
        seen.add(path)
        names = imported(path)
        assert not [name for name in names if name.split(".")[0] == "cooperator"], path
        files = {ROOT.joinpath(*name.split(".")).with_suffix(".py") for name in names}
        unseen |= {file for file in files if file.is_file()} - seen
    assert ROOT / "tests" / "runtime" / "postgres.py" in seen


def test_each_cell_has_a_name_of_its_own_and_a_key_within_its_pair() -> None:
    assert len({cell.name for cell in CELLS}) == len(CELLS)
    assert len({(cell.pair, cell.key) for cell in CELLS}) == len(CELLS)


def test_each_pair_has_a_connector_of_its_own() -> None:
    assert len({pair.short for pair in PAIRS}) == len(PAIRS)


def test_each_exception_is_one_of_a_cell_and_the_first_that_names_it() -> None:
    used = {id(listed_for(cell, EXCEPTIONS)) for cell in CELLS}
    assert [listed for listed in EXCEPTIONS if id(listed) not in used] == []
    of_values = [
        (listed, value)
        for listed in EXCEPTIONS
        for value in listed.values
        if not any(listed.has(cell.pair, cell.type, value) and _named(value, cell) for cell in CELLS)
    ]
    assert of_values == []


def _named(value: str, cell: Cell) -> bool:
    return "*" in value or value == cell.value


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome("row", "2147483647"), "equal"),
        (Outcome("row", "2147483646"), "wrong"),
        (Outcome("row", "null"), "wrong"),
        (Outcome("missing"), "wrong"),
        (Outcome("failed", "amount of order-17 is 2147483647: cast it to LONG"), "refused"),
        (Outcome("letter", "amount of order-17 is 2147483647: use LONG"), "refused"),
        (Outcome("letter", "amount of order-17 is 2147483647"), "wrong"),
        (Outcome("letter", "amount is 2147483647: use LONG"), "wrong"),
        (Outcome("letter", "order-17 is 2147483647: use LONG"), "wrong"),
        (Outcome("failed", "amount of order-17 is out of range: use LONG"), "wrong"),
    ],
)
def test_a_value_is_equal_or_refused_by_a_message_that_names_all_or_it_is_wrong(
    outcome: Outcome, status: str
) -> None:
    assert status_of(CELL, outcome) == status
    assert problems({CELL: outcome}, ()) == [] or status != "equal"


def test_a_message_is_told_what_it_lacks() -> None:
    assert unnamed(CELL, "overflow") == ["column", "key", "value", "remedy"]


def test_a_gap_that_closes_is_a_problem_until_it_is_taken_off_the_list() -> None:
    listed = Gap(CELL.pair, CELL.type, (CELL.value,), "comes as null", "3.8")
    assert problems({CELL: Outcome("row", "null")}, [listed]) == []
    [said] = problems({CELL: Outcome("row", CELL.due)}, [listed])
    assert "the gap is closed: take it off the list" in said


def test_a_value_that_is_to_be_refused_must_not_pass() -> None:
    listed = Refusal(CELL.pair, CELL.type, (CELL.value,), "is out of range")
    [said] = problems({CELL: Outcome("row", CELL.due)}, [listed])
    assert "equal, expected refused" in said


@given(st.dates())
def test_days_are_those_of_the_proleptic_gregorian_calendar(day: date) -> None:
    days = (day - date(1970, 1, 1)).days
    assert day_text(days) == day.isoformat()
    assert days_of(day.year, day.month, day.day) == days


@given(st.integers(-10_000_000, 10_000_000))
def test_days_beyond_the_years_of_python_are_counted_too(days: int) -> None:
    text = day_text(days)
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    year, month, day = (int(part) for part in digits.split("-"))
    assert days_of(sign * year, month, day) == days


@given(st.datetimes(timezones=st.just(UTC)))
def test_moments_are_read_in_each_spelling(moment: datetime) -> None:
    us = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    text = moment_text(us)
    assert parsed_moment(moment.isoformat(), zoned=True) == text
    assert parsed_moment(moment.isoformat(" ").replace("+00:00", "+00"), zoned=True) == text
    assert "without a zone" in parsed_moment(text.removesuffix("Z"), zoned=True)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_number_of_32_bits_has_the_shortest_text_that_is_it(number: float) -> None:
    text = float_text(number, single=True)
    assert len(text) <= len(repr(number))
