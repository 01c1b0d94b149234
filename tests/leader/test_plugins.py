"""Every leader knows the assignors of other packages."""

from importlib.metadata import EntryPoint

import pytest

from cooperator.leader import plugins
from cooperator.planner.assignors import BUILT_IN, choose
from cooperator.planner.assignors.layout import Uniform


def install(monkeypatch: pytest.MonkeyPatch, value: str, *names: str) -> None:
    points = [EntryPoint(name=name, value=value, group=plugins.GROUP) for name in names]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points if group == plugins.GROUP else [])


def test_an_installed_assignor_may_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "cooperator.planner.assignors.layout:Uniform", "Mine")
    installed = plugins.installed_assignors()
    assert installed.keys() == {*BUILT_IN, "Mine"}
    found, warning = choose("Mine", False, installed)
    assert isinstance(found, Uniform)
    assert warning == ""


@pytest.mark.parametrize("value", ["no_such_module:Mine", "json:Mine", "json:loads"])
def test_one_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    install(monkeypatch, value, "Mine")
    with pytest.raises(plugins.PluginError, match=f"'Mine' of an unknown package .{value}. cannot be loaded"):
        plugins.installed_assignors()


def test_a_name_is_one_assignors(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "cooperator.planner.assignors.layout:Uniform", "Uniform", "Uniform")
    assert isinstance(plugins.installed_assignors()["Uniform"], Uniform)
    install(monkeypatch, "cooperator.planner.assignors.layout:Uniform", "Sticky")
    with pytest.raises(plugins.PluginError, match="the name is that of Sticky; choose another name"):
        plugins.installed_assignors()
