"""Translates pydantic's errors for the manifest's author: field, value, remedy."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from cooperator.model.text import did_you_mean, suggestion

_SHOWN: Final = 60
_KEY_MARK: Final = "[key]"

_EXPECTED: Final[Mapping[str, str]] = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text (in quotes, if it looks like a number)",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "string_too_short": "at least one character",
    "list_type": "a list",
    "tuple_type": "a list",
}
_CHOICE: Final = ("enum", "literal_error")
_QUOTED: Final = re.compile("'([^']*)'")
_BOUNDS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("greater than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}


def explain(error: ErrorDetails, root: type[BaseModel]) -> tuple[tuple[str | int, ...], str]:
    """The field's path, and a sentence that names it, its value and the remedy."""
    path = tuple(part for part in error["loc"] if part != _KEY_MARK)
    name = dotted(path)
    kind = error["type"]
    context = error.get("ctx", {})
    model, info = _find(root, path)
    remedy = f" ({info.description})" if info and info.description else ""
    if kind == "missing":
        return path, f"{name} is missing: add it{remedy}"
    if kind == "extra_forbidden":
        return path, f"{name} is not a field: {suggestion(str(path[-1]), _names(model))}"
    if kind == "value_error":
        message = str(context["error"])
        return path, f"{name}: {message}" if _is_container(error["input"]) else (
            f"{name} is {show(error['input'])}: {message}"
        )
    if kind == "too_long":
        return path, f"{name} has more than {context['max_length']} entries: remove some{remedy}"
    if kind == "setting_type":
        return path, f"{name} {error['msg']}"
    return (
        path,
        f"{name} is {show(error['input'])}, but must be {_expected(kind, context, error['msg'])}{remedy}"
        f"{_hint(kind, error['input'], context)}",
    )


def _hint(kind: str, value: object, context: Mapping[str, Any]) -> str:
    """The hint for a value that is not among the choices."""
    if kind not in _CHOICE or not isinstance(value, str):
        return ""
    hint = did_you_mean(value, _QUOTED.findall(str(context.get("expected", ""))))
    return f": {hint}" if hint else ""


def dotted(path: Iterable[str | int]) -> str:
    return ".".join(map(str, path)) or "the document"


def show(value: object) -> str:
    """A short form of a value that its author will recognise."""
    if value is None:
        return "empty"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _expected(kind: str, context: Mapping[str, Any], message: str) -> str:
    if kind in _EXPECTED:
        return _EXPECTED[kind]
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        return f"{words} {context[key]}"
    if kind == "string_too_long":
        return f"at most {context['max_length']} characters long"
    if kind in _CHOICE:
        return str(context["expected"])
    return message[:1].lower() + message[1:]


def _is_container(value: object) -> bool:
    return isinstance(value, Mapping | list | tuple | BaseModel)


def _names(model: type[BaseModel] | None) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()] if model else []


def _find(
    root: type[BaseModel], path: tuple[str | int, ...]
) -> tuple[type[BaseModel] | None, FieldInfo | None]:
    """The model and the field that a path ends in; None where it leaves the models."""
    model: type[BaseModel] | None = root
    info: FieldInfo | None = None
    for index, part in enumerate(path):
        if model is None:
            return None, None
        info = next((f for name, f in model.model_fields.items() if (f.alias or name) == part), None)
        if index < len(path) - 1:
            model = _model_of(info.annotation) if info else None
    return model, info


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_of(part))), None)
