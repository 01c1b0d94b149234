"""The records of the leader log: owner, policy, memory."""

import json
import time
from dataclasses import replace

import pytest
from hypothesis import given

from cooperator.model import Hold, Memory, Policy, TaskId
from cooperator.wire import (
    DecodeError,
    EncodeError,
    Owner,
    Record,
    Unknown,
    decode_leader,
    encode_leader,
)
from cooperator.wire.taskset import MAX_TASKS
from wire.strategies import MEMORIES, OWNERS, POLICIES


@given(OWNERS)
def test_an_owner_comes_back(owner: Owner) -> None:
    assert decode_leader(encode_leader(owner)) == owner


@given(POLICIES)
def test_a_policy_comes_back(policy: Policy) -> None:
    assert decode_leader(encode_leader(policy)) == policy


@given(MEMORIES)
def test_a_memory_comes_back(memory: Memory) -> None:
    assert decode_leader(encode_leader(memory)) == memory


def test_the_keys_are_the_kinds() -> None:
    assert [encode_leader(value).key for value in (Owner("c", "n", "w"), Policy(), Memory())] == [
        "owner",
        "policy",
        "memory",
    ]


def test_a_tombstone_is_none_and_other_keys_are_unknown() -> None:
    assert decode_leader(Record("owner", None)) is None
    assert decode_leader(Record("shopping-list", b"{}")) == Unknown(
        "shopping-list", "no key of the leader log"
    )


def test_equal_memories_are_equal_bytes() -> None:
    def memory(identities: list[str]) -> Memory:
        return Memory(
            given={name: frozenset({TaskId("b", 1), TaskId("a", 0)}) for name in identities},
            incarnations=dict.fromkeys(identities, "1"),
            returns=dict.fromkeys(identities, (1, 2)),
        )

    assert encode_leader(memory(["x", "y"])) == encode_leader(memory(["y", "x"]))


@pytest.mark.parametrize("value", [Owner("c", "n", "w"), Policy(), Memory()])
def test_fields_of_a_newer_writer_are_passed_over(value: Owner | Policy | Memory) -> None:
    record = encode_leader(value)
    newer = {**json.loads(record.value or b""), "invented later": {"a": [1]}}

    assert decode_leader(Record(record.key, json.dumps(newer).encode())) == value


def test_fields_of_an_older_writer_have_defaults() -> None:
    assert decode_leader(Record("policy", b'{"v":1}')) == Policy()
    assert decode_leader(Record("memory", b'{"v":1}')) == Memory()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("memory", {"v": 2}, r"memory\.v: version 2 cannot be read, only 1: update this process"),
        ("memory", {}, r"memory\.v: missing"),
        ("memory", {"v": 1, "given": {"lake-0": [0, 0]}}, r"given\.lake-0: 2 numbers are not runs of three"),
        ("memory", {"v": 1, "given": {"lake-0": [0, 0, 1]}}, r"given\.lake-0: no run: 0, 0, 1"),
        ("memory", {"v": 1, "returns": {"lake-0": [1.5]}}, r"returns\.lake-0: every element must be int"),
        ("memory", {"v": 1, "holds": {"lake-0": {}}}, r"holds\.lake-0\.since_ms: missing"),
        ("policy", {"v": 1, "name": "Wild"}, r"policy\.name: 'Wild' is none of Default, Kip415, Eager"),
        ("policy", {"v": 1, "lease_ms": True}, r"policy\.lease_ms: bool instead of int"),
        ("policy", {"v": 1, "strict_spread": 1}, r"policy\.strict_spread: int instead of bool"),
        ("owner", {"v": 1, "cluster": "c", "namespace": "n"}, r"owner\.name: missing"),
    ],
)
def test_what_cannot_be_read_is_named(key: str, value: dict[str, object], message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_leader(Record(key, json.dumps(value).encode()))


def scattered(tasks: int, identities: int) -> Memory:
    """The worst for runs: no member has two neighbours."""
    given: dict[str, set[TaskId]] = {f"lake-{n}": set() for n in range(identities)}
    for n in range(tasks):
        connector = f"a connector with quite a long name, number {n % 400}"
        given[f"lake-{n * 7919 % identities}"].add(TaskId(connector, n // 400))
    return Memory(given={name: frozenset(tasks) for name, tasks in given.items()})


def test_a_full_group_fits_one_record_and_is_written_fast() -> None:
    """A record may have 1 MB (the broker's default); a leader writes it before each SyncGroup."""
    memory = scattered(40_000, 400)
    gone = frozenset().union(*memory.given.values())
    memory = replace(memory, holds={"lake-0": Hold(gone, 0, 1)})

    started = time.process_time()
    record = encode_leader(memory)
    encoded_s = time.process_time() - started

    assert len(record.value or b"") < 400_000
    assert encoded_s < 2
    assert decode_leader(record) == memory


def test_tasks_in_a_row_take_the_room_of_one() -> None:
    given = {"lake-0": frozenset(TaskId("a", n) for n in range(-1, 40_000))}

    assert len(encode_leader(Memory(given=given)).value or b"") < 200


def test_more_tasks_than_a_reader_takes_are_not_written() -> None:
    given = {"lake-0": frozenset(TaskId("a", n) for n in range(MAX_TASKS + 1))}

    with pytest.raises(EncodeError, match=f"memory: more than {MAX_TASKS} tasks in one record"):
        encode_leader(Memory(given=given))
