"""Faults of small functions, and the draw among them."""

import ast
from pathlib import Path
from textwrap import dedent, indent

import pytest

from tests.mutation.mutants import Mutant, draw, mutants_of, room_of

ROOT = Path(__file__).resolve().parents[2]
FILE = "operator/cooperator/planner/small.py"


def faults(body: str) -> set[str]:
    """The mutated bodies of a function, which has a line before its own."""
    source = f"def f(a, b):\n    setting = a\n{indent(dedent(body), '    ')}\n"
    mutated = {mutant.applied_to(source) for mutant in mutants_of(FILE, source)}
    return {"; ".join(line.strip() for line in text.splitlines()[2:]) for text in mutated}


@pytest.mark.parametrize(
    ("body", "mutated"),
    [
        ("x = a < b", {"x = (a <= b)", "x = (a >= b)"}),
        ("x = a is b", {"x = (a is not b)"}),
        ("x = a and b", {"x = (a or b)"}),
        ("x = not a", {"x = (a)"}),
        ("x = a - b", {"x = (a + b)"}),
        ("x += a", {"x -= a"}),
        ("x = 5", {"x = (6)", "x = (4)"}),
        ("x: int = 5", {"x: int = (6)", "x: int = (4)"}),
        ("f(b=True)", {"pass", "f(b=(False))"}),
        ("x = min(a, b)", {"x = (max(a, b))"}),
        ("x = any(a)", {"x = (all(a))"}),
        ("x = [y for y in a if y]", {"x = [y for y in a if not (y)]"}),
        ("return a", {"return None"}),
        ("return True", {"return (False)"}),
        ("if a:\n    x = b", {"if not (a):; x = b"}),
        ("if a == b:\n    x = b", {"if (a != b):; x = b"}),
        ("while a:\n    break", {"while not (a):; break", "while a:; continue"}),
        ("raise ValueError(1 + 2)", {"pass"}),
        ("await_it = b\nx(\n    a,\n)", {"await_it = b; pass"}),
        ("x = 'é' if a else b", {"x = ('é' if not a else b)"}),
    ],
)
def test_a_statement_has_a_fault_for_each_operator_that_applies(body: str, mutated: set[str]) -> None:
    assert faults(body) == mutated


@pytest.mark.parametrize(
    "body",
    [
        "log.info('%s', 1 + 2)",
        "assert a == b",
        "x = f'{a + 1}'",
        "x = a + 'text'",
        "x: list[1] = a",
        "def g(c=1):\n    '''Adds 1.'''\n    x = a",
        "def __repr__(c):\n    return c + 1",
        "x = isinstance(a, Text | None)",
    ],
)
def test_log_lines_texts_and_types_have_no_faults(body: str) -> None:
    assert faults(body) == set()


def test_an_import_executes_no_faults() -> None:
    assert mutants_of(FILE, "LIMIT = 5\n\n\nclass Limits:\n    most = 6\n") == []


def test_each_mutant_of_the_planner_is_another_program() -> None:
    for path in (ROOT / "operator/cooperator/planner").glob("*.py"):
        source = path.read_text()
        mutants = mutants_of(path.relative_to(ROOT).as_posix(), source)
        for mutant in mutants[::150]:
            assert ast.dump(ast.parse(mutant.applied_to(source))) != ast.dump(ast.parse(source)), mutant


SOURCE = "def f(a):\n    a.go()\n    b = a and a.b\n    return b\n\n\ndef g(a):\n    return a\n"


def drawn(seed: int, count: int, executed: set[int]) -> list[Mutant]:
    return draw({FILE: SOURCE}, {FILE: executed}, seed, count)


def test_a_seed_draws_the_same_statements_and_a_greater_count_adds_some() -> None:
    three = drawn(7, 3, {2, 3, 4, 8})
    assert three == drawn(7, 3, {2, 3, 4, 8})
    assert drawn(7, 4, {2, 3, 4, 8})[:3] == three
    assert {tuple(m.line for m in drawn(seed, 3, {2, 3, 4, 8})) for seed in range(9)} != {(2, 3, 4)}


def test_only_executed_statements_are_drawn_each_once() -> None:
    assert sorted(mutant.line for mutant in drawn(7, 100, {1, 3, 8})) == [3, 8]


def test_a_mutant_of_a_changed_file_is_refused() -> None:
    with pytest.raises(ValueError, match="has changed since the draw"):
        drawn(7, 1, {2})[0].applied_to(SOURCE + "\n")


def test_rooms_are_found_by_folder_or_name() -> None:
    assert room_of("operator/cooperator/leader/stock/reports.py") == "leader"
    assert room_of("operator/cooperator/connectors/kafka_sink.py") == "sinks"
    assert room_of("operator/cooperator/connectors/intents/machine.py") == "sinks"
    assert room_of("operator/cooperator/connectors/kafka_source.py") is None
    assert room_of("tests/leader/test_machine.py") is None
