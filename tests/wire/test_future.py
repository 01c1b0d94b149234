"""Records, files and notes of a later release: unknown fields are skipped, unknown values are made safe."""

import json
from dataclasses import asdict, fields, is_dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.exactly_once import Marker
from cooperator.connectors.units import Owner as CheckpointOwner
from cooperator.connectors.units import layout_file, read_layout, settle_layout
from cooperator.controller.manifests.pins import PINNED, Pin, pin_of, upgrade_available
from cooperator.controller.manifests.pods import Defaults, image, pod_manifest
from cooperator.crd import ConditionStatus
from cooperator.crd.conditions import stored_conditions
from cooperator.host.kept import kept_of_connector, kept_of_worker
from cooperator.host.progress import Reported, reported
from cooperator.local.layout import LocalCluster, StateDir, read_cluster
from cooperator.local.members import INCARNATION, ProcessIncarnation, read_incarnation
from cooperator.model import (
    Fencing,
    HoldReason,
    Memory,
    Policy,
    PolicyName,
    TargetState,
    TaskState,
    TaskStatus,
    Warmth,
)
from cooperator.planner.plan import Why, reason_of
from cooperator.terminal.tables import task_words
from cooperator.wire import (
    AgentReport,
    ConfigFold,
    Metadata,
    Owner,
    Protocol,
    Record,
    Role,
    TargetStateRecord,
    Unknown,
    decode_assignment,
    decode_config,
    decode_leader,
    decode_metadata,
    decode_status,
    encode_assignment,
    encode_config,
    encode_leader,
    encode_metadata,
    encode_status,
)
from cooperator.wire.fields import SAFE
from cooperator.wire.leader import _decompress
from cooperator.wire.metadata import _MAGIC
from tests.controller.workers import worker
from tests.wire.strategies import ASSIGNMENTS, MEMORIES, METADATA, OWNERS, POLICIES, STATUSES

FUTURE = "FromALaterRelease"


def later(value: Any, kind: Any) -> Any:
    """The JSON of ``kind`` as a later release writes it: more fields, and other words of enumerations."""
    if get_origin(kind) in (Union, UnionType):
        [kind] = (each for each in get_args(kind) if each is not NoneType)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return FUTURE
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        known = {name: later(part, hints[name]) for name, part in value.items()}
        return {**known, "newer": {"deep": [1, {"a": None}]}, "newest": 3}
    if isinstance(value, dict):
        return {name: later(part, get_args(kind)[1]) for name, part in value.items()}
    if isinstance(value, list) and get_origin(kind) is tuple:
        return [later(part, get_args(kind)[0]) for part in value]
    return value


def of_later(written: Memory | Policy | Owner) -> Record:
    record = encode_leader(written)
    assert record.value is not None
    envelope = json.loads(_decompress(record.value, record.key))
    value = later(envelope["value"], type(written))
    return Record(record.key, json.dumps({**envelope, "value": value, "newer": 2}).encode())


@given(MEMORIES)
def test_a_leaders_memory_keeps_all_that_is_known(memory: Memory) -> None:
    read = decode_leader(of_later(memory))
    safe = {who: replace(hold, reason=HoldReason.UNPROVEN) for who, hold in memory.holds.items()}
    assert isinstance(read, Memory)
    assert read == replace(memory, holds=safe)


@given(POLICIES)
def test_a_policy_falls_back_to_what_is_strict(policy: Policy) -> None:
    read = decode_leader(of_later(policy))
    assert read == replace(policy, name=PolicyName.DEFAULT, fencing=Fencing.STRICT)


@given(OWNERS)
def test_an_owner_is_the_same(owner: Owner) -> None:
    assert decode_leader(of_later(owner)) == owner


@given(STATUSES)
def test_an_unknown_state_of_ours_is_the_one_that_stock_workers_read(status: TaskStatus) -> None:
    record = encode_status(status)
    value = json.loads(record.value or b"")
    for name, part in value.items():
        if isinstance(part, dict):
            value[name] = {**part, "state": FUTURE, "newer": [1]}
    read = decode_status(Record(record.key, json.dumps({**value, "newer": 1}).encode()))
    assert isinstance(read, TaskStatus)
    assert read.state == TaskState(value["state"])
    assert (read.task, read.worker, read.epoch) == (status.task, status.worker, status.epoch)


