"""The logs while their broker, or a topic, is away."""

import time
from dataclasses import replace

import pytest

from cooperator.logs import (
    Logs,
    LogTimeout,
    LogUnavailable,
    WriterFenced,
)
from cooperator.model import (
    ClusterConfig,
    ConnectorConfig,
    Memory,
    TaskState,
)
from tests.harness.support import eventually
from tests.logs.fabrics import MS, RUNNING, LogsUnderTest, X, connector, leading, tasks


def test_an_outage_is_reported_and_survived(under_test: LogsUnderTest) -> None:
    logs = leading(under_test)
    logs.config.read_to(logs.writer.write_config([connector()]), MS)
    logs.status.put(RUNNING)
    logs.status.flush(MS)
    assert logs.status.read_to_end(MS) == {X: RUNNING}
    assert not any(under_test.outages)

    under_test.fabric.stop()
    try:
        eventually(lambda: under_test.outages and "cannot be reached" in under_test.outages[-1], 10)
        assert logs.config.snapshot().connectors["x"].config == {"version": "1"}
        started = time.monotonic()
        logs.status.put(replace(RUNNING, state=TaskState.FAILED))
        assert time.monotonic() - started < 5, "putting a status never blocks: a write may take 10 s"
        for blocked in (
            lambda: logs.leader.read_to_end(300),
            lambda: logs.writer.write_config([connector(2)]),
            lambda: logs.status.flush(300),
        ):
            with pytest.raises(LogUnavailable):
                blocked()
    finally:
        under_test.fabric.start()

    eventually(lambda: under_test.outages[-1] == "", 20, "the trouble is over")
    logs.status.flush(MS)
    assert logs.status.read_to_end(MS)[X].state is TaskState.FAILED
    offset = logs.writer.write_config([connector(3)])
    assert logs.config.read_to(offset, MS).connectors["x"].config == {"version": "3"}
    assert under_test.open().config.read_to_end(MS).connectors["x"].config == {"version": "3"}


def test_a_leader_that_was_away_in_an_outage_is_fenced_after_it(under_test: LogsUnderTest) -> None:
    old, new = leading(under_test), under_test.open()
    old.writer.write_leader(memory=Memory(term=1))
    under_test.fabric.stop()
    try:
        with pytest.raises(LogUnavailable):
            old.writer.write_leader(memory=Memory(term=99))
    finally:
        under_test.fabric.start()

    eventually(lambda: _opens(new), 30)
    new.writer.write_leader(memory=Memory(term=2))

    with pytest.raises(WriterFenced):
        old.writer.write_leader(memory=Memory(term=99))
    assert new.leader.read_to_end(MS).memory == Memory(term=2)


def _opens(logs: Logs) -> bool:
    try:
        logs.writer.open()
    except LogUnavailable:
        return False
    return True


def test_waiting_for_records_that_never_come_times_out(under_test: LogsUnderTest) -> None:
    logs = under_test.open()
    logs.config.read_to_end(MS)

    with pytest.raises(LogTimeout, match=r"-configs: only read up to \{0: \d\} in time, not to \{0: 7\}"):
        logs.config.read_to(7, 200)


def test_logs_wait_for_their_topics_to_be_created(no_topics: LogsUnderTest) -> None:
    logs, name = no_topics.open(), no_topics.config.group_id
    eventually(lambda: no_topics.outages and "does not exist" in no_topics.outages[-1], 10)
    logs.writer.open()
    for missing in (
        lambda: logs.leader.read_to_end(300),
        lambda: logs.writer.write_config([connector()]),
    ):
        with pytest.raises(LogUnavailable, match=rf"topic {name}-(leader|configs) does not exist"):
            missing()
    logs.status.put(RUNNING)
    with pytest.raises(LogTimeout):
        logs.status.flush(300)

    no_topics.ensure()
    no_topics.ensure()

    logs.status.flush(MS)
    assert logs.status.read_to_end(MS) == {X: RUNNING}
    offset = logs.writer.write_config([connector()])
    assert logs.config.read_to(offset, MS).offset == offset == 1
    eventually(lambda: no_topics.outages[-1] == "", 10)


def test_a_recreated_topic_is_read_anew_and_shown_when_it_is_complete(under_test: LogsUnderTest) -> None:
    logs, seen = leading(under_test), list[ClusterConfig]()
    logs.config.read_to(logs.writer.write_config([connector(), *tasks(3)]), MS)
    logs.config.on_change(seen.append)

    under_test.fabric.delete(under_test.config.topic_names.config)
    eventually(lambda: _creates(under_test), 20)

    def written() -> int:
        return logs.writer.write_config([connector(2)])

    offset = eventually(lambda: _or_none(written), 20)
    eventually(lambda: seen and seen[-1].offset == offset, 30)
    assert seen[-1].connectors == {"x": ConnectorConfig({"version": "2"})}
    assert all("x" in config.connectors or config.offset == -1 for config in seen)


def _creates(under_test: LogsUnderTest) -> bool:
    try:
        under_test.ensure()
    except LogUnavailable:
        return False
    return True


def _or_none(write: object) -> int | None:
    assert callable(write)
    try:
        result: int = write()
    except LogUnavailable:
        return None
    return result
