"""Files that Spark writes with our defaults have the values that went in, for readers that are not Spark."""

import csv
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import unquote

import pyarrow.csv
import pyarrow.parquet
import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql.functions import lit

from cooperator.connectors.files_task import with_names_of_directories
from cooperator.connectors.formats import defaults
from tests.runtime.spark_bench import SparkBench

pytestmark = pytest.mark.real

ALPHABET = ("a", '"', "\\", ",", " ", "\n", "\r", "#", "'", "\t", "\u00e9", "\u2028")
TEXTS = tuple("".join(letters) for length in range(4) for letters in product(ALPHABET, repeat=length))
"""Everything that a reader of CSV may take for something else, beside everything else of that kind."""
TIMES = (
    "1816-03-29T05:56:08.066277",
    "1969-12-31T23:59:59.999999",
    "2024-10-27T01:30:00.000001",
    "9999-12-31T23:59:59.999999",
)
ZONES = ("UTC", "Europe/Berlin")


@pytest.fixture(params=ZONES)
def session(spark: SparkBench, request: pytest.FixtureRequest) -> Any:
    """A session in this zone, as ``spec.spark.conf`` may have it."""
    own = spark.runtime.session(Event()).newSession()
    own.conf.set("spark.sql.session.timeZone", request.param)
    return own


def files(rows: Any, name: str, directory: Path, **options: str) -> Sequence[Path]:
    said = {**defaults(name, "sink"), **options}
    rows.coalesce(1).write.format(name).options(**said).save(str(directory))
    return sorted(directory.glob("part-*"))


def at_times(session: Any) -> Any:
    """A row for each time: as an instant, and as a local time."""
    return session.sql(
        " UNION ALL ".join(
            f"SELECT TIMESTAMP'{time}Z' AS at, TIMESTAMP_NTZ'{time}' AS local" for time in TIMES
        )
    )


def test_any_text_in_csv_is_what_readers_of_rfc_4180_find(session: Any, tmp_path: Path) -> None:
    numbered = [(str(number), text, text) for number, text in enumerate(TEXTS)]
    rows = session.createDataFrame(numbered, "number string, text string, again string")
    [file] = files(rows, "csv", tmp_path / "out", header="true")
    with file.open(encoding="utf-8", newline="") as opened:
        assert [*map(tuple, csv.reader(opened))] == [("number", "text", "again"), *numbered]
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
    types = dict.fromkeys(("number", "text", "again"), pyarrow.string())
    conversion = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    found = pyarrow.csv.read_csv(file, parse_options=parsing, convert_options=conversion)
    assert [*zip(*(found[name].to_pylist() for name in types), strict=True)] == numbered


def test_csv_of_others_is_read_as_it_was_written(session: Any, tmp_path: Path) -> None:
    numbered = [(str(number), text, text) for number, text in enumerate(TEXTS)]
    with (tmp_path / "in.csv").open("w", encoding="utf-8", newline="") as opened:
        csv.writer(opened, quoting=csv.QUOTE_ALL).writerows(numbered)
        opened.write('null,,""\r\n')
    reader = session.read.format("csv").options(**defaults("csv", "source"))
    rows = reader.schema("number string, text string, again string").load(str(tmp_path / "in.csv"))
    # In a file whose lines end like this, Spark's parser takes these two for one also within quotes.
    wanted = [tuple(text.replace("\r\n", "\n") for text in row) for row in numbered]
    assert [*map(tuple, rows.collect())] == [*wanted, ("null", None, "")]


@pytest.mark.parametrize("name", ["csv", "json"])
def test_a_time_in_text_has_its_microseconds_and_its_zone(session: Any, tmp_path: Path, name: str) -> None:
    options = {"header": "true"} if name == "csv" else {}
    [file] = files(at_times(session), name, tmp_path / "out", **options)
    lines = file.read_text().splitlines()
    found = [*csv.DictReader(lines)] if name == "csv" else [*map(json.loads, lines)]
    assert found == [{"at": f"{time}Z", "local": time} for time in TIMES]


def test_a_time_in_parquet_is_one_for_every_reader(session: Any, tmp_path: Path) -> None:
    [file] = files(at_times(session), "parquet", tmp_path / "out")
    found = pyarrow.parquet.read_table(file)
    assert {str(field.type) for field in found.schema} == {"timestamp[us, tz=UTC]", "timestamp[us]"}
    naive = [datetime.fromisoformat(time) for time in TIMES]
    assert found["local"].to_pylist() == naive
    assert found["at"].to_pylist() == [each.replace(tzinfo=UTC) for each in naive]


def test_a_null_in_json_is_there(session: Any, tmp_path: Path) -> None:
    rows = session.sql("SELECT 1 AS a, CAST(NULL AS STRING) AS b, named_struct('c', CAST(NULL AS INT)) AS d")
    [file] = files(rows, "json", tmp_path / "out")
    assert json.loads(file.read_text()) == {"a": 1, "b": None, "d": {"c": None}}


@pytest.mark.parametrize("name", ["parquet", "json", "csv", "orc"])
def test_a_time_in_the_name_of_a_directory_is_in_utc(session: Any, tmp_path: Path, name: str) -> None:
    rows = session.sql("SELECT TIMESTAMP'2026-07-01T22:30:00Z' AS at, 1 AS number")
    rows.write.format(name).options(**defaults(name, "sink")).partitionBy("at").save(str(tmp_path / "out"))
    [directory] = (tmp_path / "out").glob("at=*")
    assert "2026-07-01" in directory.name
    assert "22%3A30%3A00" in directory.name


def test_a_text_that_no_name_of_a_directory_can_hold_is_refused(spark: SparkBench, tmp_path: Path) -> None:
    session: Any = spark.runtime.session(Event()).newSession()
    good = (
        None,
        "a/b",
        "a%20b",
        " a ",
        "null",
        "a*b?[c]{d}",
        "a\\b",
        "a\nb",
        "größe",
        "..",
        "x" * 253,
        "/" * 84,
    )
    rows = with_names_of_directories(session.createDataFrame([(each,) for each in good], "p string"), ["p"])
    numbered = rows.withColumn("number", lit(1)).coalesce(1)
    numbered.write.partitionBy("p").parquet(str(tmp_path / "out"))
    names = {unquote(each.name.removeprefix("p=")) for each in (tmp_path / "out").glob("p=*")}
    assert names == {each or "__HIVE_DEFAULT_PARTITION__" for each in good}
    refused = {
        "": "is empty",
        "__HIVE_DEFAULT_PARTITION__": "stands for null",
        "x" * 254: "more than the 253 bytes",
        "/" * 85: "more than the 253 bytes",
    }
    for text, problem in refused.items():
        one = with_names_of_directories(session.createDataFrame([(text,)], "p string"), ["p"])
        with pytest.raises(SparkRuntimeException, match=f"column p of partition.by .*{problem}"):
            one.collect()
