"""The page on types shows the recorded run, and that run is one of the table as it is now."""

from tests.values.cells import Gap, Refusal, listed_for
from tests.values.gaps import EXCEPTIONS
from tests.values.page import PAGE, rendered
from tests.values.record import read
from tests.values.table import PAIRS

CELLS = [cell for pair in PAIRS for cell in pair.cells()]


def test_the_page_shows_the_recorded_run() -> None:
    assert PAGE.read_text("utf-8") == rendered(read()), "write it: python -m tests.values.page"


def test_the_record_has_each_cell_of_the_table_in_its_order() -> None:
    assert [each.name for each in read()] == [cell.name for cell in CELLS]


def test_each_recorded_cell_is_as_the_table_says() -> None:
    expected = {type(None): "equal", Refusal: "refused", Gap: "wrong"}
    listed = [listed_for(cell, EXCEPTIONS) for cell in CELLS]
    otherwise = [
        f"{each.name}: {each.status}"
        for each, exception in zip(read(), listed, strict=True)
        if each.status != expected[type(exception)]
    ]
    assert otherwise == []
