"""Spark's own parser decides what a SELECT reads and calls; nothing is resolved or run before."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from cooperator.connectors import transform
from cooperator.connectors.bounds import STORES
from cooperator.connectors.formats import FORMATS
from cooperator.connectors.options import OptionError
from cooperator.connectors.parsed_select import check_parsed
from cooperator.connectors.sql_functions import FUNCTIONS
from cooperator.connectors.transform import selected
from tests.runtime.hostile_selects import DOCUMENTS_OF_XML, HOSTILE, ORDINARY, OTHERS
from tests.runtime.spark_bench import SparkBench

INPUT: dict[str, Any] = {
    "nodes": ["plans.logical.Project", "analysis.UnresolvedStar", "analysis.UnresolvedRelation"],
    "relations": [["input"]],
    "calls": [],
    "tree": [
        {"parent": -1, "kind": "plans.logical.Project", "isPlan": True, "names": [], "value": None},
        {"parent": 0, "kind": "analysis.UnresolvedRelation", "isPlan": True, "names": [], "value": None},
        {"parent": 0, "kind": "analysis.UnresolvedStar", "isPlan": False, "names": [], "value": None},
    ],
}


def refused(**changes: Any) -> str:
    with pytest.raises(PydanticCustomError) as error:
        check_parsed({**INPUT, **changes})
    return error.value.message()


def call(name: str, *arguments: Any, **flags: bool) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, "is_named": False, **flags}


def test_only_input_is_read() -> None:
    check_parsed(INPUT)
    check_parsed({**INPUT, "relations": [["INPUT"], ["input"]]})
    assert refused(relations=[]) == "does not read the view input"
    for name in (
        ["other"],
        ["a", "input"],
        ["global_temp", "input"],
        ["text", "/x"],
        ["\u0131nput"],
        ["input "],
    ):
        assert refused(relations=[["input"], name]) == f"reads {'.'.join(name)}"


@given(st.text(min_size=1))
def test_a_kind_of_node_that_nobody_has_looked_at_is_refused(name: str) -> None:
    refused(nodes=[*INPUT["nodes"], f"plans.logical.{name}Later"])
    assert "has more than 100000 parts" in refused(nodes=[*INPUT["nodes"], "too many parts"])
    assert "starts a program" in refused(nodes=["plans.logical.ScriptTransformation"])


def test_calls_are_those_of_the_table() -> None:
    check_parsed({**INPUT, "calls": [call("Upper", None), call("repeat", None, 3)]})
    assert "calls reflect" in refused(calls=[call("reflect", "a", "b")])
    assert "calls system.builtin.upper" in refused(calls=[call("system.builtin.upper", None)])
    assert "with named arguments" in refused(calls=[call("repeat", None, None, is_named=True)])


def test_documents_of_xml_are_not_read_on_a_server_whose_jvm_is_not_the_workers() -> None:
    plan = {**INPUT, "calls": [call("xpath_string", None, "a")]}
    check_parsed(plan)
    with pytest.raises(PydanticCustomError, match="calls xpath_string, which opens what a document names"):
        check_parsed(plan, is_elsewhere=True)


def session_of(spark: SparkBench) -> Any:
    return spark.runtime.session(threading.Event()).newSession()


@pytest.mark.real
def test_no_hostile_select_is_resolved_or_run(spark: SparkBench) -> None:
    """Each is refused over its parsed plan, unless it is no SQL for Spark's parser either."""
    from pyspark.errors import ParseException

    session = session_of(spark)
    passed, no_sql = [], []
    for sql in HOSTILE:
        try:
            parsed = session._jvm.dev.cooperator.spark.ParsedSelect.of(session._jsparkSession, sql)
            check_parsed(json.loads(parsed.summary()))
        except ParseException:
            no_sql.append(sql)
        except PydanticCustomError:
            continue
        else:
            passed.append(sql)
    assert not passed
    assert len(no_sql) < len(HOSTILE) / 10, "the list tries too little"


@pytest.mark.real
def test_no_hostile_select_has_rows(spark: SparkBench) -> None:
    session = session_of(spark)
    for name in ("other", "input2", "input3", "a"):
        session.range(3).createOrReplaceTempView(name)
    session.range(3).createOrReplaceGlobalTempView("other")
    passed = []
    for sql in OTHERS:
        try:
            selected(session.range(1), sql)
        except OptionError:
            continue
        passed.append(sql)
    assert not passed


