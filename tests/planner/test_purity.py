"""No module whose code decides has state: state that outlives a decision belongs to an object."""

import importlib
import pkgutil
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cached_property, lru_cache
from types import (
    BuiltinFunctionType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any, Final

import pytest

from cooperator.model import TaskId

PACKAGES: Final = (
    *("cooperator.model", "cooperator.planner", "cooperator.pool", "cooperator.reconciliation"),
    "cooperator.wire",
)
MACHINE: Final = "cooperator.leader.machine"

FROZEN: Final = (
    *(type(None), bool, int, float, complex, str, bytes, range, Enum, re.Pattern, struct.Struct),
    *(ModuleType, MethodWrapperType, GenericAlias, UnionType, type(Ellipsis)),
    *(
        type(TaskId.task),
        GetSetDescriptorType,
        MemberDescriptorType,
        MethodDescriptorType,
        WrapperDescriptorType,
    ),
)


def modules() -> list[ModuleType]:
    """The pure packages, and all of the leader that its machine is made of."""
    names = {MACHINE}
    for package in map(importlib.import_module, PACKAGES):
        found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        names |= {package.__name__, *(module.name for module in found)}
    seen: dict[str, ModuleType] = {}
    while names:
        name = names.pop()
        seen[name] = module = importlib.import_module(name)
        used = {value if isinstance(value, ModuleType) else None for value in vars(module).values()}
        parts = {part.__name__ for part in used if part is not None}
        parts |= {getattr(value, "__module__", None) or "" for value in vars(module).values()}
        names |= {part for part in parts if part.startswith("cooperator.leader.")} - seen.keys()
    return [seen[name] for name in sorted(seen)]


def mutable_parts(value: object, path: str, owner: str) -> Iterator[str]:
    """Yield what of ``value``, a name of the module ``owner``, could differ later."""
    if isinstance(value, FROZEN) or type(value).__module__ in ("typing", "_abc"):
        return
    if isinstance(value, BuiltinFunctionType):
        if not isinstance(value.__self__, ModuleType | type | None):
            yield from mutable_parts(value.__self__, f"{path}.__self__", owner)
    elif isinstance(value, tuple | frozenset):
        for each in value:
            yield from mutable_parts(each, f"{path}: {each!r}", owner)
    elif isinstance(value, MappingProxyType):
        for name, each in value.items():
            yield from mutable_parts(each, f"{path}[{name!r}]", owner)
    elif isinstance(value, property):
        for part in (value.fget, value.fset):
            yield from mutable_parts(part, path, owner)
    elif isinstance(value, cached_property):
        yield from mutable_parts(value.func, path, owner)
    elif isinstance(value, staticmethod | classmethod):
        yield from mutable_parts(value.__func__, path, owner)
    elif isinstance(value, FunctionType):
        if value.__module__ == owner:
            kept = (
                *(value.__defaults__ or ()),
                *(value.__kwdefaults__ or {}).values(),
                *vars(value).values(),
            )
            cells = tuple(cell.cell_contents for cell in value.__closure__ or ())
            for each in (*kept, *cells):
                yield from mutable_parts(each, f"{path}(…): {each!r}", owner)
    elif isinstance(value, type):
        if value.__module__ == owner:
            for name, each in vars(value).items():
                if not (name.startswith("__") and name.endswith("__")) and name not in GENERATED:
                    yield from mutable_parts(each, f"{path}.{name}", owner)
    elif is_dataclass(value) and value.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        for each in fields(value):
            yield from mutable_parts(getattr(value, each.name), f"{path}.{each.name}", owner)
    elif hasattr(value, "__dict__") and not vars(value) and not isinstance(value, dict | list | set):
        return  # An object without any state, such as an assignor.
    else:
        yield f"{path} is a {type(value).__name__}"


GENERATED: Final = frozenset(
    {
        *("_abc_impl", "_field_defaults", "_fields", "_member_map_", "_member_names_", "_value2member_map_"),
        *("_unhashable_values_", "_hashable_values_", "_unhashable_values_map_"),
    }
)
"""State that Python keeps on abstract classes, enumerations and named tuples."""


def state_of(module: ModuleType) -> list[str]:
    found = []
    for name, value in vars(module).items():
        if not (name.startswith("__") and name.endswith("__")):
            found += mutable_parts(value, f"{module.__name__}.{name}", module.__name__)
    return found


MODULES: Final = modules()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_no_module_has_state(module: ModuleType) -> None:
    assert state_of(module) == [], "let an object that one leader owns keep it, or freeze it"


def test_the_leaders_decisions_are_among_them() -> None:
    names = {module.__name__ for module in MODULES}
    assert {"cooperator.leader.absences", "cooperator.leader.identities", "cooperator.planner.holds"} <= names
    assert not {name for name in names if name.endswith(("_thread", ".service", ".endpoint"))}


class Counting:
    seen: list[int] = []  # noqa: RUF012


def remembering(item: int, known: dict[int, int] = {}) -> int:  # noqa: B006
    return known.setdefault(item, item)


def enclosing() -> Callable[[], int]:
    known: list[int] = []
    return known.__len__ if known else lambda: len(known)


@pytest.mark.parametrize(
    "value",
    [
        *({}, [], set(), {"a": 1}, ([],), MappingProxyType({"a": []}), iter(()), [].append),
        *(Counting, SimpleNamespace(a=1), remembering, enclosing(), lru_cache(len)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_state_is_found_wherever_it_is(value: Any) -> None:
    module = ModuleType(__name__)
    vars(module)["kept"] = value
    assert state_of(module)
