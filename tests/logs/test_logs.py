"""The contract of a group's logs, on Kafka and in memory."""

import threading
import time
from dataclasses import replace

import pytest

from cooperator.logs import (
    LeaderRecords,
    LogUnreadable,
    WriterFenced,
)
from cooperator.model import (
    ClusterConfig,
    ConnectorConfig,
    Hold,
    Memory,
    Policy,
    TaskId,
    TaskState,
    TaskStatus,
)
from cooperator.wire import (
    Record,
    RestartRecord,
    encode_config,
)
from tests.harness.support import eventually
from tests.logs.fabrics import MS, OWNER, RUNNING, LogsUnderTest, X, connector, leading, tasks

# --- the config log -------------------------------------------------------------------------------------


def test_every_member_reads_what_the_leader_writes(under_test: LogsUnderTest) -> None:
    leader, member = leading(under_test), under_test.open()

    offset = leader.writer.write_config([connector(), *tasks(2)])

    expected = ClusterConfig(offset, {"x": ConnectorConfig({"version": "1"}, tasks=({"n": "0"}, {"n": "1"}))})
    assert leader.config.read_to(offset, MS) == expected
    assert member.config.read_to_end(MS) == expected
    assert member.config.snapshot() == expected


def test_offsets_are_the_ones_that_connect_workers_report(under_test: LogsUnderTest) -> None:
    """They point after the last record and do not count the markers that end transactions."""
    logs = leading(under_test)

    first = logs.writer.write_config([connector(), *tasks(1)])
    second = logs.writer.write_config([connector(2)])

    assert (first, second) == (3, 5), "offset 3 is the first transaction's marker"
    assert logs.config.read_to_end(MS).offset == second


def test_an_empty_log_is_read_to_its_end(under_test: LogsUnderTest) -> None:
    assert under_test.open().config.read_to_end(MS) == ClusterConfig(offset=-1)
    assert under_test.open().leader.read_to_end(MS) == LeaderRecords()
    assert under_test.open().status.read_to_end(MS) == {}


def test_a_change_is_reported_with_the_state_after_it(under_test: LogsUnderTest) -> None:
    logs, seen = leading(under_test), list[ClusterConfig]()
    logs.config.read_to_end(MS)
    logs.config.on_change(seen.append)

    offset = logs.writer.write_config([connector()])
    logs.config.read_to(offset, MS)
    offset = logs.writer.write_config([connector(2)])

    assert logs.config.read_to(offset, MS).connectors["x"].config == {"version": "2"}
    assert [config.connectors["x"].config["version"] for config in seen] == ["1", "2"]
    assert seen[-1] is logs.config.snapshot()


def test_a_late_reader_gets_the_whole_history_at_once(under_test: LogsUnderTest) -> None:
    """Half of a history would look as if connectors had been deleted."""
    leader = leading(under_test)
    for version in range(1, 30):
        offset = leader.writer.write_config([connector(version)])
    seen: list[ClusterConfig] = []

    latecomer = under_test.open()
    latecomer.config.on_change(seen.append)

    assert latecomer.config.read_to(offset, MS).connectors["x"].config == {"version": "29"}
    assert [config.offset for config in seen] in ([offset], [])


def test_restarts_are_acted_on_when_they_are_new(under_test: LogsUnderTest) -> None:
    leader = leading(under_test)
    leader.writer.write_config([connector(), encode_config(RestartRecord("x", only_failed=True))])
    member, seen = under_test.open(), list[RestartRecord]()
    member.config.on_restart(seen.append)
    member.config.read_to_end(MS)
    assert seen == [], "the restart was requested before this member existed"

    leader.writer.write_config([encode_config(RestartRecord("x", include_tasks=True))])

    eventually(lambda: seen == [RestartRecord("x", include_tasks=True)])


def test_nothing_is_written_without_records(under_test: LogsUnderTest) -> None:
    with pytest.raises(ValueError, match="no records"):
        leading(under_test).writer.write_config([])


# --- callbacks ------------------------------------------------------------------------------------------


