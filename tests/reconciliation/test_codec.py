"""Records of the leader log: written and read back, compact, damaged, and passed over by earlier releases."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.model import TaskId
from cooperator.reconciliation import (
    Fence,
    ReconciledGroup,
    ReconciledMember,
    Report,
    TargetAssignment,
    changes,
    decode_record,
    encode_records,
    fold,
    handle_report,
    join,
    retarget,
)
from cooperator.reconciliation.records import RecordKey, RecordKind
from cooperator.wire import DecodeError, EncodeError, Record, decode_leader
from cooperator.wire.records import Unknown
from tests.reconciliation.test_current import currents, tasks
from tests.reconciliation.test_histories import play

NAMES = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=12)
MEMBERS = st.builds(
    ReconciledMember,
    NAMES,
    st.text(min_size=1),
    st.integers(0, 2**40),
    currents(),
    st.none() | st.integers(0, 2**45),
)


def read_back(records):
    return dict(decode_record(record) for record in encode_records(records))


@given(MEMBERS, st.integers(0, 2**45), st.builds(TargetAssignment, st.integers(0, 2**40), tasks))
def test_records_are_read_as_they_were_written(member, until_ms, target):
    records = {
        RecordKey(RecordKind.MEMBER, member.identity): member,
        RecordKey(RecordKind.TARGET, member.identity): target,
        RecordKey(RecordKind.FENCE, member.identity, member.incarnation): Fence(member, until_ms),
        RecordKey(RecordKind.TARGET, "gone"): None,
    }
    assert read_back(records) == records


def test_a_group_is_what_its_log_says() -> None:
    simulation = play(seed=3)
    assert fold(map(read_back, simulation.log)) == fold(simulation.log)


def test_earlier_releases_pass_these_records_over() -> None:
    simulation = play(seed=3)
    written = [record for records in simulation.log for record in encode_records(records)]
    assert {record.key.partition("/")[0] for record in written} == {each.value for each in RecordKind}
    assert all(isinstance(decode_leader(record), Unknown) for record in written)
    assert decode_record(Record("memory", b"{}")) is None


def test_a_change_writes_what_it_changes() -> None:
    """One task more in a group of 40,000 tasks and 1,000 members: three records, less than 1 kB together."""
    identities = [f"worker-{number}" for number in range(1_000)]
    group = ReconciledGroup(term=1)
    for identity in identities:
        group = join(group, identity, f"{identity}#1", 0, 0)
    layout = {i: frozenset(TaskId(f"connector-{n}", t) for t in range(40)) for n, i in enumerate(identities)}
    group = retarget(group, layout)
    report = Report("worker-7", "worker-7#1", 1, 1, 0, frozenset())
    settled, _ = handle_report(group, report, 0, 0)

    more = retarget(settled, {**layout, "worker-7": layout["worker-7"] | {TaskId("new", 0)}})
    owned = frozenset(settled.members["worker-7"].current.assigned)
    given_it, _ = handle_report(more, Report("worker-7", "worker-7#1", 1, 2, 1, owned), 0, 0)

    written = encode_records(changes(settled, more)) + encode_records(changes(more, given_it))
    assert [record.key for record in written] == ["target/worker-7", "group", "member/worker-7"]
    assert sum(len(record.key) + len(record.value) for record in written) < 1_000


@given(MEMBERS, st.data())
def test_a_damaged_record_is_read_or_refused(member, data):
    [record] = encode_records({RecordKey(RecordKind.MEMBER, member.identity): member})
    value = bytearray(record.value)
    for _ in range(data.draw(st.integers(1, 3))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    with suppress(DecodeError):
        decode_record(Record(record.key, bytes(value)))


def test_newer_records_are_not_guessed() -> None:
    with pytest.raises(DecodeError, match=r"member/a\.v: version 2 cannot be read, only 1: update"):
        decode_record(Record("member/a", b'{"v":2}'))


def test_an_identity_with_a_slash_is_refused() -> None:
    with pytest.raises(EncodeError, match="identity 'a/b'"):
        encode_records({RecordKey(RecordKind.TARGET, "a/b"): TargetAssignment(1)})
