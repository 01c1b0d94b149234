"""The long tests, and what stays of each in every run: ``python -m tests.long_list`` writes the page.

A long test is a permutation of a fault that every run has already (docs/decisions/036). Its mark says where:
``pytest.mark.long("tests/…/test_x.py::test_name")``. Marks are read from the source: no test is imported.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "evidence" / "tests.md"
MARK, END = "<!-- made by: python -m tests.long_list -->", "<!-- end of the list -->"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Long:
    """A test that is long as a ``whole``, or with some parameters; ``stays`` is the argument of its mark."""

    test: str
    stays: str
    whole: bool


@dataclass
class Source:
    """A file of tests: its functions by their node ids, and the values of its constants."""

    name: str
    tree: ast.Module
    functions: dict[str, tuple[Function, list[ast.expr]]] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, text: str) -> Source:
        found = cls(name, ast.parse(text))
        for statement in found.tree.body:
            if isinstance(statement, ast.Assign):
                found.constants |= {
                    target.id: statement.value for target in statement.targets if isinstance(target, ast.Name)
                }
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                if isinstance(statement.target, ast.Name):
                    found.constants[statement.target.id] = statement.value
            elif isinstance(statement, Function):
                found.functions[f"{name}::{statement.name}"] = (statement, statement.decorator_list)
            elif isinstance(statement, ast.ClassDef):
                for method in statement.body:
                    if isinstance(method, Function):
                        both = [*statement.decorator_list, *method.decorator_list]
                        found.functions[f"{name}::{statement.name}::{method.name}"] = (method, both)
        return found

    def marks(self) -> Iterator[ast.Attribute]:
        """Every mention of ``pytest.mark.long``."""
        return (node for node in ast.walk(self.tree) if _is_mark(node))

    def calls(self) -> Iterator[ast.Call]:
        return (node for node in ast.walk(self.tree) if _is_call(node))

    def argument(self, call: ast.Call) -> str | None:
        """The one argument: a literal, or a constant of the module; None if it is anything else."""
        if len(call.args) != 1 or call.keywords:
            return None
        [value] = call.args
        if isinstance(value, ast.Name):
            value = self.constants.get(value.id, value)
        return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None

    def long_tests(self) -> Iterator[tuple[Long, ast.Call]]:
        """The long tests of the file, with their marks."""
        of_file = self.constants.get("pytestmark")
        for test, (function, decorators) in self.functions.items():
            if not function.name.startswith("test"):
                continue
            whole = [call for each in (*decorators, *_elements(of_file)) for call in self._direct(each)]
            some = [
                call
                for each in (*decorators, *self._fixtures(function))
                for call in self._within(each)
                if call not in whole
            ]
            for call in (*whole, *some):
                yield Long(test, self.argument(call) or "", call in whole), call

    def _direct(self, value: ast.expr) -> list[ast.Call]:
        """The mark itself, or the constant that has it."""
        if isinstance(value, ast.Name) and value.id in self.constants:
            value = self.constants[value.id]
        return [value] if _is_call(value) else []

    def _within(self, value: ast.AST, seen: frozenset[str] = frozenset()) -> list[ast.Call]:
        """The marks anywhere in an expression and in the constants that it names: those of parameters."""
        found: dict[int, ast.Call] = {}
        for node in ast.walk(value):
            if _is_call(node):
                found[id(node)] = node
            elif isinstance(node, ast.Name) and node.id in self.constants and node.id not in seen:
                of_name = self._within(self.constants[node.id], seen | {node.id})
                found |= {id(call): call for call in of_name}
        return list(found.values())

    def _fixtures(self, function: Function, seen: frozenset[str] = frozenset()) -> list[ast.expr]:
        """The decorators of the fixtures of this file that a function asks for, directly or not."""
        found: list[ast.expr] = []
        for argument in function.args.args:
            fixture = self.functions.get(f"{self.name}::{argument.arg}")
            if fixture is not None and argument.arg not in seen:
                found += fixture[1]
                found += self._fixtures(fixture[0], seen | {argument.arg})
        return found


def _is_mark(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and node.attr == "long" and ast.unparse(node) == "pytest.mark.long"


def _is_call(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and _is_mark(node.func)


def _elements(value: ast.expr | None) -> list[ast.expr]:
    if value is None:
        return []
    return value.elts if isinstance(value, ast.List | ast.Tuple) else [value]


def texts(root: Path = ROOT) -> dict[str, str]:
    """All files of the tests by their names, read from the root of the project."""
    files = [path for folder in ("tests", "e2e") for path in sorted((root / folder).rglob("*.py"))]
    return {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in files}


def sources(of_tests: Mapping[str, str]) -> dict[str, Source]:
    """The files with long tests, and those that their marks name. To parse all others takes seconds."""
    marked = {name: text for name, text in of_tests.items() if "mark.long" in text}
    named = {file for text in marked.values() for file in re.findall(r"[\w/]+\.py(?=::)", text)}
    return {name: Source.of(name, text) for name, text in of_tests.items() if name in marked or name in named}


def rendered(found: Mapping[str, Source]) -> str:
    """The list in Markdown, by file."""
    lines = ["| long tests | what stays in every run |", "|---|---|"]
    for source in found.values():
        for row in dict.fromkeys(long for long, _ in source.long_tests()):
            some = "" if row.whole else " (some parameters)"
            stays = "the other parameters" if row.stays == row.test else f"`{row.stays}`"
            lines.append(f"| `{row.test}`{some} | {stays} |")
    return "\n".join(lines) + "\n"


def page_with(listed: str, text: str) -> str:
    """The page's text with another list."""
    before, mark, rest = text.partition(MARK)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"docs/evidence/tests.md lacks {MARK} or {END}; add both")
    return f"{before}{MARK}\n\n{listed}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with(rendered(sources(texts())), PAGE.read_text("utf-8")), "utf-8")
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
