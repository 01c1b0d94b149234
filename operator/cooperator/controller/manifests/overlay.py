"""Lays a user's part of a manifest over ours. Pure."""

from typing import Any, Final

_KEYS: Final = ("name", "mountPath", "containerPort", "topologyKey", "key", "conditionType")
"""Keys that identify entries of a list, as in Kubernetes' strategic merge patch for pods."""


def overlay(ours: Any, theirs: Any) -> Any:
    """Merge mappings, and lists of named entries by their names; everything else is theirs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {
            **ours,
            **{key: overlay(ours[key], value) if key in ours else value for key, value in theirs.items()},
        }
    if isinstance(ours, list) and isinstance(theirs, list):
        return _lists(ours, theirs)
    return theirs


def _lists(ours: list[Any], theirs: list[Any]) -> list[Any]:
    entries = [*ours, *theirs]
    key = next((k for k in _KEYS if all(isinstance(e, dict) and k in e for e in entries)), None)
    if key is None:
        return theirs
    by_key = {entry[key]: entry for entry in ours}
    for entry in theirs:
        by_key[entry[key]] = overlay(by_key.get(entry[key], {}), entry)
    return list(by_key.values())
