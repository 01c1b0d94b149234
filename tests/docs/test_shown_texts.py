"""Conditions, messages, commands and manifests that the pages show exist, or are valid."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from cooperator.cli import local
from cooperator.cli.kubectl import app as kubectl
from cooperator.crd import parse
from tests.docs.project import ROOT

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
SYMPTOMS = DOCS / "troubleshooting.md"
REST = "…"
"""Stands for anything, in a page's quotation and for the values of an f-string."""
IN_KUBERNETES = {"OOMKilled"}
"""Words of others, which no text of this project has."""


def texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else REST for p in node.values)
            yield "".join(map(str, parts))


@cache
def texts_of_the_project() -> tuple[str, ...]:
    """All texts of the code. Parts of an implicit concatenation are one text."""
    sources = sorted((ROOT / "operator").rglob("*.py"))
    return tuple(text for source in sources for text in texts(ast.parse(source.read_text("utf-8"))))


def is_said(quotation: str) -> bool:
    """Whether one text of the code has the parts of the quotation, in order."""
    wanted = re.compile(".*".join(re.escape(part.strip()) for part in quotation.split(REST)), re.DOTALL)
    return any(wanted.search(text) for text in texts_of_the_project())


def test_quotations_are_found_by_their_parts() -> None:
    assert is_said("has a checkpoint of unit …, whose position is not in … yet")
    assert not is_said("whose position is not in … has a checkpoint of unit")


def test_each_condition_reason_and_state_of_the_symptoms_exists_in_the_code() -> None:
    page = SYMPTOMS.read_text("utf-8")
    words = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`", page)) - IN_KUBERNETES
    states = set(re.findall(r"^\| ([A-Z]{4,})\b", page, re.MULTILINE))
    assert len(words) > 10
    assert states
    known = {word for text in texts_of_the_project() for word in re.findall(r"\w+", text)}
    assert (words | states) - known == set()


def test_each_message_that_the_symptoms_quote_is_a_message_of_the_code() -> None:
    quoted = re.findall(r'"([^"\n]{12,})"', SYMPTOMS.read_text("utf-8"))
    assert len(quoted) > 5
    assert [each for each in quoted if not is_said(each)] == []


PROGRAMS = {"kubectl cooperator": kubectl.program, "cooperator local": local.program}


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_command_that_a_page_shows_exists(program: str) -> None:
    tree: Any = typer.main.get_command(PROGRAMS[program]())
    # In code only: sentences name the program, too.
    command = re.compile(rf"(?<![\w-]){program} ([a-z]+)(?: ([a-z]+))?(?=[\s`])")
    shown = [
        (page.name, *found)
        for page in PAGES
        for code in re.findall(r"`[^`\n]+`|^    .+$|^\$ .+$", page.read_text("utf-8"), re.MULTILINE)
        for found in command.findall(f"{code.partition(' # ')[0]} ")
    ]
    assert len(shown) > 5
    for page, word, second in shown:
        assert word in tree.commands, (page, word)
        group = getattr(tree.commands[word], "commands", None)
        assert group is None or not second or second in group, (page, word, second)


def manifests() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for block in re.findall(r"^```yaml\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE):
            if "apiVersion: cooperator.dev/" in block:
                yield page, block


def test_each_manifest_that_a_page_shows_is_valid() -> None:
    found = list(manifests())
    assert found
    for page, block in found:
        ours = [d for d in yaml.safe_load_all(block) if d["apiVersion"].startswith("cooperator.dev/")]
        assert parse(yaml.safe_dump_all(ours), str(page))
