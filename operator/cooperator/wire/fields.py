"""Typed access to an untrusted JSON object: a wrong type is a DecodeError with its path."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeVar

from cooperator.model import Fencing, HoldReason, PolicyName, TaskState
from cooperator.wire.primitives import DecodeError

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


SAFE: Final[Mapping[type[StrEnum], StrEnum]] = MappingProxyType(
    {
        # A hold for an unknown reason waits for the end of the lease, the most conservative choice.
        HoldReason: HoldReason.UNPROVEN,
        PolicyName: PolicyName.DEFAULT,
        Fencing: Fencing.STRICT,
        # An unknown state counts as running, the only state that prevents a start elsewhere.
        TaskState: TaskState.RUNNING,
    }
)
"""The safe value that stands for an unknown value of a later release."""


def read_enum(text: str, kind: type[E], path: str) -> E:
    """Return the enumeration value for ``text``, or the safe value if it is unknown. Raises DecodeError if
    there is no safe value.
    """
    try:
        return kind(text)
    except ValueError:
        safe = SAFE.get(kind)
        if isinstance(safe, kind):
            return safe
        raise DecodeError(f"{path}: {text!r} is none of {', '.join(kind)}") from None


class Fields:
    """One JSON object. An absent or null field has the default; a field of another type is an error."""

    __slots__ = ("_path", "_values")

    def __init__(self, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise DecodeError(f"{path}: {_kind(value)} instead of an object")
        self._values: dict[str, Any] = value
        self._path = path

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def value(self, name: str) -> Any:
        """The raw field; None when it is absent."""
        return self._values.get(name)

    def integer(self, name: str, default: int | None = None) -> int:
        return self._typed(name, int, default)

    def text(self, name: str, default: str | None = None) -> str:
        return self._typed(name, str, default)

    def array_of(self, name: str, kind: type[T]) -> list[T]:
        return typed_all(self._typed(name, list, []), kind, f"{self._path}.{name}")

    def flag(self, name: str) -> bool:
        """Whether the field is ``true``; any other value of any type counts as false."""
        return self._values.get(name) is True

    def choice(self, name: str, kind: type[E], default: E | None = None) -> E:
        return read_enum(self.text(name, default), kind, f"{self._path}.{name}")

    def object(self, name: str) -> "Fields":
        return Fields(self._values.get(name), f"{self._path}.{name}")

    def object_or_empty(self, name: str) -> "Fields":
        return self.object(name) if name in self else Fields({}, f"{self._path}.{name}")

    def items(self) -> Iterator[tuple[str, Any, str]]:
        """(name, value, path of the value) of each field."""
        for name, value in self._values.items():
            yield name, value, f"{self._path}.{name}"

    def _typed(self, name: str, kind: type[T], default: T | None) -> T:
        value = self._values.get(name)
        if value is None:
            if default is None:
                raise DecodeError(f"{self._path}.{name}: missing")
            return default
        return typed(value, kind, f"{self._path}.{name}")


def typed(value: Any, kind: type[T], path: str) -> T:
    """Return ``value`` if it has exactly this JSON type (a boolean is no integer)."""
    if type(value) is not kind:
        raise DecodeError(f"{path}: {_kind(value)} instead of {kind.__name__}")
    return value


def typed_all(values: list[Any], kind: type[T], path: str) -> list[T]:
    """Return ``values`` if each has exactly this JSON type."""
    if not all(type(value) is kind for value in values):
        raise DecodeError(f"{path}: every element must be {kind.__name__}")
    return values


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__
