"""The examples' recipes: their first lines name what a user has to edit, in backquotes."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

FOLDER: Final = Path(__file__).parents[2] / "examples" / "recipes"
FILES: Final = sorted(FOLDER.glob("*/*.yaml"))
_NAMED: Final = re.compile(r"`([^`]+)`")
_EDIT: Final = "# Edit first: "
_NOTHING: Final = "# Nothing has to be edited"


class Recipe:
    """One file. Raises ValueError if its first line does not say what has to be edited."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text()
        first, *others = self.text.splitlines()
        if not first.startswith((_EDIT, _NOTHING)):
            raise ValueError(f"{path}: begin the first line with {_EDIT!r} or {_NOTHING!r}")
        lines = [first]
        for line in others:
            if not line.startswith("#   "):
                break
            lines.append(line)
        self.placeholders = set(_NAMED.findall(" ".join(lines))) if first.startswith(_EDIT) else set()

    @property
    def manifests(self) -> list[dict[str, Any]]:
        return list(yaml.safe_load_all(self.text))

    def edited(self, changes: Mapping[str, str]) -> list[dict[str, Any]]:
        """The manifests after ``changes`` of placeholders, as a user makes them in an editor."""
        assert changes.keys() <= self.placeholders, changes.keys() - self.placeholders
        text = self.text
        for old, new in changes.items():
            text = re.sub(rf"(?<![\w-]){re.escape(old)}(?![\w-])", new, text)
        return list(yaml.safe_load_all(text))


def values(manifest: object, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every text in a manifest, with the keys that lead to it; lists add none."""
    if isinstance(manifest, Mapping):
        for key, value in manifest.items():
            yield from values(value, (*keys, str(key)))
    elif isinstance(manifest, list):
        for each in manifest:
            yield from values(each, keys)
    elif isinstance(manifest, str):
        yield keys, manifest
