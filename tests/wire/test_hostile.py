"""Any bytes: a value, or one DecodeError; never another exception, and never memory beyond their size."""

import contextlib
import json
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cooperator.model import Memory
from cooperator.wire import (
    ALL_PROTOCOLS,
    ConfigFold,
    DecodeError,
    ExtendedAssignment,
    Metadata,
    Protocol,
    Record,
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
    taskset,
)
from tests.wire.strategies import (
    ASSIGNMENTS,
    CONFIG_RECORDS,
    MEMORIES,
    METADATA,
    NAMES,
    STATUSES,
)

KEYS = st.one_of(
    st.sampled_from(
        [
            "connector-a",
            "task-a-0",
            "task-a",
            "commit-a",
            "target-state-a",
            "session-key",
            "restart-connector-a",
            "tasks-fencing-a",
            "logger-cluster-a",
            "status-task-a-0",
            "status-connector-a",
            "status-topic-t:connector-a",
            "owner",
            "policy",
            "memory",
        ]
    ),
    NAMES,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "properties",
                    "tasks",
                    "task-count",
                    "state",
                    "state.v2",
                    "key",
                    "algorithm",
                    "creation-timestamp",
                    "level",
                    "v",
                    "given",
                    "holds",
                    "returns",
                    "connectors",
                    "kip415",
                    "term",
                    "name",
                    "cooperator",
                    "worker_id",
                    "generation",
                    "trace",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)
VALUES = st.one_of(st.none(), st.binary(max_size=60), JSON.map(lambda value: json.dumps(value).encode()))


def refuses_or_reads(decode: Callable[[Any], object], data: Any) -> None:
    with contextlib.suppress(DecodeError):
        decode(data)


@given(st.binary(max_size=200))
@example(b"")
def test_any_bytes_are_metadata_or_a_decode_error(data: bytes) -> None:
    refuses_or_reads(decode_metadata, data)
    refuses_or_reads(decode_assignment, data)


