"""All pairs of the table."""

from __future__ import annotations

from tests.values.pairs import Pair
from tests.values.to_files import ToFiles
from tests.values.to_postgres import ToPostgres

PAIRS: tuple[Pair, ...] = (ToFiles("parquet"), ToFiles("json"), ToFiles("csv"), ToPostgres())
