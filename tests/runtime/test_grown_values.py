"""What ``sql_sizes`` states of a function is compared with the values that Spark makes by it."""

import json
import random
import re
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import pytest
from pydantic_core import PydanticCustomError
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import VariantVal

from cooperator.connectors.parsed_select import check_parsed
from cooperator.connectors.sql_costs import Cost
from cooperator.connectors.sql_functions import ALLOWED
from cooperator.connectors.sql_growth import check_growth
from cooperator.connectors.sql_parts import tree_of
from cooperator.connectors.sql_sizes import PLACE
from cooperator.connectors.transform import read_here
from tests.runtime.grown_calls import AGGREGATES, CALLS, ROWS, SQUARES, UNCALLED, WINDOWS
from tests.runtime.spark_bench import SparkBench

LENGTHS: Final = (150, 1_500)
"""What grows with the square of a value is below its bound for the first and above it for the second."""
TEXTS: Final = (
    ("a\"<é\n%\\'\x01", "VV ", '[1,1,"a",1e6,{},'),
    ("a", "a ", "{},"),
    (",", "O ", '{"a":"b","c":1},'),
    ("ΐ", "y ", "[],"),
    ("a. ", "zzzz ", "1,"),
    ("7", "EEEE ", '"",'),
)
"""Texts that are repeated, formats of times, and elements of JSON, of which some function writes more."""
SLOTS: Final = {
    "string": "t",
    "binary": "b",
    "array<string>": "a",
    "map<string,string>": "m",
    "variant": "w",
}
BATCH: Final = 40
PLAIN: Final = "SELECT row, {} FROM input"
GROUPED: Final = "SELECT row, {} FROM input GROUP BY row"
OF_ROWS: Final = "SELECT row, {} FROM input WHERE row IS NOT NULL"
OF_FIRST: Final = "SELECT row, {} FROM input WHERE row = 0"
SETTINGS: Final = {
    "spark.sql.session.timeZone": "America/Argentina/ComodRivadavia",
    # A text that is no number is null; otherwise it would end the query of all calls.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.variable.substitute": "false",
    # Each query runs once: compiling it takes longer.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}


def size_of(value: Any) -> int:
    """Returns the size as ``sql_sizes`` defines it."""
    match value:
        case None:
            return 0
        case str():
            return len(value.encode(errors="replace"))
        case bytes() | bytearray():
            return len(value)
        case VariantVal():
            return len(value.value) + len(value.metadata)
        case dict():
            return sum(2 * PLACE + size_of(key) + size_of(each) for key, each in value.items())
        case Row():
            fields = zip(value.__fields__, value, strict=True)
            return sum(
                PLACE + (each is not None) * len(name.encode()) + size_of(each) for name, each in fields
            )
        case list() | tuple():
            return sum(PLACE + size_of(each) for each in value)
        case Decimal():
            return 40
        case timedelta():
            return 82
        case _:
            return 26


def elements_of(value: Any) -> int:
    """Returns the most elements that a value has at one of its levels, together."""
    if isinstance(value, (list, dict)):
        within = value.values() if isinstance(value, dict) else value
        return max(len(value), sum(map(elements_of, within)))
    return max([1, *map(elements_of, value)]) if isinstance(value, Row) else 1


def literal(text: str) -> str:
    return "'" + "".join(f"\\u{ord(each):04x}" if each in "'\\\n\x01\"" else each for each in text) + "'"


def rows_of(session: SparkSession, lengths: Sequence[int] = LENGTHS) -> DataFrame:
    """Returns a row for each length and text, with a column for each slot of a call."""
    rows = []
    for row, (length, texts) in enumerate((n, each) for n in lengths for each in TEXTS):
        columns = {"row": str(row), **columns_of(length, *texts)}
        rows.append("SELECT " + ", ".join(f"{value} AS {name}" for name, value in columns.items()))
    return session.sql(" UNION ALL ".join(rows))


def columns_of(length: int, text: str, form: str, part: str) -> dict[str, str]:
    """Returns what is in each slot, as SQL."""
    repeated = (text * length)[:length]
    elements = ", ".join([literal(repeated[: length // 20])] * 20)
    document = "[" + (part * length)[: length // len(part) * len(part)].rstrip(",") + "]"
    return {
        "t": literal(repeated),
        "p": literal(form * (min(length, 400) // len(form))),
        "j": literal(json.dumps(json.loads(_closed(document)), separators=(",", ":"))),
        "l": literal(f"<a>{'<b>x</b>' * (length // 8)}</a>"),
        "b": f"CAST({literal(repeated)} AS BINARY)",
        "a": f"array({elements})",
        "c": f"transform(sequence(1, {length // 9}), x -> x / 3)",
        "o": f"transform(sequence(1, {length // 9}), x -> struct(x AS k, {literal(text)} AS v))",
        "m": f"map('k', {literal(repeated)}, 'l', NULL)",
        "s": f"named_struct('f', {literal(repeated)}, 'g', 1, 'h', NULL)",
        "w": f"parse_json({literal(_closed(document))})",
        "n": "7",
        "d": "-1.2345678901234567E-300D",
        "x": "timestamp'2020-12-31 23:59:59.123456'",
    }


def _closed(document: str) -> str:
    opened = document.count("[") - document.count("]")
    return document + "]" * opened


class Measured:
    """Calls on Spark, each with its bound."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        for name, value in SETTINGS.items():
            session.conf.set(name, value)
        self.written = [columns_of(LENGTHS[0], *texts) for texts in TEXTS]
        found = rows_of(session)
        self.sizes = {
            row.row: {name: size_of(each) for name, each in row.asDict().items()} for row in found.collect()
        }
        # Rows of the driver: Spark evaluates most queries without a job.
        rows = session._jsparkSession.createDataFrame(found._jdf.collectAsList(), found._jdf.schema())
        rows.createOrReplaceTempView("input")
        self.failed: dict[str, str] = {}
        self.types: dict[str, str] = {}

    def larger(self, calls: Sequence[str], query: str = PLAIN) -> dict[str, str]:
        """Returns the calls that make more than is stated, with both numbers."""
        found: dict[str, str] = {}
        for start in range(0, len(calls), BATCH):
            for call, cost, values, row in self._made(calls[start : start + BATCH], query):
                used = set(re.findall(r"\{(\w)\}", call))
                of_row = max((self.sizes[row][name] for name in used), default=0)
                stated, size = cost.size, max(map(size_of, values))
                most = stated.bytes + stated.most_times * of_row
                if size > most:
                    found[call] = f"{size} > {most} = {stated.bytes} + {stated.most_times} * {of_row}"
        return found

    def more_elements(self, calls: Sequence[str], text: int) -> dict[str, str]:
        """Returns the calls of written values, and not of columns, that make more elements than is stated."""
        written = {
            re.sub(r"\{(\w)\}", lambda slot: self.written[text][slot[1]], call): call for call in calls
        }
        found: dict[str, str] = {}
        for start in range(0, len(calls), BATCH):
            for call, cost, [value], _ in self._made([*written][start : start + BATCH], OF_FIRST):
                if elements_of(value) > cost.elements:
                    found[written[call]] = f"{elements_of(value)} > {cost.elements}"
        return found

    def larger_rows(self, call: str) -> dict[str, str]:
        """The same for a call that makes rows, and names their columns."""
        return self.larger([call], OF_ROWS)

    def _made(self, calls: Sequence[str], query: str) -> Iterator[tuple[str, Cost, Sequence[Any], int]]:
        """Yields for each call and row what is stated and made; notes what Spark or the check refuses."""
        values = ", ".join(f"{unslotted(call)} AS z{number}" for number, call in enumerate(calls))
        sql = query.format(unslotted(calls[0]) if query == OF_ROWS else values)
        try:
            parsed = self.session._jvm.dev.cooperator.spark.ParsedSelect.of(self.session._jsparkSession, sql)
            summary = json.loads(parsed.summary())
            check_parsed(summary)
            stated = check_growth(tree_of(summary["tree"]))
            frame = read_here(self.session, sql)
            schema, made = frame.schema, frame.collect()
        except Exception as error:  # Spark's, Java's, and Python's for types that it does not have
            if len(calls) > 1:
                middle = len(calls) // 2
                yield from self._made(calls[:middle], query)
                yield from self._made(calls[middle:], query)
            else:
                said = error.message() if isinstance(error, PydanticCustomError) else str(error)
                self.failed[calls[0]] = said
            return
        for number, call in enumerate(calls):
            self.types[call] = schema[number + 1].dataType.simpleString()
            for row in made:
                found = row[1:] if query == OF_ROWS else row[number + 1 : number + 2]
                yield call, stated.columns.get(f"z{number}", stated.most), found, row.row


def unslotted(call: str) -> str:
    return re.sub(r"\{(\w)\}", r"\1", call)


def nested(types: dict[str, str], seed: int, count: int) -> list[str]:
    """Returns calls of which one argument is the result of another call, which has its type.

    An array counts as 20 elements (``ELEMENTS``) where a loop copies another value: such a loop is compared
    with an array of 20 alone.
    """
    chance = random.Random(seed)
    outside = [call for _, call in CALLS if not call.endswith("-> {t})")]
    inner = [call for _, call in CALLS if types.get(call) in SLOTS]
    found: set[str] = set()
    while len(found) < count:
        call = chance.choice(inner)
        slot = f"{{{SLOTS[types[call]]}}}"
        outer = chance.choice([each for each in outside if slot in each])
        found.add(outer.replace(slot, call, chance.choice([1, -1])))
    return sorted(found)


@pytest.fixture(scope="module")
def measured(spark: SparkBench) -> Measured:
    return Measured(spark.runtime.session(threading.Event()).newSession())


def test_each_function_is_called_or_has_a_reason_why_not() -> None:
    called = {name for name, _ in (*CALLS, *AGGREGATES, *ROWS, *WINDOWS)} - {""}
    uncalled = set(" ".join(UNCALLED.values()).split())
    assert called | uncalled == ALLOWED
    assert not called & uncalled


@pytest.mark.real
def test_a_sample_of_calls_makes_no_more_than_is_said(measured: Measured) -> None:
    sample = random.Random(1).sample([call for _, call in CALLS], 40)
    assert measured.larger(sample) == {}
    assert measured.larger(nested(measured.types, 1, 20)) == {}
    assert len(measured.types) > 50
    assert measured.more_elements(sample, 2) == {}
    assert len(measured.types) > 70


@pytest.mark.real
def test_what_grows_with_the_square_of_a_value_is_refused(measured: Measured) -> None:
    for name, call in SQUARES:
        assert measured.larger([call]) == {}
        assert measured.failed.pop(call) == f"calls {name}, whose result may grow with the square of a value"


@pytest.mark.real
def test_entities_of_a_document_are_few(measured: Measured) -> None:
    entity = "x" * 100
    for times, is_read in ((2, True), (20, False)):
        document = f'<!DOCTYPE a [<!ENTITY b "{entity}">]><a>{"&b;" * times}</a>'
        call = f"length(xpath_string({literal(document)}, '/a'))"
        assert measured.larger([call]) == {}
        assert (call not in measured.failed) == is_read
    assert "JAXP" in measured.failed.pop(call)


@pytest.mark.long("tests/runtime/test_grown_values.py::test_a_sample_of_calls_makes_no_more_than_is_said")
@pytest.mark.real
@pytest.mark.timeout(1_800)
def test_no_call_and_no_nesting_of_two_makes_more_than_is_said(measured: Measured) -> None:
    measured.failed.clear()
    found = measured.larger([call for _, call in CALLS])
    found |= measured.larger([call for _, call in AGGREGATES], GROUPED)
    found |= measured.larger([call for _, call in WINDOWS])
    for _, call in ROWS:
        found |= measured.larger_rows(call)
    assert found == {}
    assert measured.failed == {}
    assert measured.larger(nested(measured.types, 2, 3_000)) == {}
    assert len(measured.types) > 2_500, "few nestings are refused, or fail by their values"
    measured.types.clear()
    for text in range(len(TEXTS)):
        assert measured.more_elements([call for _, call in CALLS], text) == {}
    assert len(measured.types) > 4 * len(CALLS)
