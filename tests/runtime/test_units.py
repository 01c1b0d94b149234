"""An instance writes task configurations, and the values that may never change, beside the checkpoints."""

from pathlib import Path

import pytest

from cooperator.connectors import find
from cooperator.connectors.options import OptionError, parse
from cooperator.connectors.units import checkpoint, fixed_values, read_layout, settle_layout, task_configs

NOOP = find("noop")


def test_a_task_has_the_connectors_configuration_as_written_and_its_units() -> None:
    config = {
        "connector.class": "noop",
        "name": "n",
        "tasks.max": "2",
        "units.refresh.interval.ms": "500",
        "journal": "${env:JOURNAL}",
    }
    common = {"connector.class": "noop", "journal": "${env:JOURNAL}"}
    first = [{**common, "task.units": "a,b"}, {**common, "task.units": "c"}]
    assert task_configs(NOOP, config, ["a", "b", "c"], 2) == first
    assert task_configs(NOOP, config, ["a", "aa", "b", "c"], 2, first) == [
        first[0],
        {**common, "task.units": "c,aa"},
    ]


@pytest.mark.parametrize("units", [["a", "a"], ["../a"], ["a/b"], [""], ["a,b"]])
def test_units_that_are_no_distinct_file_names_are_refused(units: list[str]) -> None:
    with pytest.raises(ValueError, match="distinct file names"):
        task_configs(NOOP, {}, units, 1)


def test_names_cannot_leave_the_checkpoints_directory(tmp_path: Path) -> None:
    assert checkpoint(tmp_path, "lines", "bucket-0-of-8") == tmp_path / "lines" / "bucket-0-of-8"
    for name in ("..", ".", "a/b", "/etc", ""):
        with pytest.raises(ValueError, match="use letters"):
            checkpoint(tmp_path, name, "u")
        with pytest.raises(ValueError, match="use letters"):
            checkpoint(tmp_path, "c", name)


def test_the_layout_is_written_once_and_keeps_the_first_units(tmp_path: Path) -> None:
    assert read_layout(tmp_path, "c") is None
    settle_layout(tmp_path, "c", "lake", {"path": "/a"}, ["u-0"])
    settle_layout(tmp_path, "c", "lake", {"path": "/a"}, ["u-0", "u-1"])
    layout = read_layout(tmp_path, "c")
    assert layout is not None
    assert (layout.fixed, layout.first) == ({"path": "/a"}, frozenset({"u-0"}))
    with pytest.raises(OptionError, match="'path' = '/b': is fixed: it was '/a'"):
        settle_layout(tmp_path, "c", "lake", {"path": "/b"}, ["u-0"])


def test_checkpoints_of_another_group_are_refused_with_the_way_out(tmp_path: Path) -> None:
    settle_layout(tmp_path, "c", "cooperator-a.lake", {"path": "/a"}, ["u-0"])
    with pytest.raises(
        OptionError, match=r"of connector c of the group cooperator-a\.lake already; give the Worker"
    ):
        settle_layout(tmp_path, "c", "cooperator-b.lake", {"path": "/a"}, ["u-0"])
    layout = read_layout(tmp_path, "c")
    assert layout is not None
    assert layout.group_id == "cooperator-a.lake"


def test_fixed_values_hold_defaults_and_unresolved_references() -> None:
    files = find("files-to-kafka")
    written = {"connector.class": "files-to-kafka", "path": "${env:DATA}", "topic": "lines"}
    resolved = {**written, "path": "/secret/place", "bootstrap.servers": "k:1"}
    assert fixed_values(parse(files.options, resolved), written) == {
        "connector.class": "files-to-kafka",
        "path": "${env:DATA}",
        "topic": "lines",
        "units": "8",
        "format": "text",
    }
