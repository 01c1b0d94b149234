"""The docs show the existing options."""

from pathlib import Path

from cooperator.connectors.reference import CLASSES, tables

DOCS = Path(__file__).parents[2] / "docs" / "connectors.md"


def test_the_docs_hold_the_tables_as_the_command_makes_them() -> None:
    assert tables() in DOCS.read_text(), "run: python -m cooperator.connectors.reference"


def test_every_built_in_class_has_its_table() -> None:
    assert all(f"### `{name}`" in tables() for name in CLASSES)
