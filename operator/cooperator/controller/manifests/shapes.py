"""Validation rules for values in manifests. Each rule explains a violation in words and has an equivalent in
CEL. Pure.

One declaration serves the operator, which names field, value and remedy, and an admission policy of the
cluster (https://kubernetes.io/docs/reference/using-api/cel/), which refuses the same at once.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias

WIDER: Final = "or have the installation allow it (the chart's value worker.template: Any)"
Problems: TypeAlias = Iterator[str]


class Listed(StrEnum):
    """Kinds of objects that may be named only if the installation lists them; values are names in CEL."""

    SECRET = "secrets"
    ACCOUNT = "serviceAccounts"

    @property
    def kind(self) -> str:
        return {Listed.SECRET: "Secret", Listed.ACCOUNT: "ServiceAccount"}[self]


@dataclass(frozen=True, slots=True)
class TemplateLimits:
    """The values that an installation allows in ``namespace``. ``wide``: every value of the right type."""

    namespace: str
    listed: Mapping[Listed, Collection[str]]
    wide: bool

    def names(self, kind: Listed, name: object) -> bool:
        found = self.listed[kind]
        return self.wide or name in found or f"{self.namespace}/{name}" in found


class Shape(Protocol):
    def problems(self, path: str, value: Any, limits: TemplateLimits) -> Problems:
        """Returns the problems of the value at ``path``, each with its remedy."""
        ...

    def cel(self, value: str, depth: int = 0) -> str:
        """An expression that is true if nothing is wrong with the expression ``value``, in an installation
        that is not wide. It knows ``variables`` with a list for each of ``Listed``. ``depth`` numbers the
        variables of macros."""
        ...


@dataclass(frozen=True, slots=True)
class Anything:
    def problems(self, path: str, value: Any, limits: TemplateLimits) -> Problems:
        yield from ()

    def cel(self, value: str, depth: int = 0) -> str:
        return "true"


@dataclass(frozen=True, slots=True)
class Text:
    """A string, or null."""

    def problems(self, path: str, value: Any, limits: TemplateLimits) -> Problems:
        if not isinstance(value, str | None):
            yield f"{path} is {shown(value)}: use a string"

    def cel(self, value: str, depth: int = 0) -> str:
        return f"({value} == null || type({value}) == string)"


@dataclass(frozen=True, slots=True)
class ListOf:
    """``needed``: string fields that every entry must have; entries are then mappings."""

    of: Shape
    needed: tuple[str, ...] = ()

    def problems(self, path: str, value: Any, limits: TemplateLimits) -> Problems:
        if not isinstance(value, list | tuple):
            yield f"{path} is {shown(value)}: write a list, or remove it"
            return
        for number, entry in enumerate(value):
            at = f"{path}[{number}]"
            if self.needed and not isinstance(entry, Mapping):
                yield f"{at} is {shown(entry)}: write a mapping with {' and '.join(self.needed)}"
                continue
            for key in self.needed:
                if not isinstance(entry.get(key), str):
                    yield f"{at}.{key} is {shown(entry.get(key))}: use a string"
            yield from self.of.problems(at, entry, limits)

    def cel(self, value: str, depth: int = 0) -> str:
        entry = f"e{depth}"
        rules = [f"type({entry}) == map"] if self.needed else []
        rules += [f"has({entry}.{key}) && type({entry}.{key}) == string" for key in self.needed]
        return f"type({value}) == list && {value}.all({entry}, {_all(*rules, self.of.cel(entry, depth + 1))})"


@dataclass(frozen=True, slots=True)
class ClosedMapping:
    """A mapping with these fields and no others; ``needed`` gives the remedies for fields that are absent."""

    known: Mapping[str, Shape]
    needed: Mapping[str, str] = field(default_factory=dict)

    def problems(self, path: str, value: Any, limits: TemplateLimits) -> Problems:
        if value is None:
            if not limits.wide:
                yield f"{path} is null: write a mapping, or remove it, {WIDER}"
            return
        if not isinstance(value, Mapping):
            yield f"{path} is {shown(value)}: write a mapping, or remove it"
            return
        for name, part in value.items():
            if name in self.known:
                yield from self.known[name].problems(f"{path}.{name}", part, limits)
            elif not limits.wide:
                yield f"{path}.{name} is {shown(part)}: remove it, {WIDER}"
        for name, remedy in self.needed.items():
            if name not in value and not limits.wide:
                yield f"{path}.{name} is not set: {remedy}, {WIDER}"

    def cel(self, value: str, depth: int = 0) -> str:
        rules = [self.no_others(value, depth)]
        rules += [f"has({value}.{name})" for name in self.needed]
        parts = ((name, shape.cel(f"{value}.{name}", depth)) for name, shape in self.known.items())
        rules += [f"(!has({value}.{name}) || {rule})" for name, rule in parts if rule != "true"]
        return f"({_all(*rules)})"

    def no_others(self, value: str, depth: int = 0) -> str:
        """An expression that is true of a mapping that has no other fields."""
        return f"type({value}) == map && {value}.all(k{depth}, k{depth} in {json.dumps(sorted(self.known))})"


@dataclass(frozen=True, slots=True)
class MappingByName:
    """A mapping whose shape depends on whether its field ``name`` has this value."""

    name: str
    own: Shape
    other: Shape

    def problems(self, path: str, value: Any, limits: TemplateLimits) -> Problems:
        shape = self.own if value.get("name") == self.name else self.other
        yield from shape.problems(path, value, limits)

    def cel(self, value: str, depth: int = 0) -> str:
        own, other = self.own.cel(value, depth), self.other.cel(value, depth)
        return f"({value}.name == {json.dumps(self.name)} ? {own} : {other})"


@dataclass(frozen=True, slots=True)
class OneOf:
    """``remedy``: the advice for other values; default: use one of ``values``."""

    values: tuple[str | bool | None, ...]
    remedy: str = ""

    def problems(self, path: str, value: Any, limits: TemplateLimits) -> Problems:
        if not limits.wide and not any(type(value) is type(e) and value == e for e in self.values):
            remedy = self.remedy or f"use {' or '.join(map(shown, self.values))}"
            yield f"{path} is {shown(value)}: {remedy}, {WIDER}"

    def cel(self, value: str, depth: int = 0) -> str:
        return "(" + " || ".join(f"{value} == {json.dumps(each)}" for each in self.values) + ")"


@dataclass(frozen=True, slots=True)
class NoSystemClass:
    def problems(self, path: str, value: Any, limits: TemplateLimits) -> Problems:
        fine = value is None or (isinstance(value, str) and not value.startswith("system-"))
        if not limits.wide and not fine:
            yield f"{path} is {shown(value)}: use a class of your own, {WIDER}"

    def cel(self, value: str, depth: int = 0) -> str:
        return f"({value} == null || (type({value}) == string && !{value}.startsWith('system-')))"


@dataclass(frozen=True, slots=True)
class NotRoot:
    def problems(self, path: str, value: Any, limits: TemplateLimits) -> Problems:
        fine = value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0)
        if not limits.wide and not fine:
            yield f"{path} is {shown(value)}: use the number of a user other than root, {WIDER}"

    def cel(self, value: str, depth: int = 0) -> str:
        return f"({value} == null || (type({value}) == int && {value} > 0))"


@dataclass(frozen=True, slots=True)
class ListWith:
    """A list that must contain this word."""

    word: str
    remedy: str

    def problems(self, path: str, value: Any, limits: TemplateLimits) -> Problems:
        if not limits.wide and not (isinstance(value, list | tuple) and self.word in value):
            yield f"{path} is {shown(value)}: {self.remedy}, {WIDER}"

    def cel(self, value: str, depth: int = 0) -> str:
        return f"(type({value}) == list && {json.dumps(self.word)} in {value})"


@dataclass(frozen=True, slots=True)
class ListWithin:
    """Null, or a list that contains only these words."""

    words: tuple[str, ...]

    def problems(self, path: str, value: Any, limits: TemplateLimits) -> Problems:
        fine = value is None or (isinstance(value, list | tuple) and all(e in self.words for e in value))
        if not limits.wide and not fine:
            yield f"{path} is {shown(value)}: remove it, {WIDER}"

    def cel(self, value: str, depth: int = 0) -> str:
        words = f"{value}.all(e{depth}, e{depth} in {json.dumps(self.words)})"
        return f"({value} == null || (type({value}) == list && {words}))"


@dataclass(frozen=True, slots=True)
class NameOf:
    """The name of an object on the installation's allow-list."""

    kind: Listed

    def problems(self, path: str, value: Any, limits: TemplateLimits) -> Problems:
        if not isinstance(value, str):
            yield f"{path} is {shown(value)}: write the name of a {self.kind.kind}"
        elif not limits.names(self.kind, value):
            yield (
                f"{path} is {value!r}, which this installation does not allow: add it to the chart's "
                f"value worker."
                f"{self.kind.value}, or name none"
            )

    def cel(self, value: str, depth: int = 0) -> str:
        names = f"variables.{self.kind.value}"
        in_namespace = f"(request.namespace + '/' + {value}) in {names}"
        return f"(type({value}) == string && ({value} in {names} || {in_namespace}))"


def shown(value: object) -> str:
    match value:
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case None:
            return "null"
        case bool():
            return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _all(*rules: str) -> str:
    return " && ".join(rule for rule in rules if rule != "true") or "true"
