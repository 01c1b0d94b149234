"""Each test that the page on security names for a door exists."""

import ast
import re

import pytest

from tests.docs.project import ROOT

HEADING = re.compile(r"\n## \w+ a Connector can reach\n")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def doors(page: str) -> dict[str, str]:
    """The rows of the section's tables: the door, and the cell with its tests."""
    section = HEADING.split(page, maxsplit=1)[1].split("\n## ", 1)[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in section.splitlines() if line.startswith("|")]
    return {
        row[0].strip(): row[-1].strip()
        for row in rows
        if set(row[0]) - set("- ") and row[0].strip() != "door"
    }


def problems(page: str) -> list[str]:
    found = []
    for door, cell in doors(page).items():
        named = NAMED.findall(cell)
        if not named:
            found.append(f"{door}: names no test as `tests/file.py::name`")
        found += [f"{door}: {path}::{name} does not exist" for path, name in named if not exists(path, name)]
    return found


def exists(path: str, name: str) -> bool:
    file = ROOT / path
    if not file.is_file():
        return False
    tree = ast.parse(file.read_text())
    return any(
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name
        for node in ast.walk(tree)
    )


def test_every_door_names_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    assert len(doors(page)) >= 15
    assert problems(page) == []


@pytest.mark.parametrize(
    "cell",
    ["", "`tests/docs/test_doors.py`", "`tests/docs/test_doors.py::test_gone`", "`tests/gone.py::test_x`"],
)
def test_a_door_without_its_test_is_found(cell: str) -> None:
    rows = f"| door | how | test |\n|---|---|---|\n| any \\| door | shut | {cell} |\n"
    page = f"# Security\n\n## Such a Connector can reach\n\n{rows}\n## Next\n"
    assert len(problems(page)) == 1
    assert problems(page)[0].startswith("any \\| door: ")
