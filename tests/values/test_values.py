"""What goes in comes out: each type and extreme value through each pair of source and sink."""

from collections.abc import Iterator

import pytest

from tests.values import record
from tests.values.cells import problems
from tests.values.gaps import EXCEPTIONS
from tests.values.pairs import Pair, Part
from tests.values.run import outcomes_of
from tests.values.table import DECIDING, OTHERS, PAIRS
from tests.values.world import World

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

SHORT = "tests/values/test_values.py::test_each_value_comes_out_equal_or_as_the_table_says"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with record.running_world(tmp_path_factory.mktemp("values")) as world:
        yield world


def test_each_value_comes_out_equal_or_as_the_table_says(world: World) -> None:
    outcomes = outcomes_of(world, DECIDING, EXCEPTIONS, "batch")
    assert problems(outcomes, EXCEPTIONS) == []
    assert record.changed(outcomes, record.read()) == []


@pytest.mark.long(SHORT)
def test_records_that_bring_their_types_come_out_as_the_table_says(world: World) -> None:
    outcomes = outcomes_of(world, OTHERS, EXCEPTIONS, "batch")
    assert problems(outcomes, EXCEPTIONS) == []
    assert record.changed(outcomes, record.read()) == []


@pytest.mark.long(SHORT)
@pytest.mark.parametrize("part", ["singly", "selected"])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.label)
def test_values_do_not_depend_on_batches_or_a_select(world: World, pair: Pair, part: Part) -> None:
    if part in pair.ways:
        outcomes = outcomes_of(world, [pair], EXCEPTIONS, part)
        assert problems(outcomes, EXCEPTIONS) == []
        assert record.changed(outcomes, record.read()) == []


@pytest.mark.long(SHORT)
def test_each_value_that_travels_alone_comes_out_as_the_table_says(world: World) -> None:
    outcomes = outcomes_of(world, PAIRS, EXCEPTIONS, "alone")
    assert problems(outcomes, EXCEPTIONS) == []
    assert record.changed(outcomes, record.read()) == []