@given(STATUSES)
def test_a_task_in_a_state_that_nobody_knows_may_run(status: TaskStatus) -> None:
    record = encode_status(status)
    value = {
        name: part for name, part in json.loads(record.value or b"").items() if not isinstance(part, dict)
    }
    read = decode_status(Record(record.key, json.dumps({**value, "state": FUTURE}).encode()))
    assert isinstance(read, TaskStatus)
    assert read.state is TaskState.RUNNING


@given(METADATA)
def test_a_members_report_with_more_fields_is_the_same(metadata: Metadata) -> None:
    if metadata.agent is None:
        return
    data = encode_metadata(metadata, Protocol.SESSIONED)
    read = decode_metadata(with_more(data))
    assert read.agent == metadata.agent


def with_more(data: bytes) -> bytes:
    """The trailer with bytes at its end that a later release has appended to the payload."""
    at = trailer_at(data)
    header = at + 4 + 2
    length = int.from_bytes(data[header : header + 4], "big")
    end = header + 4 + length
    return (
        data[:header]
        + (length + 3).to_bytes(4, "big")
        + data[header + 4 : end]
        + b"\x01\x02\x03"
        + data[end:]
    )


def trailer_at(data: bytes) -> int:
    return data.rindex(_MAGIC)


@pytest.mark.parametrize("code", [3, 9, 127, -1])
def test_an_unknown_warmth_is_waited_for_by_nobody(code: int) -> None:
    report = AgentReport(Role.WORKER, "lake-0", "i")
    data = encode_metadata(Metadata("http://w:1/", 1, None, report), Protocol.SESSIONED)
    read = decode_metadata(data[:-3] + code.to_bytes(1, "big", signed=True) + data[-2:]).agent
    assert read == report._replace(warmth=Warmth.STALLED)


def test_an_unknown_role_gets_no_work() -> None:
    report = AgentReport(Role.WORKER, "lake-0", "i")
    data = encode_metadata(Metadata("http://w:1/", 1, None, report), Protocol.SESSIONED)
    at = trailer_at(data) + 10
    assert data[at] == 0
    read = decode_metadata(data[:at] + b"\x09" + data[at + 1 :]).agent
    assert read is not None
    assert read.role is Role.LEADER


@given(ASSIGNMENTS)
def test_an_assignment_with_more_behind_it_is_the_same(assignment: Any) -> None:
    data = encode_assignment(assignment, Protocol.SESSIONED)
    assert decode_assignment(data + b"\x00\x07newer") == decode_assignment(data)


def test_an_unknown_target_state_changes_nothing_and_counts() -> None:
    fold = ConfigFold()
    record = TargetStateRecord("a", TargetState.PAUSED)
    encoded = encode_config(record)
    unknown = Record(encoded.key, json.dumps({"state": FUTURE, "state.v2": FUTURE}).encode())
    assert isinstance(fold.apply(unknown, 4), Unknown)
    assert fold.snapshot().offset == 5
    assert decode_config(encoded) == record


def test_a_reason_that_nobody_knows_is_a_move() -> None:
    assert reason_of(FUTURE) is Why.BALANCE
    assert all(reason_of(each.value) is each for each in Why)


def test_every_enumeration_that_is_written_has_a_safe_value() -> None:
    written: set[type[StrEnum]] = set()
    open_kinds: list[Any] = [Memory, Policy, Owner, TaskStatus]
    seen: set[Any] = set()
    while open_kinds:
        kind = open_kinds.pop()
        if kind in seen:
            continue
        seen.add(kind)
        open_kinds += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            written.add(kind)
        if isinstance(kind, type) and is_dataclass(kind):
            hints = get_type_hints(kind)
            open_kinds += [hints[each.name] for each in fields(kind)]
    assert written == SAFE.keys()


def with_newer(value: Any) -> Any:
    """JSON with more fields in each object."""
    if isinstance(value, dict):
        return {
            **{name: with_newer(part) for name, part in value.items()},
            "newer": {"deep": [1]},
            "newest": 3,
        }
    return [with_newer(part) for part in value] if isinstance(value, list) else value


def test_a_layout_with_more_fields_is_the_same_and_is_not_rewritten(tmp_path: Path) -> None:
    fixed, units = {"path": "/out", "format": "json"}, ("a-0", "a-1")
    written = settle_layout(tmp_path, "lake", CheckpointOwner("g"), fixed, units)
    file = layout_file(tmp_path, "lake")
    assert isinstance(file, Path)
    later_text = json.dumps(with_newer(json.loads(file.read_text())))
    file.write_text(later_text)
    read = read_layout(tmp_path, "lake")
    assert read is not None
    assert (read.first, read.owner) == (written.first, written.owner)
    assert {**read.fixed, **fixed} == read.fixed
    settle_layout(tmp_path, "lake", CheckpointOwner("g"), fixed, ("a-0", "a-1", "a-2"))
    assert file.read_text() == later_text


