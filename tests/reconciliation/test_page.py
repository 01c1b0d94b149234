"""The page on reconciliation names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")


def test_each_test_that_the_page_names_exists() -> None:
    named = NAMED.findall((ROOT / "docs" / "reconciliation.md").read_text("utf-8"))
    assert len(named) > 20
    missing = [
        f"{path}::{test}"
        for path, test in named
        if not (ROOT / path).is_file() or (f"def {test}(" not in (ROOT / path).read_text("utf-8") and test)
    ]
    assert missing == []