@pytest.mark.real
def test_ordinary_selects_are_the_rows_of_the_plan_that_was_checked(spark: SparkBench) -> None:
    session = session_of(spark)
    problems = []
    for sql in ORDINARY:
        try:
            found = selected(session.range(3), sql)
        except OptionError as error:
            problems.append(str(error))
        else:
            assert found.schema == session.sql(sql).schema, sql
    assert not problems, "\n".join(problems)
    assert [row.n for row in selected(session.range(3), "SELECT count(*) AS n FROM input").collect()] == [3]


@pytest.mark.real
@pytest.mark.parametrize("sql", ["SELECT id FROM input, other", "SELECT id FROM input"])
def test_a_jvm_for_the_parser_alone_reads_what_a_session_reads(spark: SparkBench, sql: str) -> None:
    session = session_of(spark)
    parsed = session._jvm.dev.cooperator.spark.ParsedSelect.of(session._jsparkSession, sql)
    assert transform._parsed(sql) == json.loads(parsed.summary())
    with pytest.raises(PydanticCustomError):
        transform._parsed("SELECT * FROM (")


@pytest.mark.real
def test_every_function_that_spark_knows_has_an_entry(spark: SparkBench) -> None:
    """A later Spark has others, which are refused until somebody has looked at them."""
    session = session_of(spark)
    known = {row.function.lower() for row in session.sql("SHOW SYSTEM FUNCTIONS").collect()}
    registry = session._jsparkSession.sessionState()
    for each in (registry.functionRegistry(), registry.tableFunctionRegistry()):
        names = each.listFunction()
        known |= {names.apply(number).funcName() for number in range(names.size())}
    assert known - FUNCTIONS.keys() == set(), "add them to sql_functions.py after you have looked at them"
    needs_a_jar = {name for name in FUNCTIONS.keys() - known if "avro" in name or "protobuf" in name}
    syntax = {"timestampadd", "timestampdiff"}
    assert FUNCTIONS.keys() - known - needs_a_jar - syntax == set(), (
        "remove functions that Spark does not have"
    )


def services(spark: SparkBench, interface: str) -> Iterator[Any]:
    """All that the JVM finds of an interface, in whatever jar."""
    jvm = session_of(spark)._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    found = jvm.java.util.ServiceLoader.load(
        jvm.java.lang.Class.forName(interface, True, loader), loader
    ).iterator()
    while found.hasNext():
        yield found.next()


@pytest.mark.real
def test_every_format_that_spark_knows_has_an_entry(spark: SparkBench) -> None:
    registered = services(spark, "org.apache.spark.sql.sources.DataSourceRegister")
    known = {each.shortName().lower() for each in registered}
    assert known - FORMATS.keys() == set()
    assert {"csv", "kafka", "binaryfile", "libsvm"} <= known


@pytest.mark.real
def test_every_file_system_that_hadoop_knows_is_a_store_or_was_looked_at(spark: SparkBench) -> None:
    known = {each.getScheme() for each in services(spark, "org.apache.hadoop.fs.FileSystem")}
    assert {"file", "hdfs", "webhdfs"} <= known
    refused = {"har", "http", "https", "nullscan", "swebhdfs", "viewfs", "webhdfs"}
    assert known - STORES == refused, "look at what it opens, and add it here or to STORES"


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """A server, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *arguments: Any) -> None:
            """Nothing is logged."""

    listening = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{listening.server_port}", asked
    listening.shutdown()
    listening.server_close()


def answer_of(rows: Any) -> str:
    """The rows, or the error of reading them."""
    try:
        return str(rows.collect())
    except Exception as error:
        return f"Exception: {error}"


@pytest.mark.real
def test_no_document_of_xml_makes_a_member_open_anything(
    spark: SparkBench, server: tuple[str, list[str]]
) -> None:
    """``test_xml_opens_nothing`` has the other functions."""
    url, asked = server
    session = session_of(spark)
    answers = []
    for document in DOCUMENTS_OF_XML:
        rows = session.createDataFrame([(document.format(url),)], "value STRING")
        answers.append(answer_of(selected(rows, "SELECT xpath_string(value, 'a/text()') AS a FROM input")))
    assert asked == []
    assert not any("root:" in answer for answer in answers)
    refusals = {answer for answer in answers if "SQLSTATE" in answer or "Exception" in answer}
    assert all("restriction set by the accessExternalDTD property" in answer for answer in refusals), refusals
