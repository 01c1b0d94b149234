"""The records of the leader log: owner, policy, memory."""

import json
import time
import zlib
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings

from cooperator.model import Hold, Kip415Memory, Memory, Policy, TaskId, Unstopped
from cooperator.wire import (
    DecodeError,
    EncodeError,
    Owner,
    Record,
    Unknown,
    decode_leader,
    encode_leader,
    taskset,
)
from tests.wire.strategies import HOLDS, KIP415, MEMORIES, OWNERS, POLICIES, UNSTOPPED


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


VALUES = [Owner("c", "n", "w"), Policy(), Memory(kip415=Kip415Memory())]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_fields_of_a_newer_writer_are_passed_over(value: Owner | Policy | Memory) -> None:
    record = encode_leader(value)
    newer = json.loads(record.value or b"")
    newer["invented later"] = newer["value"]["invented, too"] = {"a": [1]}

    assert decode_leader(Record(record.key, json.dumps(newer).encode())) == value


def test_fields_of_an_older_writer_have_defaults() -> None:
    assert decode_leader(Record("policy", b'{"v":1,"value":{}}')) == Policy()
    assert decode_leader(Record("memory", b'{"v":1,"value":{}}')) == Memory()


@pytest.mark.parametrize(
    "kind", [Owner, Policy, Memory, Hold, Unstopped, Kip415Memory], ids=lambda kind: kind.__name__
)
def test_the_strategies_of_these_tests_know_every_field(kind: type) -> None:
    """So that "comes back" above means all of it: a field that the model gains has to be added there."""
    strategy = {
        Owner: OWNERS,
        Policy: POLICIES,
        Memory: MEMORIES,
        Hold: HOLDS,
        Unstopped: UNSTOPPED,
        Kip415Memory: KIP415,
    }[kind]
    seen: dict[str, set[str]] = {each.name: set() for each in fields(kind)}

    @settings(max_examples=60, database=None, derandomize=True)
    @given(strategy)
    def look(value: object) -> None:
        for name in seen:
            seen[name].add(repr(getattr(value, name)))

    look()
    assert [name for name, values in seen.items() if len(values) < 2] == []


def test_the_bytes_do_not_change_from_release_to_release() -> None:
    a0, a1, b = TaskId("a", 0), TaskId("a", 1), TaskId("b", -1)
    memory = Memory(
        term=3,
        generation=7,
        given={"lake-1": frozenset({b}), "lake-0": frozenset({a0, a1})},
        holds={"lake-2": Hold(frozenset({b}), 1, 2)},
    )

    assert encode_leader(memory) == Record(
        "memory",
        b'{"v":1,"value":{"term":3,"generation":7,"given":{"lake-0":[0,0,2],"lake-1":[1,-1,1]},'
        b'"incarnations":{},"holds":{"lake-2":{"tasks":[1,-1,1],"since_ms":1,"deadline_ms":2,'
        b'"not_before_ms":0,"incarnation":"","reason":"Departed","cause":"","blanket":false}},'
        b'"returns":{},"former":{},"joins":{},"unstopped":[],"moving":{},"stock":false,"leaseless":[],"managed":[],'
        b'"orphans":[],"addresses":{},"warmups":[],"standbys":{},"departing":{}},'
        b'"connectors":["a","b"]}',
    )
    assert encode_leader(Owner("c", "n", "w")) == Record(
        "owner", b'{"v":1,"value":{"cluster":"c","namespace":"n","name":"w","uid":""}}'
    )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("memory", {"given": {"lake-0": [0, 0]}}, r"Memory\.given\.lake-0: 2 numbers are not runs of three"),
        ("memory", {"given": {"lake-0": [1, 0, 1]}}, r"Memory\.given\.lake-0: no run: 1, 0, 1"),
        ("memory", {"given": {"lake-0": [0, -2, 1]}}, r"Memory\.given\.lake-0: no run: 0, -2, 1"),
        ("memory", {"given": {"lake-0": [0, 0, 0]}}, r"Memory\.given\.lake-0: no run: 0, 0, 0"),
        ("memory", {"returns": {"lake-0": [1.5]}}, r"Memory\.returns\.lake-0: float instead of int"),
        ("memory", {"holds": {"lake-0": {"tasks": []}}}, r"Memory\.holds\.lake-0\.since_ms: missing"),
        ("memory", {"unstopped": {}}, r"Memory\.unstopped: dict instead of list"),
        ("memory", None, r"Memory: null instead of dict"),
        ("policy", {"name": 3}, r"Policy\.name: int instead of str"),
        ("policy", {"lease_ms": True}, r"Policy\.lease_ms: bool instead of int"),
        ("policy", {"strict_spread": 1}, r"Policy\.strict_spread: int instead of bool"),
        ("owner", {"cluster": "c", "namespace": "n"}, r"Owner\.name: missing"),
    ],
)
def test_unreadable_fields_are_named(key: str, value: object, message: str) -> None:
    with pytest.raises(DecodeError, match=f"^{message}$"):
        decode_leader(Record(key, json.dumps({"v": 1, "connectors": ["a"], "value": value}).encode()))