def test_a_callback_that_fails_does_not_affect_others(
    under_test: LogsUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    logs, seen = leading(under_test), list[ClusterConfig]()
    logs.config.read_to_end(MS)

    def fail(config: ClusterConfig) -> None:
        raise LookupError("a bug of somebody else")

    logs.config.on_change(fail)
    logs.config.on_change(seen.append)
    for version in (1, 2):
        logs.config.read_to(logs.writer.write_config([connector(version)]), MS)

    assert len(seen) == 2
    assert "a bug of somebody else" in caplog.text


def test_a_callback_that_waits_for_its_own_reader_is_refused(under_test: LogsUnderTest) -> None:
    logs, refused = leading(under_test), list[Exception]()

    def wait(config: ClusterConfig) -> None:
        try:
            logs.config.read_to(config.offset + 1, MS)
        except RuntimeError as error:
            refused.append(error)

    logs.config.on_change(wait)
    logs.writer.write_config([connector()])

    eventually(lambda: refused)
    assert "a callback of its reader cannot wait for the reader" in str(refused[0])


# --- leading --------------------------------------------------------------------------------------------


def test_the_next_leader_has_the_memory_of_the_last_one(under_test: LogsUnderTest) -> None:
    leader, member = leading(under_test), under_test.open()
    memory = Memory(
        term=3,
        generation=7,
        given={"lake-0": frozenset({X})},
        holds={"lake-1": Hold(frozenset({TaskId("x", 1)}), 1, 2)},
    )

    leader.writer.write_leader(owner=OWNER, policy=Policy(lease_ms=1), memory=Memory(term=2))
    leader.writer.write_leader(memory=memory)

    assert member.leader.read_to_end(MS) == LeaderRecords(OWNER, Policy(lease_ms=1), memory)
    assert under_test.open().leader.read_to_end(MS) == LeaderRecords(OWNER, Policy(lease_ms=1), memory)


def test_records_with_other_keys_are_written_with_the_memory_and_read(under_test: LogsUnderTest) -> None:
    leader, member = leading(under_test), under_test.open()
    group = Record("group", b'{"v":1}')

    leader.writer.write_leader(memory=Memory(term=2), others=[group, Record("member/a", b"{}")])
    leader.writer.write_leader(others=[Record("member/a", None)])

    found = member.leader.read_to_end(MS)
    assert found.memory == Memory(term=2)
    assert [record for record in found.others if record.value is not None] == [group]


def test_the_policy_is_known_as_far_as_the_log_has_been_read(under_test: LogsUnderTest) -> None:
    leader, member = leading(under_test), under_test.open()
    assert member.leader.policy() is None

    leader.writer.write_leader(policy=Policy(reconciles=True))
    member.leader.read_to_end(MS)

    assert member.leader.policy() == Policy(reconciles=True)


def test_a_warm_leader_log_is_read_to_its_end_in_no_time(under_test: LogsUnderTest) -> None:
    leader, member = leading(under_test), under_test.open()
    leader.writer.write_leader(memory=Memory(term=1))
    member.leader.read_to_end(MS)

    took_s = []
    for _ in range(5):
        started = time.monotonic()
        member.leader.read_to_end(MS)
        took_s.append(time.monotonic() - started)

    # Each one would wait for an interval of the reader; a busy machine delays some of them.
    assert min(took_s) < 1


def test_a_new_leader_fences_the_old_one(under_test: LogsUnderTest) -> None:
    old = leading(under_test)
    old.writer.write_leader(memory=Memory(term=1))

    new = leading(under_test)

    with pytest.raises(WriterFenced, match=f"writer {under_test.config.group_id}-leader"):
        old.writer.write_leader(memory=Memory(term=99))
    with pytest.raises(WriterFenced):
        old.writer.write_config([connector(99)])
    new.writer.write_leader(memory=Memory(term=2))
    assert new.leader.read_to_end(MS).memory == Memory(term=2)
    assert new.config.read_to_end(MS).connectors == {}


def test_a_fenced_writer_leads_again_in_a_new_tenure(under_test: LogsUnderTest) -> None:
    first, second = leading(under_test), leading(under_test)
    with pytest.raises(WriterFenced):
        first.writer.write_leader(memory=Memory(term=1))

    first.writer.close()
    first.writer.open()

    first.writer.write_leader(memory=Memory(term=3))
    with pytest.raises(WriterFenced):
        second.writer.write_leader(memory=Memory(term=2))
    assert second.leader.read_to_end(MS).memory == Memory(term=3)


def test_a_writer_writes_in_its_tenure_only(under_test: LogsUnderTest) -> None:
    logs = under_test.open()

    with pytest.raises(WriterFenced, match="is not open: open it when the lead is taken"):
        logs.writer.write_leader(memory=Memory())
    logs.writer.open()
    logs.writer.close()
    logs.writer.close()
    with pytest.raises(WriterFenced):
        logs.writer.write_config([connector()])


def test_a_memory_of_a_newer_release_is_refused(under_test: LogsUnderTest) -> None:
    leading(under_test).writer.close()
    transactor = under_test.transport().transactor("somebody else", 10_000)
    transactor.open()
    transactor.write(under_test.config.topic_names.leader, [Record("memory", b'{"v":2}')])
    transactor.close()

    with pytest.raises(LogUnreadable, match=r"-leader: memory\.v: version 2 cannot be read"):
        under_test.open().leader.read_to_end(MS)


# --- statuses -------------------------------------------------------------------------------------------


def test_a_status_arrives_everywhere(under_test: LogsUnderTest) -> None:
    member, other, seen = under_test.open(), under_test.open(), list[TaskStatus]()
    other.status.on_change(seen.append)

    member.status.put(RUNNING)
    member.status.flush(MS)

    assert other.status.read_to_end(MS) == {X: RUNNING}
    assert member.status.read_to_end(MS) == {X: RUNNING}
    eventually(lambda: seen == [RUNNING])


def test_the_last_status_put_is_the_one_that_stays(under_test: LogsUnderTest) -> None:
    member, seen = under_test.open(), list[TaskStatus]()
    member.status.on_change(seen.append)
    puts = [replace(RUNNING, task=TaskId("x", n % 7), progress=f"{n} rows", at_ms=n) for n in range(1, 2_000)]

    for status in puts:
        member.status.put(status)
    member.status.flush(MS)

    assert member.status.read_to_end(MS) == {status.task: status for status in puts}
    assert eventually(lambda: len(seen) == len(puts) and seen) == puts, "every status arrives, in order"


def test_a_tombstone_ends_a_status(under_test: LogsUnderTest) -> None:
    logs = under_test.open()
    logs.status.put(RUNNING)
    logs.status.flush(MS)
    assert logs.status.read_to_end(MS) == {X: RUNNING}

    logs.status.tombstone(X)
    logs.status.flush(MS)

    assert logs.status.read_to_end(MS) == {}


def test_a_trace_that_fits_no_record_is_cut_in_its_middle(under_test: LogsUnderTest) -> None:
    logs = under_test.open()
    logs.status.put(replace(RUNNING, state=TaskState.FAILED, trace="first\n" + "é" * 3_000_000 + "\nlast"))
    logs.status.flush(MS)

    trace = logs.status.read_to_end(MS)[X].trace

    assert len(trace) < 40_000
    assert trace.startswith("first\n")
    assert trace.endswith("\nlast")
    assert "the middle of 3,000,011 characters" in trace


# --- closing -------------------------------------------------------------------------------------------


def test_no_callback_runs_after_closing(under_test: LogsUnderTest) -> None:
    logs, leader, seen = under_test.open(), leading(under_test), list[ClusterConfig]()
    logs.config.read_to_end(MS)
    logs.config.on_change(seen.append)
    before = threading.active_count()

    logs.close()
    leader.config.read_to(leader.writer.write_config([connector()]), MS)

    assert seen == []
    eventually(lambda: threading.active_count() < before, what="the threads of its callbacks have ended")
