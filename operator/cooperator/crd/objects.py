"""Converts objects from a Kubernetes API server to resources.

Everything unknown in a manifest is its author's mistake. An object has been through the API server:
its metadata has more than this code knows, and an unknown field of spec comes from the custom resource
definition of a newer version, which the server fills with defaults. Neither may stop what runs.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final

from pydantic import ValidationError

from cooperator.crd.base import ObjectMeta
from cooperator.crd.errors import FieldProblem, ResourceError
from cooperator.crd.manifests import Resource, model_of, refused
from cooperator.crd.yamldoc import Document, Path

_SOURCE: Final = "the API server"
MAX_DEPTH: Final = 64
"""The maximum depth of mappings and lists in each part of an object. An API server accepts thousands, and
Python's stack has no room for them."""
_COPIED: Final = MAX_DEPTH + 36
_METADATA: Final = frozenset(info.alias or name for name, info in ObjectMeta.model_fields.items())


def from_object(body: Mapping[str, Any]) -> Resource:
    """The resource that ``body`` is; unknown fields are ignored.

    Raises :exc:`ResourceError` with every problem found, and nothing else.
    """
    value = _known_parts(body)
    document = Document(0, value)
    model = model_of(document, _SOURCE)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        details = error.errors(include_url=False)
    wrong = [detail for detail in details if detail["type"] != "extra_forbidden"]
    if wrong:
        raise refused(document, _SOURCE, model, wrong)
    unknown = [detail["loc"] for detail in details]
    try:
        return model.model_validate(_without(value, unknown))
    except ValidationError as error:
        raise refused(document, _SOURCE, model, error.errors(include_url=False)) from None


def _known_parts(body: Mapping[str, Any]) -> dict[str, Any]:
    value = {key: body[key] for key in ("apiVersion", "kind", "metadata", "spec") if key in body}
    metadata = value.get("metadata")
    if isinstance(metadata, Mapping):
        value["metadata"] = {key: part for key, part in metadata.items() if key in _METADATA}
    return {key: _plain(part, key) for key, part in value.items()}


def _without(value: dict[str, Any], paths: Iterable[Path]) -> dict[str, Any]:
    copied = deepcopy(value)
    for *parents, last in paths:
        part: Any = copied
        for key in parents:
            part = part[key]
        del part[last]
    return copied


def _plain(value: Any, where: str, depth: int = 0) -> Any:
    """Convert mappings of any class to dicts; numbers, texts and lists stay as they are."""
    if depth > MAX_DEPTH:
        message = f"{where} is nested more than {MAX_DEPTH} deep: remove the innermost mappings and lists"
        raise ResourceError(FieldProblem(_SOURCE, message, field=where))
    if isinstance(value, Mapping):
        return {key: _plain(part, where, depth + 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, where, depth + 1) for part in value]
    return value


def shallow(value: Any, depth: int = 0) -> Any:
    """A copy of an object as dicts and lists, safe to compare and to write as JSON whatever its depth.

    Values so deep that ``from_object`` refuses the object in any case become None.
    """
    if isinstance(value, Mapping | list | tuple) and depth > _COPIED:
        return None
    if isinstance(value, Mapping):
        return {key: shallow(part, depth + 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [shallow(part, depth + 1) for part in value]
    return value
