"""An instance writes task configurations, and the values that may never change, beside the checkpoints."""

import re
import string
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from hypothesis import example, given
from hypothesis import strategies as st

from cooperator.connectors import find
from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.offset_operations import Subject, alter, listed, reset
from cooperator.connectors.options import OptionError, parse
from cooperator.connectors.references import Resolver
from cooperator.connectors.topics import GroupCluster
from cooperator.connectors.units import (
    Owner,
    checkpoint,
    fixed_values,
    read_layout,
    settle_layout,
    task_configs,
)
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import INSTANCE, TaskId
from cooperator.runtime import RuntimeSettings, TaskSpec
from cooperator.runtime.inline import InlineRuntime
from tests.harness.support import eventually
from tests.runtime.heard import Heard

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


@given(topic=st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=249))
@example(topic=".events")
def test_each_partition_of_a_legal_topic_is_a_unit(topic: str) -> None:
    unit = str(Partition(topic, 0))
    assert task_configs(NOOP, {}, [unit], 1) == [{"task.units": unit}]
    assert checkpoint(Path("checkpoints"), "c", unit) == Path("checkpoints") / "c" / unit


@pytest.mark.parametrize(
    "units", [["a", "a"], ["../a"], ["a/b"], [""], ["a,b"], ["."], [".."], [" a"], ["a\n"]]
)
def test_units_that_are_no_distinct_names_are_refused(units: list[str]) -> None:
    with pytest.raises(ValueError, match="distinct names"):
        task_configs(NOOP, {}, units, 1)


def test_names_cannot_leave_the_checkpoints_directory(tmp_path: Path) -> None:
    assert checkpoint(tmp_path, "lines", "bucket-0-of-8") == tmp_path / "lines" / "bucket-0-of-8"
    for name in ("..", ".", "a/b", "/etc", ""):
        with pytest.raises(ValueError, match="use letters"):
            checkpoint(tmp_path, name, "u")
        with pytest.raises(ValueError, match="use printable characters"):
            checkpoint(tmp_path, "c", name)


def test_a_unit_may_have_any_printable_name(tmp_path: Path) -> None:
    unit = 'public.größe "x" $1; ' + "ß" * 31
    assert task_configs(NOOP, {}, [unit, "b"], 1) == [{"task.units": f"{unit},b"}]
    place = checkpoint(tmp_path, "c", unit)
    assert place.parent == tmp_path / "c"
    assert re.fullmatch("unit-[0-9a-f]{64}", place.name), "a name of a file is not too long, nor another's"


LAKE = Owner("lake", "cluster-1")


def test_the_layout_is_written_once_and_keeps_the_first_units(tmp_path: Path) -> None:
    assert read_layout(tmp_path, "c") is None
    settle_layout(tmp_path, "c", LAKE, {"path": "/a"}, ["u-0"])
    settle_layout(tmp_path, "c", LAKE, {"path": "/a"}, ["u-0", "u-1"])
    layout = read_layout(tmp_path, "c")
    assert layout is not None
    assert (layout.fixed, layout.first) == ({"path": "/a"}, frozenset({"u-0"}))
    with pytest.raises(OptionError, match="'path' = '/b': is fixed: it was '/a'"):
        settle_layout(tmp_path, "c", LAKE, {"path": "/b"}, ["u-0"])


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (Owner("cooperator-b.lake", "cluster-1"), r"the group lake in the Kafka cluster cluster-1 already"),
        (Owner("lake", "cluster-2"), r"of the group lake in the Kafka cluster cluster-2 another spec\."),
    ],
)
def test_checkpoints_of_another_group_are_refused_with_the_way_out(
    tmp_path: Path, other: Owner, named: str
) -> None:
    settle_layout(tmp_path, "c", LAKE, {"path": "/a"}, ["u-0"])
    with pytest.raises(OptionError, match=named):
        settle_layout(tmp_path, "c", other, {"path": "/a"}, ["u-0"])
    layout = read_layout(tmp_path, "c")
    assert layout is not None
    assert layout.owner == LAKE


def test_an_owner_that_is_not_known_is_not_refused(tmp_path: Path) -> None:
    settle_layout(tmp_path, "c", LAKE, {}, [])
    for unknown in (Owner("lake"), Owner("", "cluster-1")):
        settle_layout(tmp_path, "c", unknown, {}, [])


def test_one_of_two_groups_that_start_at_the_same_time_gets_the_checkpoints(tmp_path: Path) -> None:
    owners = [Owner(f"g{number}") for number in range(6)]
    for number in range(20):
        barrier = threading.Barrier(len(owners))

        def settled(owner: Owner, name: str = f"c{number}", barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            try:
                return settle_layout(tmp_path, name, owner, {}, ["u-0"]).owner == owner
            except OptionError:
                return False

        with ThreadPoolExecutor(len(owners)) as pool:
            assert sorted(pool.map(settled, owners)) == [False] * (len(owners) - 1) + [True]


@pytest.mark.parametrize("other", [Owner("another", "cluster-1"), Owner("lake", "cluster-2")])
def test_the_offsets_of_another_group_are_neither_listed_nor_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Owner
) -> None:
    monkeypatch.setattr(GroupCluster, "id", lambda self: other.cluster_id)
    settle_layout(tmp_path, "c", LAKE, {}, ["u-0"])
    (tmp_path / "c" / "u-0").mkdir()
    config = {"path": "/data", "topic": "lines"}
    resolver = Resolver({}, bootstrap_servers="b:1")
    theirs = Subject("c", "files-to-kafka", config, other.group_id, tmp_path, resolver)
    for work in (listed, partial(reset, dry_run=False), partial(alter, wanted=(), dry_run=False)):
        with pytest.raises(OptionError, match="of the group lake in the Kafka cluster cluster-1 already"):
            work(theirs)
    assert (tmp_path / "c" / "u-0").is_dir()


@pytest.mark.real
def test_the_layout_names_the_cluster_of_the_group(
    settings: RuntimeSettings, heard: Heard, broker: EmbeddedBroker
) -> None:
    runtime = InlineRuntime(replace(settings, bootstrap_servers=broker.bootstrap_servers), heard)
    try:
        runtime.start(TaskSpec(TaskId("c", INSTANCE), {"connector.class": "noop"}), 1)
        layout = eventually(lambda: read_layout(Path(settings.checkpoints), "c"))
    finally:
        assert runtime.close(10)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    assert layout.owner == Owner("cooperator", admin.list_topics(timeout=10).cluster_id)


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
