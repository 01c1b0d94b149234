"""The table of Spark's functions, and the bounds of their literal arguments."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from cooperator.connectors.sql_bounds import Argument, backtracks
from cooperator.connectors.sql_calls import FunctionCall, check_calls
from cooperator.connectors.sql_functions import ALLOWED, FUNCTIONS, REFUSED, FunctionKind
from cooperator.connectors.sql_rules import check_select
from tests.harness.support import bounded_work


def refused(sql: str) -> str:
    with pytest.raises(PydanticCustomError) as error:
        check_select(f"SELECT {sql} AS a FROM input")
    return error.value.message()


def test_each_function_has_a_kind_and_those_that_need_one_a_reason() -> None:
    assert FUNCTIONS.keys() == ALLOWED | REFUSED
    assert not ALLOWED & REFUSED
    for name, function in FUNCTIONS.items():
        bounded = function.kind in (FunctionKind.ALLOCATES, FunctionKind.MATCHES, FunctionKind.XML)
        assert (function.check is not None) == bounded, name
        assert bool(function.reason) == (bounded or function.kind is FunctionKind.FORBIDDEN), name
        assert name == name.lower()
        assert name.isascii()


def test_a_function_that_nobody_has_looked_at_is_refused() -> None:
    for name in (
        "later_function",
        "product",
        "system.builtin.upper",
        "spark_catalog.default.upper",
        "\u017fpace",
    ):
        with pytest.raises(PydanticCustomError, match="calls"):
            check_calls([FunctionCall(name)])


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_forbidden_function_is_refused_with_its_reason(name: str) -> None:
    with pytest.raises(PydanticCustomError) as error:
        check_calls([FunctionCall(name.upper())])
    assert error.value.message() == f"calls {name}, which {FUNCTIONS[name].reason}"


@pytest.mark.parametrize(
    "sql",
    [
        *(
            "repeat(value, 2000000000)",
            "repeat(value, n)",
            "repeat(value, '2000000000')",
            "repeat(value, 1 + n)",
        ),
        *("repeat(str => value, n => 2000000000)", "array_repeat(value, 2000000000)"),
        *("lpad(value, 2000000000, ' ')", "rpad(value, n)", "lpad(value, '2000000000')"),
        *("space(2000000000)", "space(n)", "randstr(2000000000)", "space(1e9)"),
        *(
            "sequence(1, 2000000000)",
            "sequence(1, n)",
            "sequence(-2000000000, 1)",
            "explode(sequence(0, 1000000))",
        ),
        "sequence(to_date(a), to_date(b))",
        *("array_insert(a, 2000000000, 1)", "array_insert(a, -2000000000, 1)", "stack(2000000000, 1)"),
        *(
            "round(value, 2000000000)",
            "bround(value, -2000000000)",
            "ceil(value, n)",
            "floor(value, 1000000)",
        ),
        *("format_number(value, 2000000000)", "format_string('%2000000000d', n)", "printf('%.99999f', n)"),
        *(
            "format_string(value, 1)",
            "format_string('%1$-5000s', n)",
            "printf('%,\u0661\u0660\u0660\u0660\u0660d', 1)",
        ),
        "window(at, '1000 days', '1 microsecond')",
        "window(at, '1 day', s)",
        "window(at, '1 day', INTERVAL 1 SECOND)",
        *("count_min_sketch(a, 0.0000000001d, 0.5d, 1)", "approx_count_distinct(a, 0.0000001)"),
        *("percentile_approx(a, 0.5, 2000000000)", "histogram_numeric(a, 2000000000)"),
    ],
)
def test_an_argument_that_allocates_is_a_literal_within_its_bound(sql: str) -> None:
    assert "calls" in refused(sql)


@pytest.mark.parametrize(
    "sql",
    [
        *("repeat('-', 3)", "repeat(value, 10000)", "lpad(value, 10, '0')", "rpad(value, 100)", "space(4)"),
        *("sequence(1, 10)", "sequence(10, 1, -1)", "explode(sequence(0, 9999))", "array_repeat(0, 4)"),
        *("round(value, 2)", "round(value)", "round(value, -3)", "ceil(value)", "floor(value, 1)"),
        *("format_number(value, 2)", "format_number(value, '#,##0.00')", "format_string('%05d %s%%', n, a)"),
        *("window(at, '1 hour', '1 minute').start", "window(at, '10 minutes')", "approx_count_distinct(a)"),
        *("approx_count_distinct(a, 0.01)", "percentile_approx(a, 0.5)", "percentile_approx(a, 0.5, 100)"),
        *(
            "split(value, ',')",
            "regexp_replace(value, '[0-9]+', '')",
            "rlike(value, '^a|b$')",
            "str_to_map(value)",
        ),
        *(
            "regexp_extract(value, '^(\\\\d{1,3}\\\\.){3}', 0)",
            "xpath_string(value, 'a/b')",
            "array_insert(a, -1, 1)",
        ),
        *("stack(2, 1, 2)", "window(at, INTERVAL 1 MINUTE).end", "time_trunc('HOUR', t)", "quote(value)"),
    ],
)
def test_ordinary_calls_pass(sql: str) -> None:
    check_select(f"SELECT {sql} AS a FROM input")


def test_rows_that_a_table_function_makes_are_bounded() -> None:
    check_select("SELECT * FROM input, range(1000)")
    for call in ("range(100000000000)", "range(0, n)", "range(0, 10, 1, 1000000)", "sequence(1, 1000000)"):
        with pytest.raises(PydanticCustomError):
            check_select(f"SELECT * FROM input, {call}")
        with pytest.raises(PydanticCustomError):
            check_select(f"SELECT * FROM input, LATERAL {call}")


CATASTROPHIC = [
    *(r"(a+)+$", r"(a|a)*b", r"(a|aa)+$", r"(.*a){20}", r"(x+x+)+y", r"^(([a-z])+.)+[A-Z]([a-z])+$"),
    *(r"(a?){50}a{50}", r"(\w+\s*)*x", r"(?:(a+))+", r"((a+))*", r"(a+){2,}", r"(?i)(a*)*", r"(?=(a+)+)b"),
    *(
        r"(a+)\s*(\1)*",
        r"([a-z]+)*",
        r"[](a+)+]",
        r"(?x)(a +) +",
        r"\Q(\E(a+)+",
        r"(?<n>a+)+b",
        r"(a{1,30}){30}",
    ),
    # Written out, with nothing that is repeated twice.
    *(".*a" * 20 + "z", "a?" * 30 + "a" * 30, "(a|a)" * 30 + "z", "[a-z]*" * 10 + "1", "a{1,30}" * 10 + "b"),
    *(r"\s*" * 9 + "x", "(.*a)" * 9 + "b", "(?:a|ab)" * 20 + "c", r"\w+\d+" * 5 + "x", "a*" * 9 + "$"),
    # Some thousand matches of different lengths end Java's stack.
    *(r"^\R*$", r"^\X*$", r"(?:a\R)*", r"\\\X+", r"(?:\X,){2,}"),
    *(r"(?s).*a.*b.*c.*d.*e", "(a|.*b.*b)" * 3 + "z", "(?i)[a]*[A]*[a]*[A]*[a]*b", r"\x61*" * 5 + "b"),
]


@pytest.mark.parametrize("pattern", CATASTROPHIC)
@pytest.mark.parametrize(
    "call",
    [
        *("rlike(value, {})", "split(value, {})", "regexp_replace(value, {}, '')"),
        "parse_url(value, 'QUERY', {})",
    ],
)
def test_a_pattern_that_backtracks_without_end_is_refused(pattern: str, call: str) -> None:
    assert backtracks(pattern)
    assert "backtrack" in refused(call.format("'" + pattern.replace("\\", "\\\\") + "'"))


@pytest.mark.parametrize("place", ["'{0}' RLIKE '{1}'", "value NOT REGEXP '{1}'", "NOT '{0}' rlike '{1}'"])
def test_a_pattern_of_an_operator_is_found_early_as_well(place: str) -> None:
    """Spark's parser evaluates what is in VALUES unless it is told otherwise."""
    for pattern, passes in (("(.*a){20}b", False), ("^a[0-9]*$", True)):
        sql = f"SELECT * FROM input, (VALUES ({place.format('a' * 40, pattern)}))"
        if passes:
            check_select(sql)
            continue
        with pytest.raises(PydanticCustomError, match="calls rlike, which has a pattern that can backtrack"):
            check_select(sql)


