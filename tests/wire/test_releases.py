"""Bytes that an earlier release wrote, which every later one must read: members and leaders are upgraded one
after the other. A line of the file is never changed; a release that writes otherwise adds lines."""

import json
from pathlib import Path
from typing import Any

import pytest

from cooperator.model import INSTANCE, Epoch, TaskId, TaskState, TaskStatus, Warmth
from cooperator.wire import (
    ALL_PROTOCOLS,
    AgentAssignment,
    AgentReport,
    ExtendedAssignment,
    Metadata,
    Protocol,
    Record,
    Role,
    decode_assignment,
    decode_metadata,
    decode_status,
    encode_assignment,
    encode_metadata,
    encode_status,
)

HERE = Path(__file__).parent / "vectors"
GOLDEN: dict[str, str] = json.loads((HERE / "release-1.json").read_text("utf-8"))

RUNS = (TaskId("a", INSTANCE), TaskId("a", 0), TaskId("orders", 3))
REPORT = AgentReport(
    role=Role.WORKER,
    identity="lake-1",
    incarnation="uid.1700000000000",
    stopping=frozenset({TaskId("orders", 3)}),
    draining=True,
    applied=Epoch(7, 42),
    capacity=2.5,
    zone="west",
    nonce=9,
)
SHARE = AgentAssignment(Epoch(7, 43), 40_000)
ASSIGNMENT = ExtendedAssignment(0, "lake-leader", "http://leader/", 17, RUNS, (TaskId("b", 1),), agent=SHARE)
METADATA = Metadata(
    "http://10.0.0.7:8084/",
    17,
    ExtendedAssignment(0, "lake-leader", "http://leader/", 17, RUNS),
    REPORT,
)
STATUS = TaskStatus(
    task=TaskId("orders", 3),
    state=TaskState.STARTING,
    worker="lake-1",
    epoch=Epoch(7, 42),
    at_ms=1_700_000_000_000,
    trace="Boom",
    progress='{"rows": 5}',
    reason="RestartLimit",
    next_attempt_ms=1_700_000_060_000,
)


def written() -> dict[str, str]:
    """Returns what the present release writes."""
    now: dict[str, str] = {}
    for protocol in ALL_PROTOCOLS:
        now[f"metadata {protocol.value}"] = encode_metadata(METADATA, protocol).hex()
        now[f"assignment {protocol.value}"] = encode_assignment(ASSIGNMENT, protocol).hex()
    record = encode_status(STATUS)
    assert record.value is not None
    now[f"status {record.key}"] = record.value.hex()
    return now


@pytest.mark.parametrize("name", GOLDEN)
def test_records_of_the_first_release_are_read(name: str) -> None:
    kind, _, of = name.partition(" ")
    data = bytes.fromhex(GOLDEN[name])
    if kind == "status":
        assert decode_status(Record(of, data)) == STATUS
        return
    eager = Protocol(of) is Protocol.DEFAULT
    if kind == "metadata":
        read = decode_metadata(data)
        assert read.agent == REPORT
        assert read.url == METADATA.url
        assert (read.allocation is None) if eager else (read.allocation == METADATA.allocation)
    else:
        assigned = decode_assignment(data)
        assert assigned.agent == SHARE
        assert sorted(assigned.assigned) == sorted(RUNS)
        assert assigned.revoked == (() if eager else ASSIGNMENT.revoked)


def test_the_first_release_can_read_what_this_one_writes() -> None:
    """It knows these bytes, and more of them behind: appended fields are all that may be new.

    But for the eager protocol's: stock workers died of a trailer where they look for v1's fields.
    """
    for name, data in written().items():
        if name.endswith(Protocol.DEFAULT.value):
            continue
        if name.startswith("status"):
            first, now = (json.loads(bytes.fromhex(each)) for each in (GOLDEN[name], data))
            assert _without(now, first) == first
        else:
            assert _same_but_longer(bytes.fromhex(data), bytes.fromhex(GOLDEN[name])), name


def test_stock_workers_read_the_eager_protocols_messages_as_the_next_version_and_find_nothing() -> None:
    as_v1 = b"\x00\x01"
    metadata = decode_metadata(as_v1 + encode_metadata(METADATA, Protocol.DEFAULT)[2:])
    assert (metadata.url, metadata.allocation) == (METADATA.url, None)
    assignment = encode_assignment(ASSIGNMENT, Protocol.DEFAULT)
    assigned = decode_assignment(as_v1 + assignment[2:])
    assert (assigned.revoked, assigned.delay_ms, assigned.agent) == ((), 0, SHARE)


def test_fields_that_the_next_release_adds_are_passed_over() -> None:
    for protocol in ALL_PROTOCOLS:
        report = _with_a_longer_trailer(encode_metadata(METADATA, protocol), b"CoRe")
        assert decode_metadata(report).agent == REPORT
        assignment = _with_a_longer_trailer(encode_assignment(ASSIGNMENT, protocol), b"CoSh")
        assert decode_assignment(assignment).agent == SHARE
    record = encode_status(STATUS)
    value = json.loads(record.value or b"")
    value["invented"] = value["cooperator"]["invented"] = {"later": [1]}
    assert decode_status(Record(record.key, json.dumps(value).encode())) == STATUS


def _with_a_longer_trailer(data: bytes, magic: bytes) -> bytes:
    at = data.rindex(magic) + 6
    length = int.from_bytes(data[at : at + 4], "big")
    return data[:at] + (length + 3).to_bytes(4, "big") + data[at + 4 :] + b"new"


def _same_but_longer(now: bytes, first: bytes) -> bool:
    """Up to the trailer the same; the trailer of the same version, and what it said first in front."""
    magic = b"CoRe" if b"CoRe" in first else b"CoSh"
    now_at, first_at = now.rindex(magic), first.rindex(magic)
    head = now[: now_at + 6] == first[: first_at + 6]
    return head and now[now_at + 10 :].startswith(first[first_at + 10 :])


def _without(now: Any, first: Any) -> Any:
    """``now`` without the fields that ``first`` does not have."""
    if isinstance(now, dict) and isinstance(first, dict):
        return {name: _without(value, first[name]) for name, value in now.items() if name in first}
    return now


def test_a_member_without_warmth_counts_as_warm_and_learns_nothing() -> None:
    """A member of the first release, which had no such words."""
    for protocol in ALL_PROTOCOLS:
        read = decode_metadata(bytes.fromhex(GOLDEN[f"metadata {protocol.value}"])).agent
        assert read is not None
        assert read.warmth is Warmth.WARM
        assert not read.learns
