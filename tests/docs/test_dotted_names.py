"""Modules and names that are only mentioned, in prose, configuration or programs within strings, exist.

The type checker sees imports of files; it sees neither a page of the documentation nor a program that a test
hands to another interpreter.
"""

import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.project import ROOT, files_of_the_project

PACKAGES = {path.name for path in (ROOT / "operator" / "cooperator").iterdir() if path.is_dir()}
MENTIONED = re.compile(r"(?<![\w./-])cooperator\.([a-z_]+)(?:\.\w+)*")
IMPORTED = re.compile(r"^\s*from ((?:cooperator|tests|e2e|benchmarks)[\w.]*) import ([\w, ]+)$", re.MULTILINE)


@cache
def resolves(dotted: str) -> bool:
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


def names_in(text: str) -> set[str]:
    mentioned = {found[0] for found in MENTIONED.finditer(text) if found[1] in PACKAGES}
    imported = {
        f"{found[1]}.{name.split(' as ')[0].strip()}"
        for found in IMPORTED.finditer(text)
        for name in found[2].split(",")
        if name.strip()
    }
    return mentioned | imported


def test_every_mentioned_name_exists() -> None:
    missing = []
    for path in files_of_the_project():
        if path.suffix in (".py", ".md", ".toml", ".yaml", ".txt") and path != Path(__file__):
            file = path.relative_to(ROOT)
            missing += [f"{file}: {name}" for name in names_in(path.read_text()) if not resolves(name)]
    assert not missing


@pytest.mark.parametrize(
    "text",
    ["see `cooperator.runtime.nothing`", "from cooperator.controller import nothing\n"],
)
def test_a_name_that_has_moved_is_found(text: str) -> None:
    assert [name for name in names_in(text) if not resolves(name)]
