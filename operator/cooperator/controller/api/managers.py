"""Which manager set a field of an object, from ``metadata.managedFields``. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

REST: Final = "cooperator-rest"
"""The manager of fields written for callers of the REST API."""


def foreign(body: Mapping[str, Any], fields: Iterable[str]) -> dict[str, str]:
    """Those of the spec's ``fields`` that another manager owns wholly or in part: field to manager."""
    found: dict[str, str] = {}
    for field in fields:
        for entry in body["metadata"].get("managedFields") or ():
            spec = (entry.get("fieldsV1") or {}).get("f:spec") or {}
            if entry.get("manager") != REST and f"f:{field}" in spec:
                found.setdefault(field, str(entry.get("manager")))
    return found


def refusal(name: str, managed: Mapping[str, str]) -> str:
    """Why a change is refused, and the remedy."""
    what = ", ".join(f"spec.{field} by {manager!r}" for field, manager in sorted(managed.items()))
    return (
        f"Connector {name} is managed elsewhere ({what}), which would undo what is changed here: change it "
        "there, or have that manager give the fields up"
    )
