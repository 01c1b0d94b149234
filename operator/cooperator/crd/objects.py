"""Objects as a Kubernetes API server gives them, to resources.

A manifest is somebody's words: whatever is not understood in it is a mistake. An object has been through the
API server: its metadata has more than we know, and a field of spec that we do not know comes from the custom
resource definition of a newer version, which the server fills with defaults. Neither may stop what runs.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final

from pydantic import ValidationError

from cooperator.crd.base import ObjectMeta
from cooperator.crd.explain import dotted
from cooperator.crd.manifests import Resource, model_of, refused
from cooperator.crd.yamldoc import Document, Path

_SOURCE: Final = "the API server"
_METADATA: Final = frozenset(info.alias or name for name, info in ObjectMeta.model_fields.items())


def from_object(body: Mapping[str, Any]) -> Resource:
    """The resource that ``body`` is; what is not known of it is passed over.

    Raises :exc:`ResourceError` with every problem found, and nothing else.
    """
    return _read(body)[0]


def unknown_fields(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Dotted paths of what :func:`from_object` passes over outside of metadata: fields of a newer version,
    which this one does not obey. Raises as it does."""
    return tuple(map(dotted, _read(body)[1]))


def _read(body: Mapping[str, Any]) -> tuple[Resource, list[Path]]:
    value = _known_parts(body)
    document = Document(0, value)
    model = model_of(document, _SOURCE)
    try:
        return model.model_validate(value), []
    except ValidationError as error:
        details = error.errors(include_url=False)
    wrong = [detail for detail in details if detail["type"] != "extra_forbidden"]
    if wrong:
        raise refused(document, _SOURCE, model, wrong)
    unknown = [detail["loc"] for detail in details]
    try:
        return model.model_validate(_without(value, unknown)), unknown
    except ValidationError as error:
        raise refused(document, _SOURCE, model, error.errors(include_url=False)) from None


def _known_parts(body: Mapping[str, Any]) -> dict[str, Any]:
    value = {key: _plain(body[key]) for key in ("apiVersion", "kind", "metadata", "spec") if key in body}
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        value["metadata"] = {key: part for key, part in metadata.items() if key in _METADATA}
    return value


def _without(value: dict[str, Any], paths: Iterable[Path]) -> dict[str, Any]:
    copied = deepcopy(value)
    for *parents, last in paths:
        part: Any = copied
        for key in parents:
            part = part[key]
        del part[last]
    return copied


def _plain(value: Any) -> Any:
    """Mappings of any class become dicts; the server's numbers, texts and lists stay as they are."""
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value
