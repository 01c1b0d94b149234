"""Random types and values come out as they went in, through each converter and sink.

A failure names its seed, type and value: reduced, it becomes a cell of the table (``extremes``).
"""

import itertools
from collections.abc import Callable, Sequence

import pytest

from tests.values import record
from tests.values.cells import problems
from tests.values.extremes import Field
from tests.values.pairs import Converter, Pair
from tests.values.random_values import random_field, target_of
from tests.values.run import outcomes_of
from tests.values.to_files import ToFiles
from tests.values.to_postgres import ToPostgres

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(3_600),
    pytest.mark.long("tests/values/test_values.py::test_each_value_comes_out_equal_or_as_the_table_says"),
]

SEEDS = 500
TOGETHER = 50
"""Columns of one Connector."""
SINKS: dict[str, Callable[[Converter, Sequence[Field]], Pair]] = {
    "parquet": lambda converter, fields: ToFiles("parquet", converter, fields),
    "json": lambda converter, fields: ToFiles("json", converter, fields),
    "csv": lambda converter, fields: ToFiles("csv", converter, fields),
    "postgres": lambda converter, fields: ToPostgres(converter, [target_of(each) for each in fields]),
}
TRAVELS = (*itertools.product(("json",), SINKS), ("json-schema", "postgres"), ("avro", "parquet"))


@pytest.mark.parametrize(("converter", "sink"), TRAVELS)
def test_random_values_come_out_as_they_went_in(
    tmp_path_factory: pytest.TempPathFactory, converter: Converter, sink: str
) -> None:
    with record.running_world(tmp_path_factory.mktemp("random")) as world:
        for first in range(0, SEEDS, TOGETHER):
            pair = SINKS[sink](converter, [random_field(seed) for seed in range(first, first + TOGETHER)])
            pair.short = f"random-{first}"
            assert problems(outcomes_of(world, [pair], (), "batch"), ()) == []
