"""A short text stands for no query, value or number of rows without bounds."""

import contextlib
import json
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from cooperator.connectors.options import OptionError
from cooperator.connectors.parsed_select import check_parsed
from cooperator.connectors.sql_costs import MOST_ROWS
from cooperator.connectors.sql_elements import BREAKING
from cooperator.connectors.sql_functions import ALLOWED
from cooperator.connectors.sql_growth import check_growth
from cooperator.connectors.sql_parts import QueryPart, tree_of
from cooperator.connectors.sql_results import RESULTS
from cooperator.connectors.sql_rules import MAX_LENGTH, check_select
from cooperator.connectors.transform import selected
from tests.harness.support import bounded_work
from tests.runtime.growing_selects import GROWING, ORDINARY
from tests.runtime.spark_bench import SparkBench

INPUT = QueryPart("UnresolvedRelation", is_plan=True)
V = QueryPart("UnresolvedAttribute", names=("v",))
STAR = QueryPart("UnresolvedStar")


def refused(query: QueryPart) -> str:
    with pytest.raises(PydanticCustomError) as error:
        check_growth(query)
    assert (error.value.context or {})["remedy"]
    return error.value.message()


def call(name: str, *arguments: QueryPart) -> QueryPart:
    return QueryPart("UnresolvedFunction", names=(name,), children=arguments)


def select(value: QueryPart, *sources: QueryPart) -> QueryPart:
    return QueryPart(
        "Project", True, children=(QueryPart("Alias", names=("v",), children=(value,)), *sources)
    )


def project(*parts: QueryPart) -> QueryPart:
    return QueryPart("Project", True, children=parts)


def alias(name: str, value: QueryPart) -> QueryPart:
    return QueryPart("Alias", names=(name,), children=(value,))


def text(value: str) -> QueryPart:
    return QueryPart("Literal", value=value)


STEPS = {
    "concat": lambda below: select(call("concat", V, V), below),
    "operator": lambda below: select(QueryPart("Concat", children=(V, V)), below),
    "array": lambda below: select(call("array", V, V), below),
    "replace": lambda below: select(call("replace", V, text("a"), text("aa")), below),
    "hex": lambda below: select(call("hex", V), below),
    "json": lambda below: select(call("to_json", call("struct", V)), below),
    "repeat": lambda below: select(call("repeat", V, QueryPart("Literal", value=2)), below),
    "addition": lambda below: select(QueryPart("Add", children=(V, V)), below),
    "function": lambda below: select(call("nullif", V, V), below),
    "star": lambda below: project(STAR, STAR, below),
    "struct": lambda below: project(
        alias("a", call("struct", STAR)), alias("b", call("struct", STAR)), below
    ),
    "fields": lambda below: project(
        QueryPart("UnresolvedStar", names=("s",)),
        project(alias("v", text("")), alias("s", call("struct", alias("v", call("concat", V, V)))), below),
    ),
    "outer": lambda below: select(
        QueryPart(
            "ScalarSubquery", children=(select(call("hash", V, V), QueryPart("OneRowRelation", True)),)
        ),
        below,
    ),
    "cube": lambda below: QueryPart(
        "Aggregate", True, children=(QueryPart("Cube", value=1, children=(V,)), alias("v", V), below)
    ),
    "except": lambda below: select(call("concat", V, V), project(QueryPart("UnresolvedStarExcept"), below)),
    "union": lambda below: QueryPart("Union", True, children=(below, below)),
    "join": lambda below: QueryPart("Join", True, children=(below, below)),
    "subquery": lambda below: select(QueryPart("ScalarSubquery", children=(below,)), below),
    "condition": lambda below: QueryPart(
        "Filter", True, children=(QueryPart("InSubquery", children=(V, below)), below)
    ),
}
"""Ways to double something from level to level."""


@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=60, max_size=80))
def test_whatever_doubles_from_level_to_level_is_refused(steps: list[str]) -> None:
    """Each level is a member of a WITH, so that the text stays short."""
    members: list[QueryPart] = []
    below = INPUT
    for number, step in enumerate(steps):
        members.append(QueryPart("CTERelationDef", True, (str(number),), children=(STEPS[step](below),)))
        below = QueryPart("CTERelationRef", True, (str(number),))
    assert (
        "10000 times as large" in (message := refused(QueryPart("WithCTE", True, children=(below, *members))))
        or "parts" in message
        or "rows of one" in message
    )


