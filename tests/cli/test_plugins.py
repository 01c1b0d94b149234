"""Every process of the program knows the assignors of other packages."""

from importlib.metadata import EntryPoint

import pytest

from cooperator.cli import plugins
from cooperator.planner import assignors
from cooperator.planner.assignors.layout import Range


def installed(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    point = EntryPoint(name="Mine", value=value, group=plugins.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point] if group == plugins.GROUP else [])
    monkeypatch.setattr(assignors, "_assignors", dict(assignors._assignors))


def test_an_installed_assignor_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "cooperator.planner.assignors.layout:Range")
    plugins.load_assignors()
    found, warning = assignors.choose("Mine", strict_spread=False)
    assert isinstance(found, Range)
    assert warning == ""


@pytest.mark.parametrize("value", ["no_such_module:Mine", "json:Mine", "json:loads"])
def test_one_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    installed(monkeypatch, value)
    with pytest.raises(plugins.PluginError, match=f"'Mine' of an unknown package .{value}. cannot be loaded"):
        plugins.load_assignors()
