"""Reads YAML text as plain values with line numbers.

It reads YAML as kubectl does (YAML 1.1 booleans, no dates, no base-60 numbers), but what kubectl silently
accepts is an error: duplicate keys, keys that are not text. Input of any shape costs bounded time and memory:
values are counted as aliases are expanded.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import yaml

from cooperator.crd.errors import FieldProblem, ResourceError
from cooperator.model.visible import visible_text

Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value] | None"
Path: TypeAlias = tuple[str | int, ...]

_MAX_DEPTH: Final = 50
_MAX_VALUES: Final = 100_000
_MAX_NUMBER_LENGTH: Final = 40

_TAG: Final = "tag:yaml.org,2002:"
_NULL: Final = re.compile(r"(?:~|null|Null|NULL|)\Z")
_BOOL: Final = re.compile(r"(?:true|True|TRUE|yes|Yes|YES|on|On|ON|false|False|FALSE|no|No|NO|off|Off|OFF)\Z")
_TRUE: Final = frozenset({"true", "yes", "on"})
_INT: Final = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*|0)\Z")
_FLOAT: Final = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)
SCALARS: Final = (
    ("null", _NULL, "~nN"),
    ("bool", _BOOL, "tTfFyYnNoO"),
    ("int", _INT, "-+0123456789"),
    ("float", _FLOAT, "-+.0123456789"),
    ("merge", re.compile(r"<<\Z"), "<"),
)
"""Resolution of unquoted scalars: tag, pattern, first characters."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _name, _pattern, _first in SCALARS:
    _Loader.add_implicit_resolver(_TAG + _name, _pattern, [*_first, ""] if _name == "null" else [*_first])


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document. ``lines`` has the line of each value by its path; () is the document itself."""

    number: int
    value: Value
    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """The line of a value, or of the nearest enclosing one that has a line."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)


def read_documents(text: str, source: str) -> list[Document]:
    """All non-empty documents of a text. Raises :exc:`ResourceError`, and nothing else."""
    documents: list[Document] = []
    number = 0
    try:
        for node in yaml.compose_all(text, Loader=_Loader):
            number += 1
            reading = _Reading(source, number)
            value = reading.convert(node, (), 0)
            if value is not None:
                documents.append(Document(number, value, reading.lines))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"not valid YAML: {error.problem or error.context}"
        line = mark.line + 1 if mark else 0
        raise ResourceError(FieldProblem(source, message, number + 1, line)) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # Unprintable characters, and escapes beyond Unicode, which the YAML scanner accepts.
        raise ResourceError(FieldProblem(source, f"not valid YAML: {error}", number + 1)) from None
    except RecursionError:
        raise ResourceError(FieldProblem(source, _TOO_DEEP, number + 1)) from None
    return documents


_TOO_DEEP: Final = f"nested more than {_MAX_DEPTH} levels deep, or an alias contains itself: flatten it"


class _Reading:
    """Converts the nodes of one document to values."""

    def __init__(self, source: str, number: int) -> None:
        self.lines: dict[Path, int] = {}
        self._source = source
        self._number = number
        self._values = 0
        self._texts: dict[int, str] = {}
        """Texts by their nodes: aliases of a long one share it."""

    def convert(self, node: yaml.Node, path: Path, depth: int) -> Value:
        self._values += 1
        if self._values > _MAX_VALUES:
            raise self._refuse(node, path, f"more than {_MAX_VALUES} values in one document: split it")
        if depth > _MAX_DEPTH:
            raise self._refuse(node, path[:1], _TOO_DEEP)
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return dict(self._entries(node, path, depth))
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.convert(item, (*path, index), depth + 1) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        raise self._refuse(node, path, f"the YAML tag {node.tag!r} is not supported: remove it")

    def _entries(self, node: yaml.MappingNode, path: Path, depth: int) -> Iterator[tuple[str, Value]]:
        seen: set[str] = set()
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                raise self._refuse(key_node, path, "merge keys (<<) are not supported: write out the fields")
            key = self.convert(key_node, path, depth + 1)
            if not isinstance(key, str):
                raise self._refuse(key_node, path, "a field's name is not text: put it in quotes")
            if key in seen:
                raise self._refuse(key_node, (*path, key), "occurs twice: keep one of the two")
            seen.add(key)
            self.lines[(*path, key)] = key_node.start_mark.line + 1
            yield key, self.convert(value_node, (*path, key), depth + 1)

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Value:
        text: str = node.value
        kind = node.tag.removeprefix(_TAG)
        if kind == "str":
            if id(node) in self._texts:
                return self._texts[id(node)]
            try:
                # JSON escapes characters beyond 16 bits as two surrogates, which YAML does not join.
                joined = text.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                raise self._refuse(node, path, "contains half a character (a lone surrogate)") from None
            self._texts[id(node)] = joined
            return joined
        if kind == "null" and _NULL.match(text):
            return None
        if kind == "bool" and _BOOL.match(text):
            return text.lower() in _TRUE
        if kind in ("int", "float") and len(text) > _MAX_NUMBER_LENGTH:
            raise self._refuse(node, path, "is too long for a number: put it in quotes if it is text")
        if kind == "int" and _INT.match(text):
            return _whole_number(text.replace("_", ""))
        if kind == "float" and _FLOAT.match(text):
            number = math.inf if text.lower().endswith(("inf", "nan")) else float(text.replace("_", ""))
            if math.isinf(number):
                raise self._refuse(node, path, f"is {text}, which is not a finite number")
            return number
        raise self._refuse(node, path, f"the YAML tag {node.tag!r} does not fit the value: remove it")

    def _refuse(self, node: yaml.Node, path: Path, message: str) -> ResourceError:
        name = ".".join(map(str, path))
        text = f"{name}: {message}" if name else message
        return ResourceError(
            FieldProblem(self._source, text, self._number, node.start_mark.line + 1, field=name)
        )


def visible_yaml(documents: Iterable[Any], dumper: type[yaml.SafeDumper] = yaml.SafeDumper) -> str:
    """The documents as text, with nothing hidden in it: YAML's own escapes keep the values."""

    def text(allow_unicode: bool) -> str:
        made: str = yaml.dump_all(found, Dumper=dumper, sort_keys=False, allow_unicode=allow_unicode)
        return made

    found = list(documents)
    plain = text(allow_unicode=True)
    return plain if visible_text(plain) == plain else text(allow_unicode=False)


def _whole_number(text: str) -> int:
    digits = text.lstrip("+-")
    if digits.startswith(("0x", "0b", "0o")):
        number = int(digits[2:] or "0", {"x": 16, "b": 2, "o": 8}[digits[1]])
    else:
        number = int(digits, 8) if digits.startswith("0") and len(digits) > 1 else int(digits)
    return -number if text.startswith("-") else number