PATHS = ["//a/b" + "/parent::a/b" * 25, "//a/b" + "/../b" * 25, "//*[//*[//*[//*]]]", "a[b[c[d[e]]]]"]
PATHS += ["//a//b//c//d", "a/ancestor :: * /descendant::*" * 2, "a" + "/following-sibling::*" * 9]
PATHS += [f"a[. = '//'{'/preceding::b' * 4}]", "/a/descendant-or-self::b" * 4]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", sorted(name for name in FUNCTIONS if name.startswith("xpath")))
def test_a_path_of_xml_that_visits_nodes_without_end_is_refused(name: str, path: str) -> None:
    """Java's evaluator takes 2^25 steps for two elements by the first one."""
    literal = path.replace("'", "\\'")
    assert "more than 3 steps" in refused(f"{name}(value, '{literal}')")
    assert "needs a path that is written as a text" in refused(f"{name}(value, p)")
    assert "needs a path that is written as a text" in refused(f"{name}(value, concat('//a', '//b'))")


@pytest.mark.parametrize(
    "path",
    [
        *("/a/b/c/text()", 'a/b[@id="//..//..//"]/c[1]', "//item[price > 3]/name", "sum(a/b)", "a/@parent"),
        *("a/parent-of-b/ancestors", "count(//a[b[1]])", "/a/b[c and d][e or f][2][3][4]", "a/*/c/../@id"),
    ],
)
def test_ordinary_paths_of_xml_pass(path: str) -> None:
    check_select(f"SELECT xpath_string(value, '{path}') AS a FROM input")


