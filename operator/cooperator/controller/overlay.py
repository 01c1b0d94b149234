"""A user's part of a manifest laid over ours. Pure."""

from typing import Any, Final

_KEYS: Final = ("name", "mountPath", "containerPort", "topologyKey", "key", "conditionType")
"""By which the entries of a list are the same, as Kubernetes' own strategic merge has it for pods."""


def overlay(ours: Any, theirs: Any) -> Any:
    """Mappings are merged, lists of named entries by their names, everything else is theirs."""
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