@given(st.builds(Marker, st.text(), st.text(), st.integers(-1, 2**40), st.text(), st.text()))
def test_a_marker_with_more_fields_is_the_same(marker: Marker) -> None:
    assert Marker.decode(json.dumps(with_newer(json.loads(marker.encode()))).encode()) == marker


@pytest.mark.parametrize("spec", ["{}", "{runtime: connect}"])
def test_a_template_that_nobody_knows_makes_pods_all_the_same(spec: str) -> None:
    pin = Pin(99, "registry.example/cooperator:9.0", ("", ""))
    body = {"metadata": {"annotations": {PINNED: json.dumps(with_newer(json.loads(pin.text())))}}}
    ours = Defaults("registry.example/cooperator:1.0", "kafka:9092")
    found = pin_of(worker(spec), body, ours)
    assert found == pin, "the members that a later operator has made stay"
    assert image(worker(spec), found.defaults(ours))
    if "connect" not in spec:
        assert pod_manifest(worker(spec), found.defaults(ours), "lake-0", "r1")
    assert upgrade_available(worker(spec), found, ours).status is ConditionStatus.TRUE


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda part: st.lists(part, max_size=2) | st.dictionaries(st.text(max_size=5), part, max_size=2),
    max_leaves=4,
)
REPORT = (
    "rows_in",
    "rows_out",
    "rows_per_s",
    "lag",
    "units",
    "tasks",
    "waits",
    "note",
    "last_error",
    "newer",
)


@given(st.dictionaries(st.sampled_from(REPORT), ANYTHING), st.sampled_from(["RUNNING", "PAUSED", FUTURE]))
def test_a_report_of_progress_of_any_form_has_figures_or_none(report: dict[str, Any], state: str) -> None:
    task = {"state": state, "progress": json.dumps(report), "trace": "", "at_ms": 1, "name": "a-0"}
    figures = reported(task, 1)
    assert isinstance(figures.lag, int | None)
    assert isinstance(figures.rows_per_second, int | None)
    assert isinstance(task_words(task, 1), str)


def test_a_report_of_progress_with_more_fields_is_the_same() -> None:
    waits = [{"for": "waiting for Spark", "since_ms": 1}]
    report = {"rows_in": 9, "rows_per_s": 2.0, "lag": 3, "waits": waits, "units": {"a-0": {"batch": 1}}}
    task = {"state": "RUNNING", "trace": "", "at_ms": 1}
    plain, more = (
        reported({**task, "progress": json.dumps(each)}, 1) for each in (report, with_newer(report))
    )
    assert isinstance(more, Reported)
    assert replace(more, short="") == replace(plain, short="")


def test_a_stored_status_of_a_later_release_is_kept_as_far_as_it_is_known() -> None:
    now = {"members": [{"identity": "lake-0", "phase": "Pending", "incarnation": "i"}], "taskSummary": "?"}
    member = {"identity": "lake-0", "phase": FUTURE, "incarnation": "i", "tasks": 2}
    before = with_newer({"tasks": {"desired": 6}, "members": [member, {"name": "in place of identity"}]})
    assert kept_of_worker(now, before, 1)["members"][0]["phase"] == FUTURE
    assert kept_of_worker(now, {"tasks": 6}, 1) == now
    assert kept_of_connector({"state": "Unknown"}, {"tasks": [6]}) == {"state": "Unknown"}
    known = {"type": "Ready", "status": "True", "reason": "a", "lastTransitionTime": "t"}
    found = stored_conditions({"status": {"conditions": [with_newer(known), {**known, "status": FUTURE}]}})
    assert [each.type for each in found] == ["Ready"]


def test_files_of_a_later_local_host_are_read(tmp_path: Path) -> None:
    process = ProcessIncarnation(identity="lake-0", incarnation="i", revision="r", started_ms=1, past=("h",))
    (tmp_path / INCARNATION).write_text(json.dumps(with_newer(asdict(process))))
    assert read_incarnation(tmp_path) == process
    state = StateDir(tmp_path)
    state.cluster.write_text(json.dumps(with_newer({"id": "c", "bootstrap_servers": "b:1"})))
    assert read_cluster(state) == LocalCluster("c", "b:1")