def test_a_newer_version_is_not_guessed_at() -> None:
    with pytest.raises(
        DecodeError, match=r"memory\.v: version 2 cannot be read, only 1: update this process"
    ):
        decode_leader(Record("memory", b'{"v":2}'))
    with pytest.raises(DecodeError, match=r"memory\.v: missing"):
        decode_leader(Record("memory", b"{}"))


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

    assert (record.value or b"").startswith(b"Z"), "compressed"
    assert len(record.value or b"") < 250_000
    assert encoded_s < 2
    assert decode_leader(record) == memory


@pytest.mark.parametrize(
    ("promised", "stream", "message"),
    [
        (12, zlib.compress(b'{"v":1,"value":{}}'), "does not hold the 12 bytes promised"),
        (19, zlib.compress(b'{"v":1,"value":{}}'), "does not hold the 19 bytes promised"),
        (18, zlib.compress(b'{"v":1,"value":{}}')[:-1], "does not hold the 18 bytes promised"),
        (18, b"no stream", "not a zlib stream"),
        (10_000_000, zlib.compress(b'{"v":1,"value":{}}'), "10000000 bytes cannot be in a stream of 26"),
        (-1, b"", "-1 bytes cannot be in a stream of 0"),
    ],
)
def test_a_compressed_value_is_what_it_promises(promised: int, stream: bytes, message: str) -> None:
    assert decode_leader(Record("memory", compressed(18, zlib.compress(b'{"v":1,"value":{}}')))) == Memory()

    with pytest.raises(DecodeError, match=f"memory: .*{message}"):
        decode_leader(Record("memory", compressed(promised, stream)))


def compressed(promised: int, stream: bytes) -> bytes:
    return b"Z" + promised.to_bytes(4, "big", signed=True) + stream


def test_tasks_in_a_row_take_the_room_of_one() -> None:
    def size(count: int) -> int:
        given = {"lake-0": frozenset(TaskId("a", n) for n in range(-1, count))}
        return len(encode_leader(Memory(given=given)).value or b"")

    assert size(40_000) - size(1) < 5, "no more than the digits of the count"


def test_more_tasks_than_a_reader_takes_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taskset, "MAX_TASKS", 1_000)

    def memory(tasks: int) -> Memory:
        given = [frozenset(TaskId("a", n) for n in range(tasks // 2 + odd)) for odd in (0, tasks % 2)]
        return Memory(given={f"lake-{n}": each for n, each in enumerate(given)})

    assert decode_leader(encode_leader(memory(1_000))) == memory(1_000)
    with pytest.raises(EncodeError, match="memory: more than 1000 tasks in one record"):
        encode_leader(memory(1_001))
