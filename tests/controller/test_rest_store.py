"""Requests of callers as writes to the API server."""

from typing import Any

import pytest

from cooperator.controller.rest_store import KubernetesConnectors, _merged


class Untouched:
    """An API server that nobody may ask."""

    def get(self, *asked: Any) -> Any:
        raise AssertionError(asked)


@pytest.mark.parametrize(
    "name", ["../../other/connectors/a", "a/status", "..", "", "A", "a?x=1", "a%2f..", "a#", "x" * 254]
)
def test_a_name_is_no_path(name: str) -> None:
    """Else it would lead into other namespaces, where nobody has asked for the caller's right."""
    assert KubernetesConnectors(Untouched(), "default", "lake", dict).resource(name) is None  # type: ignore[arg-type]


def test_a_patch_takes_away_what_is_not_there_any_more() -> None:
    old = {"config": {"a": "1", "b": "2"}, "tasksMax": 1, "state": "Running"}
    new = {"config": {"a": "1", "c": "3"}, "tasksMax": 2, "state": "Running"}
    assert _merged(old, new) == {"config": {"b": None, "c": "3"}, "tasksMax": 2}
