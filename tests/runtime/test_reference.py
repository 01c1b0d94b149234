"""The docs show the existing options."""

from pathlib import Path

from cooperator.connectors.reference import CLASSES, tables

DOCS = Path(__file__).parents[2] / "docs" / "connectors.md"


def test_the_tables_in_the_docs_are_up_to_date() -> None:
    assert tables() in DOCS.read_text(), "run: python -m cooperator.connectors.reference"


def test_every_built_in_class_has_its_table() -> None:
    assert all(f"### `{name}`" in tables() for name in CLASSES)