@given(
    st.sampled_from(sorted(BREAKING)),
    st.sampled_from(["concat", "upper"]),
    st.integers(0, 9_000),
    st.integers(1, 6),
)
def test_rows_of_a_text_that_is_written_are_counted(name: str, made: str, length: int, times: int) -> None:
    """A text of n characters has n elements at most, however it is made and taken apart."""
    below = select(call(made, text("a" * (length // 2)), text("a" * (length - length // 2))), INPUT)
    rows = select(call("explode", call(name, V, text(","))), below)
    crossed = rows
    for _ in range(times - 1):
        crossed = QueryPart("Join", True, children=(crossed, rows))
    if (length / 2) ** times > MOST_ROWS:
        refused(crossed)
    elif (3 * length + 4) ** times < MOST_ROWS:
        check_growth(crossed)


@given(st.sampled_from(sorted(STEPS)), st.integers(1, 5))
def test_a_few_levels_pass(step: str, levels: int) -> None:
    query = INPUT
    for _ in range(levels):
        query = STEPS[step](query)
    check_growth(query)


def test_a_long_query_without_levels_passes() -> None:
    values = tuple(call("concat", *[V] * 9) for _ in range(300))
    check_growth(QueryPart("Project", True, children=(*values, INPUT)))


def test_the_check_itself_takes_bounded_time() -> None:
    """Also for accumulators in steps of others, and for as many columns and fields as a text can have."""

    def variable(*names: str) -> QueryPart:
        return QueryPart("UnresolvedNamedLambdaVariable", names=names)

    def aggregate(step: QueryPart) -> QueryPart:
        step = QueryPart("LambdaFunction", children=(step, variable("x"), variable("y")))
        return call("aggregate", V, text(""), step)

    def checked(query: QueryPart) -> None:
        with bounded_work(), contextlib.suppress(PydanticCustomError):
            check_growth(query)

    steps = variable("x", "f0")
    for level in range(16):
        steps = aggregate(call("struct", *(variable("x", f"f{level}_{n}") for n in range(9)), steps))
    checked(select(steps, INPUT))
    checked(select(aggregate(call("struct", *(variable("x", f"f{n}") for n in range(3_000)))), INPUT))
    names = [QueryPart("Alias", names=(f"a{n}",), children=(V,)) for n in range(4_000)]
    star = QueryPart("UnresolvedStar")
    checked(
        QueryPart("Project", True, children=(*names, QueryPart("Project", True, children=(*names, INPUT))))
    )
    checked(
        QueryPart(
            "Project", True, children=(*[star] * 1_000, QueryPart("Project", True, children=(*names, INPUT)))
        )
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("replace", call("replace", V, text("a"), V)),
        ("replace", call("replace", V, V, call("concat", text("x"), V))),
        ("regexp_replace", call("regexp_replace", V, text("a"), V)),
        ("regexp_replace", call("regexp_replace", V, text("(?=(.*))"), text("$1"))),
        ("regexp_replace", call("regexp_replace", V, text("(a)(?<=(a.{9}))"), text("$23"))),
        ("regexp_replace", call("regexp_replace", V, text("(?=(?<rest>.*))"), text("${rest}"))),
        ("regexp_extract_all", call("regexp_extract_all", V, text("(?=(.*))"))),
        ("array_join", call("array_join", call("split", V, text("")), V)),
        ("array_join", call("array_join", call("split", V, text("")), text(","), V)),
        ("concat_ws", call("concat_ws", V, call("split", V, text("")))),
    ],
)
def test_what_grows_with_the_square_of_a_value_is_refused(name: str, value: QueryPart) -> None:
    """Also where only its hash is selected, and where one of the two is a column of a level below."""
    problem = f"calls {name}, whose result may grow with the square of a value"
    assert refused(select(value, INPUT)) == problem
    assert refused(select(call("md5", value), select(call("upper", V), INPUT))) == problem


@pytest.mark.parametrize(
    "value",
    [
        call("replace", text("{a} and {b}"), text("{a}"), V),
        call("replace", V, text("{a}"), call("md5", V)),
        call("regexp_replace", V, text(r"(\d)(?=(\d{3})+$)"), text("$1,")),
        call("regexp_replace", V, text("(a)(b)"), text("$2$1")),
        call("regexp_extract_all", V, text("(a)(?=(b))"), QueryPart("Literal", value=1)),
        call("array_join", call("split", V, text("")), text(", ")),
        call("concat_ws", text(", "), V, V),
    ],
)
def test_what_grows_with_a_value_alone_passes(value: QueryPart) -> None:
    check_growth(select(value, INPUT))


@given(st.sampled_from(sorted(RESULTS)), st.integers(0, 4), st.sampled_from(["", "a", "(?=(a))"]))
def test_each_rule_has_an_answer_for_any_number_of_arguments(name: str, count: int, written: str) -> None:
    """Spark refuses a wrong number only when it resolves the plan."""
    with contextlib.suppress(PydanticCustomError):
        check_growth(select(call(name, *[text(written)] * count), INPUT))
    with contextlib.suppress(PydanticCustomError):
        check_growth(select(call(name, *[V] * count), INPUT))


def test_each_allowed_function_has_a_rule() -> None:
    assert RESULTS.keys() == ALLOWED


def test_a_large_value_is_refused_also_if_only_its_hash_is_selected() -> None:
    copies = QueryPart("Literal", value=10_000)
    of_row = call("repeat", call("repeat", V, copies), copies)
    written = call("repeat", call("space", copies), copies)
    for name in ("md5", "length", "concat"):
        assert "more than 10000 times as large" in refused(select(call(name, of_row), INPUT))
        assert "more than 10 000 000 bytes" in refused(select(call(name, written), INPUT))


def test_what_is_nested_beyond_pythons_recursion_is_refused() -> None:
    value = V
    for _ in range(5_000):
        value = QueryPart("UnaryMinus", children=(value,))
    assert refused(select(value, INPUT)) == "is nested too deep"


def test_a_tree_is_read_from_the_list_that_the_jvm_writes() -> None:
    def part(parent: int, kind: str, is_plan: bool, *names: str, value: Any = None) -> dict[str, Any]:
        return {"parent": parent, "kind": kind, "isPlan": is_plan, "names": names, "value": value}

    listed = [
        part(-1, "plans.logical.Project", True),
        part(0, "analysis.UnresolvedRelation", True),
        part(0, "expressions.Alias", False, "v"),
        part(2, "analysis.UnresolvedFunction", False, "repeat"),
        part(3, "expressions.Literal", False, value=2),
        part(3, "analysis.UnresolvedAttribute", False, "v"),
    ]
    assert tree_of(listed) == select(call("repeat", V, QueryPart("Literal", value=2)), INPUT)


@pytest.mark.parametrize("place", ["{}", "GROUPING SETS ((a), {})", "a, {}"])
def test_a_cube_that_sparks_parser_would_write_out_is_refused_before(place: str) -> None:
    """Its subsets are made while the text is parsed, where no plan can be checked yet."""
    for cube in ("CUBE({})", "cube /* */ ({})", "Cube\n({})"):
        many = cube.format(", ".join(f"(a, b{n})" for n in range(9)))
        with pytest.raises(PydanticCustomError, match="has a CUBE of more than 8 columns"):
            check_select(f"SELECT count(*) FROM input GROUP BY {place.format(many)}")
        check_select(f"SELECT count(*) FROM input GROUP BY {place.format(cube.format('a, (b, c), d'))}")


@pytest.mark.real
def test_no_growing_select_is_resolved_or_run(spark: SparkBench) -> None:
    session = spark.runtime.session(threading.Event()).newSession()
    rows = session.createDataFrame([(1, "abc", [1, 2, 3])], "id INT, v STRING, a ARRAY<INT>")
    passed = []
    began = time.monotonic()
    for sql in GROWING:
        assert len(sql) <= MAX_LENGTH
        try:
            selected(rows, sql)
        except OptionError as error:
            # Not an error of resolving it, which would have taken hours.
            if "is refused: it " in str(error):
                continue
        passed.append(sql)
    assert not passed
    assert time.monotonic() - began < 60


@pytest.mark.real
def test_selects_that_look_alike_pass(spark: SparkBench) -> None:
    session = spark.runtime.session(threading.Event()).newSession()
    problems = []
    for sql in ORDINARY:
        check_select(sql)
        parsed = session._jvm.dev.cooperator.spark.ParsedSelect.of(session._jsparkSession, sql)
        try:
            check_parsed(json.loads(parsed.summary()))
        except PydanticCustomError as error:
            problems.append(f"{error.message()}: {sql[:80]}")
    assert not problems
