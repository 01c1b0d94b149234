#!/usr/bin/env python3
"""``docs/values.md``, generated from the chart's values.yaml: ``python docs/values.py``. A test compares.

The comment above a key is its meaning. A key with a comment is a value; a key without one is a group of
values.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

TARGET: Final = Path(__file__).with_suffix(".md")
SOURCE: Final = Path(__file__).parents[1] / "charts" / "cooperator" / "values.yaml"
INTRO: Final = """\
# Values of the chart

`python docs/values.py` generates this page from `charts/cooperator/values.yaml`. `values.schema.json` beside
it refuses unknown and malformed values, and helm names the value. The chart `cooperator-crds` has no values.
[kubernetes.md](kubernetes.md#install) describes how to install, upgrade and remove the charts.
"""
_LINE: Final = re.compile(r"^(?P<indent> *)(?:# (?P<comment>.*)|(?P<key>[A-Za-z]+):.*)?$")


@dataclass(frozen=True)
class Value:
    """``path``: keys from the top; ``default``: as YAML has it."""

    path: tuple[str, ...]
    default: Any
    meaning: str


def values(text: str) -> Iterator[Value]:
    """Returns the documented values of a values.yaml, in its order. Raises ValueError for a key without a
    comment."""
    defaults = yaml.safe_load(text)
    comment, above = "", list[tuple[int, str]]()
    documented: tuple[str, ...] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.match(line)
        if match is None:
            raise ValueError(
                f"{SOURCE.name}:{number}: {line!r} is neither a comment nor a key with its value"
            )
        if match["comment"] is not None:
            comment = match["comment"]
            continue
        if match["key"] is None:
            comment = ""
            continue
        indent = len(match["indent"])
        above = [(depth, key) for depth, key in above if depth < indent]
        path = (*(key for _, key in above), match["key"])
        above.append((indent, match["key"]))
        if comment:
            documented = path
            yield Value(path, _at(defaults, path), comment)
        elif documented is not None and path[: len(documented)] == documented:
            pass  # It is part of a value that has its meaning.
        elif not isinstance(_at(defaults, path), Mapping) or not _at(defaults, path):
            raise ValueError(f"{SOURCE.name}:{number}: {'.'.join(path)} has no line of comment above it")
        comment = ""


def page() -> str:
    """The text of the page."""
    rows = ("| Value | Default | Meaning |", "| --- | --- | --- |")
    return "\n".join([INTRO, *rows, *map(_row, values(SOURCE.read_text()))]) + "\n"


def _row(value: Value) -> str:
    # As it may be given to --set-json.
    default = f"`{json.dumps(value.default)}`" if value.default not in ("", {}, []) else ""
    cells = (f"`{'.'.join(value.path)}`", default, value.meaning)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _at(tree: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


if __name__ == "__main__":
    TARGET.write_text(page())
