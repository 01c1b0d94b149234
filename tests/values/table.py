"""All pairs of the table."""

from __future__ import annotations

from tests.values.from_files import FromFiles
from tests.values.from_postgres import FromPostgres
from tests.values.mirror import Mirror
from tests.values.pairs import Pair
from tests.values.shapes import OneColumn, TopicNames
from tests.values.to_files import ToFiles
from tests.values.to_postgres import ToPostgres
from tests.values.to_texts import ToTexts

DECIDING: tuple[Pair, ...] = (
    ToFiles("parquet"),
    ToFiles("json"),
    ToFiles("csv"),
    OneColumn(),
    TopicNames(),
    ToPostgres(),
    ToPostgres(by_row=True),
    FromPostgres("json"),
    FromPostgres("json-schema"),
    FromPostgres("avro"),
    FromFiles("line"),
    FromFiles("json"),
    Mirror(),
    ToTexts("json"),
    ToTexts("csv"),
)
"""Each type travels to each sink in every run."""
OTHERS: tuple[Pair, ...] = (
    ToFiles("parquet", "json-schema"),
    ToFiles("parquet", "avro"),
    ToFiles("json", "avro"),
    ToPostgres("json-schema"),
    ToPostgres("avro"),
)
PAIRS = (*DECIDING, *OTHERS)
