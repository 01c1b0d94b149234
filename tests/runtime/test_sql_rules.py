"""SQL of a Connector is bounded and opens nothing, whatever a tenant writes."""

import contextlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from cooperator.connectors import validate
from cooperator.connectors.sql_functions import ALLOWED, REFUSED
from cooperator.connectors.sql_rules import MAX_DEPTH, check_select
from tests.harness.examples import examples
from tests.harness.support import bounded_work


def refused(sql: str) -> str:
    with pytest.raises(PydanticCustomError) as error:
        check_select(sql)
    return error.value.message()


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 300 + "1" + ")" * 300,
        "CASE WHEN value = '' THEN " * 60 + "1" + " END" * 60,
        "NOT " * 4_000 + "true",
        "[" * 60,
        "CAST(value AS " + "ARRAY<" * 200 + "INT" + ">" * 200 + ")",
        "struct((" * 30 + "1" + "))" * 30,
    ],
)
def test_deep_nesting_is_a_problem_of_the_option_and_not_an_exception(expression: str) -> None:
    config = {"topics": "a", "topic": "b", "transform.sql": f"SELECT {expression} AS value FROM input"}
    [problem] = validate("kafka-to-kafka", config)
    assert problem.option == "transform.sql"
    assert f"is nested more than {MAX_DEPTH} deep" in problem.problem


LIKE_TYPES = ["struct", "timestamp", "date", "decimal", "varchar", "map", "array", "interval", "time"]


@pytest.mark.parametrize("name", LIKE_TYPES)
def test_functions_that_are_named_like_types_cost_no_exponential_time(name: str) -> None:
    nested = f"{name}(" * 30 + "value" + ")" * 30
    config = {"topics": "a", "topic": "b", "value.converter": "json"}
    check_select("SELECT * FROM input")  # imports the parser
    with bounded_work(), contextlib.suppress(PydanticCustomError):
        check_select(f"SELECT {nested} AS value FROM input")
    with bounded_work():
        validate("kafka-to-kafka", {**config, "value.schema": f"a {nested}"})


@pytest.mark.parametrize("name", ["struct", "timestamp", "date", "decimal"])
def test_sql_that_the_parser_would_read_again_and_again_is_refused_with_the_remedy(name: str) -> None:
    sql = "SELECT " + f"{name}(" * 30 + "value" + ")" * 30 + " AS value FROM input"
    with bounded_work():
        assert refused(sql) == "is too complex"
    config = {"topics": "a", "topic": "b", "transform.sql": sql}
    [problem] = validate("kafka-to-kafka", config)
    assert "is too complex; nest fewer functions, or use several Connectors" in str(problem)


def test_long_queries_of_little_depth_pass() -> None:
    check_select("SELECT " + "a," * 9_900 + "a FROM input")
    check_select(
        "SELECT " + ",".join(f"struct(a{n},date(b),timestamp(c))" for n in range(500)) + " FROM input"
    )


def test_a_schema_is_bounded_like_sql() -> None:
    config = {"topics": "a", "topic": "b", "value.converter": "json"}
    [problem] = validate("kafka-to-kafka", {**config, "value.schema": "a INT, " * 60_000 + "b INT"})
    assert "has 420005 characters" in str(problem)
    assert len(str(problem)) < 1_000
    assert validate("kafka-to-kafka", {**config, "value.schema": "a STRUCT<b: ARRAY<DECIMAL(10, 2)>>"}) == []
    deep = "a " + "STRUCT<a: " * 400 + "INT" + ">" * 400
    [problem] = validate("kafka-to-kafka", {**config, "value.schema": deep})
    assert "is not a list of columns" in str(problem)