@pytest.mark.parametrize("pattern", ["%a" * 20 + "b", "%a%b%c%d", "%%%%a"])
@pytest.mark.parametrize(
    "place", ["value LIKE {}", "value NOT ILIKE {}", "value LIKE ANY ('a', {})", "ilike(value, {})"]
)
def test_a_pattern_of_like_has_few_wildcards(pattern: str, place: str) -> None:
    """Each is a ``.*`` for Java."""
    assert "more than 3 times %" in refused(place.format(f"'{pattern}'"))
    few = "'%a%b%c%'"
    check_select(f"SELECT {place.format(few)} AS a FROM input")


@pytest.mark.parametrize(
    "options",
    [
        *("map('maxColumns', '2000000000')", "map('sep', ';', 'MAXCHARSPERCOLUMN', '2000000000')", "options"),
        *(
            "map('inputBufferSize', '2000000000')",
            "map('max' || 'Columns', '2')",
            "map_concat(map('a', 'b'))",
        ),
    ],
)
def test_options_of_a_format_that_allocate_are_refused_in_functions_too(options: str) -> None:
    ordinary = "map('sep', ';')"
    for place in ("from_csv(value, 'a INT', {})", "to_csv(struct(value), {})", "schema_of_csv('a', {})"):
        problem = refused(place.format(options))
        assert "which allocates as much" in problem or "needs options" in problem
        check_select(f"SELECT {place.format(ordinary)} AS a FROM input")


@pytest.mark.parametrize(
    "call",
    [
        *("rlike(value, b)", "split(value, concat('(a', '+)+'))", "str_to_map(value, a, b)", "value LIKE b"),
        *("parse_url(value, 'QUERY', b)", "like(value, b)", "value LIKE ALL (b, 'a')"),
    ],
)
def test_a_pattern_from_the_data_is_refused(call: str) -> None:
    assert "needs a pattern that is written as a text" in refused(call)


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            r"^(\d{1,3}\.){3}\d{1,3}$",
            r"[a-z]+@[a-z]+\.[a-z]{2,}",
            r"(foo|bar)?baz",
            "a|b",
            r"\s*,\s*",
            r"\|",
        ),
        *(r"https?://[^/]+/(\w+)/(\d+)", ".*foo.*bar.*", ".*foo.*|.*bar.*|.*baz.*|.*qux.*", r"^\s+|\s+$"),
        r'^(\S+) (\S+) (\S+) \[([^\]]+)\] "([^"]*)" (\d{3}) (\d+|-) "([^"]*)" "([^"]*)"$',
        r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(\.\d+)?(Z|[+-]\d{2}:?\d{2})?",
        *(
            "(jan|feb|mar|apr|may|jun|jul|aug) (mon|tue|wed)",
            r"-?\d+(\.\d+)?([eE][+-]?\d+)?",
            r"^\s*(\w+)\s*=\s*(.*?)\s*$",
        ),
        *(r'"([^"]*)"', "[|]", "(ab)+", r"^(?<year>\d{4})-(\d\d)$", r"[\[\]()+*]+", r"(\d+):(\d+)", "^$", ""),
    ],
)
def test_ordinary_patterns_pass(pattern: str) -> None:
    assert not backtracks(pattern)


@pytest.mark.parametrize(
    "part", ["a?b?c?", "a*b*", "(a*", "(a|", "[a-z]?[0-9]?", "[", "(?:x)?", "a?^", "a?)", "\\d?\\w?x", "[a"]
)
def test_a_pattern_of_any_length_is_answered_in_bounded_time(part: str) -> None:
    with bounded_work():
        backtracks(part * (19_000 // len(part)))


@given(st.lists(st.sampled_from(list("ab().|*+?[]^$\\{},129")), max_size=12).map("".join))
def test_no_pattern_that_passes_takes_python_exponential_time(pattern: str) -> None:
    """Python's matcher backtracks like Java's."""
    if backtracks(pattern):
        return
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError):
        return
    for text in ("a" * 28 + "!", "ab" * 14 + "!", "1" * 28 + "!"):
        began = time.process_time()
        compiled.search(text)
        assert time.process_time() - began < 1, pattern


LITERALS = st.none() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False) | st.text(max_size=20)


@given(st.sampled_from(sorted(FUNCTIONS)), st.lists(LITERALS, max_size=4))
def test_any_arguments_are_answered_by_a_refusal_or_by_none(name: str, arguments: list[Argument]) -> None:
    refusal: PydanticCustomError | None = None
    try:
        check_calls([FunctionCall(name, tuple(arguments))])
    except PydanticCustomError as error:
        refusal = error
    if refusal is not None:
        assert (refusal.context or {})["remedy"]
