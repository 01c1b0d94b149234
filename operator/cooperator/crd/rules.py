"""Checks that exist twice: in Python, where a manifest is read, and in CEL, for the API server.

Both are in the models' annotations, side by side, from which ``render`` takes them.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

VALIDATIONS: Final = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class Rule:
    """CEL that must hold, with ``self`` as the annotated value; the message names the problem and the remedy.

    ``field`` is the offending one below ``self``, such as ``.leaseMs``. It checks nothing in Python.
    """

    holds: str
    message: str
    field: str = ""

    def rendered(self) -> dict[str, str]:
        rule = {"rule": self.holds, "message": self.message}
        return {**rule, "fieldPath": self.field} if self.field else rule

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core)
        return {**schema, VALIDATIONS: [*schema.get(VALIDATIONS, []), self.rendered()]}


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a text. ``pattern`` matches the whole text, in the common syntax of ``re`` and RE2."""

    pattern: str
    remedy: str
    longest: int

    def check(self, text: str) -> str:
        """Return the text if it has this form. Raises ValueError with the remedy otherwise."""
        if len(text) > self.longest or not re.fullmatch(self.pattern, text):
            raise ValueError(self.remedy)
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        rule = Rule(f"self.matches(r'^(?:{self.pattern})$')", self.remedy)
        schema = rule.__get_pydantic_json_schema__(core, handler)
        return {**schema, "maxLength": self.longest}


def all_hold(*rules: Rule) -> dict[str, Any]:
    """``json_schema_extra`` of a model whose objects obey the rules."""
    return {VALIDATIONS: [rule.rendered() for rule in rules]}


def stays(field: str, why: str, change: str = "") -> str:
    """The error text for a change of an immutable field. ``change`` is like `` from 'a' to 'b'``."""
    return f"{field} cannot be changed{change}: {why}. Keep it, or delete the resource and create it again"


def unchanged(field: str, why: str) -> Rule:
    """For a field that is always present."""
    return Rule("self == oldSelf", stays(field, why))


def unchanged_within(*path: str, prefix: str, why: str) -> Rule:
    """For a text below ``self`` that may be absent at any level; absent counts as the empty text."""

    def read(root: str) -> str:
        reached = [".".join((root, *path[: end + 1])) for end in range(len(path))]
        there = " && ".join(f"has({part})" for part in reached)
        return f"({there} ? {reached[-1]} : '')"

    field = f".{'.'.join(path)}"
    return Rule(f"{read('self')} == {read('oldSelf')}", stays(f"{prefix}{field}", why))


LIGHTEST: Final = 0.001
NOT_WEIGHTLESS: Final = Rule(
    # For an integer an API server compares only the whole part of "minimum": 0 would pass.
    f"self >= {LIGHTEST}",
    f"must be at least {LIGHTEST}",
)

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"


def dns_label(longest: int = 63) -> Form:
    """RFC 1123 label."""
    return Form(
        _LABEL,
        f"use 1 to {longest} lower-case letters, digits and '-', a letter or digit at both ends "
        "(RFC 1123 label)",
        longest,
    )


DNS_SUBDOMAIN: Final = Form(
    rf"{_LABEL}(\.{_LABEL})*",
    "use 1 to 253 lower-case letters, digits, '-' and '.', a letter or digit at both ends "
    "(RFC 1123 subdomain)",
    253,
)