def test_length_is_bounded() -> None:
    assert "has 20016 characters" in refused("SELECT '" + "a" * 19_996 + "' FROM input")


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT reflect('java.lang.System', 'getenv') FROM input", "calls reflect"),
        ("SELECT `reflect`('java.lang.System', 'getenv') FROM input", "calls reflect"),
        ("SELECT Java_Method/**/('java.lang.System', 'getenv') FROM input", "calls java_method"),
        ("SELECT system.builtin.reflect('a', 'b') FROM input", "calls reflect"),
        ("SELECT from_avro(value, '{}', map('avroSchemaUrl', '/etc/x')) FROM input", "calls from_avro"),
        ("SELECT * FROM text.`/etc/passwd`, input", "reads text./etc/passwd"),
        ("SELECT (SELECT max(value) FROM text.`/etc/passwd`) FROM input", "reads text./etc/passwd"),
        ("WITH a AS (SELECT * FROM binaryFile.`/x`) SELECT * FROM a, input", "reads binaryFile./x"),
        ("SELECT * FROM read_files('/etc/passwd'), input", "calls read_files"),
        ("SELECT * FROM IDENTIFIER('text.`/etc`'), input", "calls identifier"),
        ("SELECT * FROM orders, input", "reads orders"),
        ("SELECT xmltable('a' PASSING value COLUMNS a INT PATH 'b') FROM input", "calls xmltable"),
        ("SELECT `xmltable`(value) FROM input", "calls xmltable"),
        ("SELECT * FROM a, (WITH a AS (SELECT * FROM input) SELECT * FROM a) b", "reads a"),
        ("WITH b AS (SELECT * FROM a), a AS (SELECT * FROM input) SELECT * FROM b", "reads a"),
        ("SELECT TRANSFORM(value) USING 'cat' AS (a) FROM input", "starts a program"),
        ("SELECT * FROM (MAP value USING 'cat' FROM input)", "starts a program"),
        ("SELECT value -- \\\n ' \n , reflect('a', 'b') -- '\nFROM input", "contains"),
        ("SELECT '${env:HOME}' FROM input", "contains"),
        # Spark ends these comments and hints earlier than sqlglot, and executes what follows.
        ("SELECT 1 /* /*+ */ , reflect('a', 'b') -- */\n FROM input", "a comment inside a comment"),
        (
            "SELECT 1 /* /*+ */ , reflect('a', 'b') -- */\n, 2 /* a */ FROM input",
            "a comment inside a comment",
        ),
        ("SELECT * FROM input /* /*+ */ JOIN orders -- */\n", "a comment inside a comment"),
        ("SELECT /*+ COALESCE(1, '/*') */ reflect('a', 'b'), -- */\n 1 FROM input", "comment or hint"),
        # sqlglot reads a column with an alias, and Spark a table.
        ("SELECT (TABLE orders) FROM input", "contains TABLE"),
        ("WITH a AS (TABLE orders) SELECT * FROM a, input", "contains TABLE"),
        ("FROM input |> WHERE (table/**/orders)", "contains TABLE"),
        ("SELECT * FROM input, (LATERAL orders)", "reads a table by LATERAL"),
        ("SELECT * FROM input, (LATERAL spark_catalog.default.orders)", "reads a table by LATERAL"),
        ("WITH RECURSIVE a (n) AS (SELECT 1 FROM input) SELECT * FROM a", "contains WITH RECURSIVE"),
        ("SELECT TRAN\u017fFORM(value) U\u017fING 'cat' AS (a) FROM input", "contains 'TRAN\u017fFORM'"),
        ("SELECT l\u0131ne FROM input", "contains 'l\u0131ne'"),
    ],
)
def test_a_transform_opens_nothing(sql: str, said: str) -> None:
    assert said in refused(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM input",
        "WITH a (x) AS (SELECT value FROM input), b AS (SELECT x FROM a) SELECT x FROM b WHERE x IN (1, 2)",
        "SELECT CAST(value AS DECIMAL(10, 2)), row_number() OVER (ORDER BY value) FROM input",
        "WITH a AS (SELECT upper(value) AS v FROM input) SELECT v FROM a",
        "SELECT get_json_object(value, '$.a') AS a, from_json(value, 'a INT').a FROM input t",
        "SELECT word FROM input LATERAL VIEW explode(split(value, ' ')) t AS word",
        "SELECT window(at, '1 minute').start, count(*) FROM input GROUP BY window(at, '1 minute'), value",
        "SELECT `l\u0131ne`, '\u017f' FROM input, LATERAL explode(a) AS t (x), LATERAL (SELECT x + 1)",
        "SELECT value, count(*) FROM input GROUP BY window (at, '1 minute', '1 second'), value",
        "SELECT value, sum(n) OVER w FROM input WINDOW w AS (PARTITION BY value ORDER BY at)",
        "SELECT transform(array(1), x -> x + 1) AS a, CAST(value AS ARRAY<STRUCT<a: INT>>) FROM input",
        "SELECT value.id, raise_error('x'), monotonically_increasing_id() FROM INPUT",
        "-- first\nSELECT /* a\n b */ value -- '/*'\r\n, '/* /* --' AS b /**/ FROM input; -- last",
        "SELECT /*+ COALESCE(4) */ value.table, 'table' AS t, 1 AS table FROM input",
    ],
)
def test_ordinary_transforms_pass(sql: str) -> None:
    check_select(sql)


WORDS = [
    "(",
    ")",
    "[",
    "]",
    "CASE",
    "WHEN",
    "THEN",
    "END",
    "NOT",
    "-",
    "a",
    "1",
    ",",
    "'",
    "`",
    "->",
    "JOIN",
    "FROM",
    "SELECT",
    "input",
    "text.`/a`",
    "reflect",
    "upper(",
    "struct(",
    "timestamp(",
    "date(",
    "decimal(",
    "map(",
    "UNION",
    "ARRAY<",
    ">",
    "--",
    "/*",
    "*/",
    "\\",
]


@settings(max_examples=examples(150, long=500), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(WORDS), st.integers(1, 400)), max_size=12))
@example([("NOT", 400)] * 12)
@example([("date(", 30), ("a", 1), (")", 30)])
def test_any_text_is_answered_in_bounded_time(parts: list[tuple[str, int]]) -> None:
    sql = "SELECT " + " ".join(f"{word} " * times for word, times in parts) + " FROM input"
    with bounded_work(), contextlib.suppress(PydanticCustomError):
        check_select(sql)


@given(st.sampled_from(sorted(REFUSED)), st.sampled_from(["{}(a)", "`{}`(a)", "upper({}(a))", "{} (a)"]))
def test_no_spelling_of_a_refused_function_passes(name: str, call: str) -> None:
    assert not REFUSED & ALLOWED
    assert f"calls {name}" in refused(f"SELECT {call.format(name)} FROM input")