@st.composite
def damaged(draw: st.DrawFn, messages: st.SearchStrategy[bytes]) -> bytes:
    """A good message with some bytes overwritten, cut or added."""
    data = bytearray(draw(messages))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        kind = draw(st.sampled_from(["overwrite", "cut", "insert"]))
        piece = draw(st.binary(max_size=4) | st.sampled_from([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"]))
        if kind == "overwrite":
            data[at : at + len(piece)] = piece
        elif kind == "cut":
            del data[at : at + len(piece)]
        else:
            data[at:at] = piece
    return bytes(data)


PROTOCOLS = st.sampled_from(Protocol)


@given(damaged(st.builds(encode_metadata, METADATA, PROTOCOLS)))
def test_damaged_metadata_is_read_or_refused(data: bytes) -> None:
    refuses_or_reads(decode_metadata, data)


@given(damaged(st.builds(encode_assignment, ASSIGNMENTS, st.sampled_from(ALL_PROTOCOLS))))
def test_a_damaged_assignment_is_read_or_refused(data: bytes) -> None:
    refuses_or_reads(decode_assignment, data)


@given(KEYS, VALUES)
@example("connector-a", b'{"properties":{"a":' + b"[" * 200_000)
@example("connector-a", b'{"properties":{"a":"\\ud800"}}')
@example("connector-\ud800", b"{}")
@example("commit-a", b'{"tasks":' + b"9" * 5000 + b"}")
@example("commit-a", b'{"tasks":NaN}')
@example("memory", b"Z")
@example("memory", b"Z\xff\xff\xff\xff")
@example("memory", b"Z\x00\x00\x00\x05" + zlib.compress(b"a longer text"))
@example("memory", b"Z\x00\x00\x00\x05" + zlib.compress(b"a longer text")[:-3])
def test_any_record_is_read_or_refused(key: str, value: bytes | None) -> None:
    for decode in (decode_config, decode_status, decode_leader):
        refuses_or_reads(decode, Record(key, value))
    ConfigFold().apply(Record(key, value), 0)


@given(CONFIG_RECORDS, st.data())
def test_a_damaged_config_record_is_read_or_refused(record: Any, data: st.DataObject) -> None:
    good = encode_config(record)
    value = data.draw(damaged(st.just(good.value or b"")))
    refuses_or_reads(decode_config, Record(good.key, value))


@given(STATUSES, MEMORIES, st.data())
def test_damaged_status_and_memory_are_read_or_refused(status: Any, memory: Any, data: st.DataObject) -> None:
    for good, decode in ((encode_status(status), decode_status), (encode_leader(memory), decode_leader)):
        value = data.draw(damaged(st.just(good.value or b"")))
        refuses_or_reads(decode, Record(good.key, value))


def peak_bytes(decode: Callable[[Any], object], data: Any) -> int:
    """The most memory that one refusal takes."""
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decode(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


BIG = struct.pack(">i", 2**31 - 1)
HEAD = encode_assignment(ExtendedAssignment(0, "m", "u", 1), Protocol.SESSIONED)[:-12]


@pytest.mark.parametrize(
    "data",
    [
        HEAD + BIG,
        HEAD + struct.pack(">ih", 1, 1) + b"a" + BIG,
        HEAD + struct.pack(">ihi", 1, 0, 2**29) + b"\x00" * 64,
        HEAD + struct.pack(">i", 10_000) + b"\x00" * 1000,
    ],
    ids=["connectors", "tasks", "tasks-that-overflow-32-bits", "more-than-the-bytes-hold"],
)
def test_a_lying_count_takes_no_memory(data: bytes) -> None:
    assert peak_bytes(decode_assignment, data) < 20_000


def test_lying_lengths_in_metadata_take_no_memory() -> None:
    stock = encode_metadata(Metadata("u", 1), Protocol.SESSIONED)[:-4]
    trailer = b"CoRe" + struct.pack(">hi", 1, 2**31 - 1)

    assert peak_bytes(decode_metadata, stock + BIG) < 20_000
    assert peak_bytes(decode_metadata, stock + b"\xff\xff\xff\xff" + trailer) < 20_000


def test_the_memory_of_a_value_is_proportional_to_its_bytes() -> None:
    data = HEAD + struct.pack(">ih", 1, 0) + struct.pack(">10000i", 9999, *range(9999)) + b"\x00" * 8
    tracemalloc.start()
    decode_assignment(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    # A task takes 4 bytes on the wire, and a tuple, a number and two list slots here.
    assert peak < 40 * len(data)


def test_a_compressed_bomb_is_refused_before_it_inflates() -> None:
    bomb = zlib.compress(b"0" * 100_000_000, 9)
    tracemalloc.start()
    try:
        for promised in (2**31 - 1, 100_000_000, 1000):
            with pytest.raises(DecodeError, match="memory: "):
                decode_leader(Record("memory", b"Z" + struct.pack(">i", promised) + bomb))
        assert tracemalloc.get_traced_memory()[1] < 5 * len(bomb)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "runs",
    [[0, 0, 10**12], [0, 0, 1_001], [0, 0, 1_000, 0, 2_000, 1]],
    ids=["huge", "one-too-many", "one-too-many-in-two-runs"],
)
def test_runs_of_tasks_expand_to_a_bound(runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taskset, "MAX_TASKS", 1_000)
    value = json.dumps({"v": 1, "connectors": ["a"], "value": {"given": {"lake-0": runs}}}).encode()

    with pytest.raises(DecodeError, match="more than 1000 tasks in one record"):
        decode_leader(Record("memory", value))


def test_a_whole_group_fits_the_bound_many_times() -> None:
    assert taskset.MAX_TASKS >= 10 * 40_000
    assert isinstance(decode_leader(encode_leader(Memory())), Memory)
