"""Converts between manifests and resources: any number of YAML documents in a text."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from cooperator.crd.base import API_VERSION
from cooperator.crd.connector import Connector
from cooperator.crd.connector_names import name_is_taken, same_name
from cooperator.crd.errors import FieldProblem, ResourceError
from cooperator.crd.explain import explain, show
from cooperator.crd.projection import Projection
from cooperator.crd.worker import Worker
from cooperator.crd.yamldoc import SCALARS, Document, read_documents, visible_yaml
from cooperator.model.text import suggestion

Resource: TypeAlias = Worker | Connector

_KINDS: Final[Mapping[str, type[Worker] | type[Connector]]] = {"Worker": Worker, "Connector": Connector}


def parse(text: str, source: str) -> tuple[Resource, ...]:
    """Parse all resources of a text, in order; ``source`` (a file's name) is used in messages only.

    A ``status`` is ignored, so that the output of ``get`` can be applied. Raises :exc:`ResourceError` with
    every problem found, and nothing else.
    """
    resources: list[Resource] = []
    problems: list[FieldProblem] = []
    seen: dict[tuple[str, str, str], int] = {}
    for document in read_documents(text, source):
        try:
            resource = _parse_one(document, source)
        except ResourceError as error:
            problems += error.problems
            continue
        key = (resource.kind, resource.metadata.namespace, resource.metadata.name)
        if key in seen:
            message = f"is already in document {seen[key]}: keep one of the two"
            problems.append(_problem(document, source, message, ("metadata", "name")))
        elif isinstance(resource, Connector):
            others = (each for each in resources if isinstance(each, Connector))
            if (other := same_name(others, resource)) is not None:
                message = name_is_taken(resource, other)
                problems.append(_problem(document, source, message, ("spec", "connectorName")))
        seen.setdefault(key, document.number)
        resources.append(resource)
    if problems:
        raise ResourceError(*problems)
    return tuple(resources)


def to_manifest(resource: Resource, status: Projection | None = None) -> dict[str, Any]:
    """The resource as ``get -o json`` prints it, with defaults; unset fields are left out."""
    manifest = resource.model_dump(mode="json", by_alias=True, exclude_none=True)
    for optional in ("labels", "annotations"):
        if not manifest["metadata"][optional]:
            del manifest["metadata"][optional]
    if status is not None:
        manifest["status"] = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return manifest


def dump(resources: Iterable[Resource]) -> str:
    """YAML that :func:`parse` reads back to equal resources."""
    return visible_yaml(map(to_manifest, resources), _Dumper)


class _Dumper(yaml.SafeDumper):
    """Quotes every text that kubectl's or PyYAML's reading would take for something else."""


for _name, _pattern, _first in SCALARS:
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", _pattern, list(_first))


def _parse_one(document: Document, source: str) -> Resource:
    value = document.value
    if not isinstance(value, dict):
        raise ResourceError(
            _problem(document, source, f"the document is {show(value)}, but must be a mapping")
        )
    model = model_of(document, source)
    try:
        return model.model_validate({key: part for key, part in value.items() if key != "status"})
    except ValidationError as error:
        raise refused(document, source, model, error.errors(include_url=False)) from None


def refused(
    document: Document, source: str, model: type[Resource], details: Iterable[ErrorDetails]
) -> ResourceError:
    """pydantic's errors, explained."""
    found = [explain(detail, model) for detail in details]
    return ResourceError(*(_problem(document, source, message, path) for path, message in found))


def model_of(document: Document, source: str) -> type[Resource]:
    """The kind of resource of a mapping. Raises :exc:`ResourceError`."""
    value = document.value
    assert isinstance(value, dict)
    version, kind = value.get("apiVersion"), value.get("kind")
    if version != API_VERSION:
        message = (
            f"apiVersion is missing: add apiVersion: {API_VERSION}"
            if version is None
            else f"apiVersion is {show(version)}, but must be {API_VERSION!r}"
        )
        raise ResourceError(_problem(document, source, message, ("apiVersion",)))
    model = _KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        message = (
            f"kind is missing: use one of {', '.join(_KINDS)}"
            if kind is None
            else f"kind is {show(kind)}: {suggestion(str(kind), _KINDS)}"
        )
        raise ResourceError(_problem(document, source, message, ("kind",)))
    return model


def _problem(document: Document, source: str, message: str, path: tuple[str | int, ...] = ()) -> FieldProblem:
    return FieldProblem(
        source,
        message,
        document.number,
        document.line(path),
        _describe(document.value),
        ".".join(map(str, path)),
    )


def _describe(value: object) -> str:
    """``Worker lake``, as far as the document has it."""
    if not isinstance(value, dict):
        return ""
    metadata = value.get("metadata")
    parts = (value.get("kind"), metadata.get("name") if isinstance(metadata, dict) else None)
    return " ".join(re.sub(r"\s+", " ", part)[:80] for part in parts if isinstance(part, str))
