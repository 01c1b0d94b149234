"""The model's frozen values as JSON, derived from the types of their fields.

Used where the format is ours alone (the leader log), so that a field added to the model is never lost on the
way. Dataclasses become objects keyed by field name; None is omitted, and missing fields have their default.
Sets of tasks become runs (see ``taskset``) and mappings are sorted, so that equal values give equal bytes.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from cooperator.model import TaskId
from cooperator.wire.fields import read_enum, typed
from cooperator.wire.primitives import DecodeError
from cooperator.wire.taskset import TaskSetReader, TaskSetWriter

T = TypeVar("T")


def to_plain(value: Any, sets: TaskSetWriter) -> Any:
    """Convert ``value``, a dataclass of the model, to JSON-compatible values."""
    match value:
        case StrEnum():
            return value.value
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {name: to_plain(value[name], sets) for name in sorted(value)}
        case frozenset():
            return sets.write(value)
        case tuple():
            return [to_plain(each, sets) for each in value]
    members = ((each.name, getattr(value, each.name)) for each in fields(value))
    return {name: to_plain(member, sets) for name, member in members if member is not None}


def from_plain(plain: Any, kind: type[T], sets: TaskSetReader) -> T:
    """Convert the result of ``to_plain`` back to the dataclass ``kind``; unknown fields are skipped, and
    unknown values of an enumeration are safe ones (``fields.SAFE``).

    Raises DecodeError.
    """
    value: T = _Reading(sets).read(plain, kind, kind.__name__)
    return value


class _Reading:
    """Reads one value. ``_members``: per dataclass and field, its type, and whether it is required."""

    def __init__(self, sets: TaskSetReader) -> None:
        self._sets = sets
        self._members: dict[Any, dict[str, tuple[Any, bool]]] = {}

    def read(self, plain: Any, kind: Any, path: str) -> Any:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in (Union, UnionType):
            present = next(each for each in arguments if each is not NoneType)
            return None if plain is None else self.read(plain, present, path)
        if origin is tuple:
            return tuple(self.read(each, arguments[0], path) for each in typed(plain, list, path))
        if origin is frozenset and arguments == (TaskId,):
            return self._sets.read(typed(plain, list, path), path)
        if origin is not None and issubclass(origin, Mapping):
            members = typed(plain, dict, path).items()
            return {name: self.read(each, arguments[1], f"{path}.{name}") for name, each in members}
        if is_dataclass(kind):
            return self._dataclass(plain, kind, path)
        if issubclass(kind, StrEnum):
            return read_enum(typed(plain, str, path), kind, path)
        if kind is float:
            return _read_float(plain, path)
        return typed(plain, kind, path)

    def _dataclass(self, plain: Any, kind: Any, path: str) -> Any:
        values = typed(plain, dict, path)
        if kind not in self._members:
            hints = get_type_hints(kind)
            self._members[kind] = {
                each.name: (hints[each.name], each.default is MISSING and each.default_factory is MISSING)
                for each in fields(kind)
            }
        known: dict[str, Any] = {}
        for name, (hint, required) in self._members[kind].items():
            value = values.get(name)
            if value is not None:
                known[name] = self.read(value, hint, f"{path}.{name}")
            elif required:
                raise DecodeError(f"{path}.{name}: missing")
        return kind(**known)


def _read_float(plain: Any, path: str) -> float:
    if type(plain) not in (int, float) or not math.isfinite(plain):
        raise DecodeError(f"{path}: no finite number")
    return float(plain)
