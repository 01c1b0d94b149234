"""Units are grouped into tasks: always all of them, evenly, in order, and always the same way."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.runtime.connectors import find
from cooperator.runtime.options import OptionError, parse
from cooperator.runtime.units import checkpoint, fixed_values, read_layout, settle_layout, task_configs

NOOP = find("noop")
UNITS = st.integers(0, 300).map(lambda count: [f"u-{number}" for number in range(count)])


@given(units=UNITS, tasks_max=st.integers(1, 400))
def test_groups_are_even_slices_of_all_units(units: list[str], tasks_max: int) -> None:
    groups = NOOP.groups(units, tasks_max)
    assert list(itertools.chain(*groups)) == units
    assert len(groups) == min(tasks_max, len(units))
    sizes = {len(group) for group in groups}
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert groups == NOOP.groups(units, tasks_max)


@given(count=st.integers(1, 100), more=st.integers(0, 20))
def test_one_task_a_unit_keeps_every_task_when_units_are_added(count: int, more: int) -> None:
    units = [f"u-{number}" for number in range(count + more)]
    assert NOOP.groups(units[:count], 1000) == NOOP.groups(units, 1000)[:count]


def test_a_task_has_the_connectors_configuration_as_written_and_its_units() -> None:
    config = {
        "connector.class": "noop",
        "name": "n",
        "tasks.max": "2",
        "units.refresh.interval.ms": "500",
        "journal": "${env:JOURNAL}",
    }
    common = {"connector.class": "noop", "journal": "${env:JOURNAL}"}
    assert task_configs(NOOP, config, ["a", "b", "c"], 2) == [
        {**common, "task.units": "a"},
        {**common, "task.units": "b,c"},
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
    settle_layout(tmp_path, "c", {"path": "/a"}, ["u-0"])
    settle_layout(tmp_path, "c", {"path": "/a"}, ["u-0", "u-1"])
    layout = read_layout(tmp_path, "c")
    assert layout is not None
    assert (layout.fixed, layout.first) == ({"path": "/a"}, frozenset({"u-0"}))
    with pytest.raises(OptionError, match="'path' = '/b': is fixed: it was '/a'"):
        settle_layout(tmp_path, "c", {"path": "/b"}, ["u-0"])


def test_fixed_values_hold_defaults_and_unresolved_references() -> None:
    files = find("files-to-kafka")
    written = {"connector.class": "files-to-kafka", "path": "${env:DATA}", "topic": "lines"}
    resolved = {**written, "path": "/secret/place", "bootstrap.servers": "k:1"}
    assert fixed_values(parse(files.options, resolved), written) == {
        "path": "${env:DATA}",
        "topic": "lines",
        "units": "8",
        "format": "text",
    }
