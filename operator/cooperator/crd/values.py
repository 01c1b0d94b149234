"""Settings that users write as text, number or boolean, and programs read as text."""

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError


def _as_text(value: object) -> object:
    """A setting as Kafka Connect's REST API stores it: true, 3, 0.5."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | str):
        return str(value)
    # The value stays out of the message, since settings may hold secrets.
    what = "empty" if value is None else "a list" if isinstance(value, list | tuple) else "a mapping"
    raise PydanticCustomError(
        "setting_type",
        "is {what}, but must be text, a number or true/false: put it in quotes",
        {"what": what},
    )


# A structural schema has no type for "text, number or boolean"; other values are reported later.
SettingText: TypeAlias = Annotated[
    str, BeforeValidator(_as_text), WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})
]
Settings: TypeAlias = Mapping[Annotated[str, StringConstraints(min_length=1)], SettingText]
"""Flat settings; values become text."""
