"""Interpretation of the config log by Kafka's rules for commits, deletions, target states and compaction."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.model import ClusterConfig, ConnectorConfig, SessionKey, TargetState, TaskId
from cooperator.wire import (
    CommitRecord,
    ConfigFold,
    ConfigRecord,
    ConnectorRecord,
    LoggerRecord,
    Record,
    RestartRecord,
    SessionKeyRecord,
    TargetStateRecord,
    TaskRecord,
    Unknown,
    encode_config,
)


def connector(name: str = "x", version: int = 1) -> ConnectorRecord:
    return ConnectorRecord(name, {"version": str(version)})


def task(number: int, version: int = 1, name: str = "x") -> TaskRecord:
    return TaskRecord(TaskId(name, number), {"task": f"{number}.{version}"})


def configs(*texts: str) -> tuple[dict[str, str], ...]:
    return tuple({"task": text} for text in texts)


def read(*records: ConfigRecord) -> ClusterConfig:
    fold = ConfigFold()
    for offset, record in enumerate(records):
        assert fold.apply(encode_config(record), offset) == record
    return fold.snapshot()


def tasks_of(config: ClusterConfig, name: str = "x") -> tuple[object, bool]:
    return config.connectors[name].tasks, config.connectors[name].inconsistent


def test_an_unread_log_is_empty_at_offset_minus_one() -> None:
    assert ConfigFold().snapshot() == ClusterConfig(offset=-1)


def test_task_configurations_wait_for_their_commit() -> None:
    written = [connector(), task(0), task(1)]

    assert tasks_of(read(*written)) == ((), False)
    assert tasks_of(read(*written, CommitRecord("x", 2))) == (configs("0.1", "1.1"), False)
    rewritten = [*written, CommitRecord("x", 2), task(0, 2), task(1, 2)]
    assert tasks_of(read(*rewritten)) == (configs("0.1", "1.1"), False)
    assert tasks_of(read(*rewritten, CommitRecord("x", 2))) == (configs("0.2", "1.2"), False)


def test_a_commit_names_how_many_tasks_there_are() -> None:
    grown = [connector(), task(0), task(1), CommitRecord("x", 2)]

    shrunk = read(*grown, task(0, 2), CommitRecord("x", 1))
    none = read(*grown, CommitRecord("x", 0))

    assert tasks_of(shrunk) == (configs("0.2"), False)
    assert tasks_of(none) == ((), False)
    assert shrunk.task_counts() == {"x": 1}


def test_an_incomplete_commit_makes_the_connector_inconsistent_until_a_complete_one() -> None:
    broken = [connector(), task(1), CommitRecord("x", 2)]

    assert tasks_of(read(*broken)) == ((), True)
    assert read(*broken).task_counts() == {"x": 0}, "it is still scheduled, without tasks"
    # The next commit does not use the contents of the incomplete one.
    assert tasks_of(read(*broken, task(0, 2), CommitRecord("x", 2))) == ((), True)
    repaired = [*broken, task(0, 2), task(1, 2), CommitRecord("x", 2)]
    assert tasks_of(read(*repaired)) == (configs("0.2", "1.2"), False)


def test_an_incomplete_commit_takes_back_what_was_committed_before() -> None:
    config = read(connector(), task(0), task(1), CommitRecord("x", 2), task(0, 2), CommitRecord("x", 2))

    assert tasks_of(config) == ((), True)


def test_more_tasks_than_the_commit_names_are_complete() -> None:
    assert tasks_of(read(connector(), task(1), task(0, 2), CommitRecord("x", 1))) == (configs("0.2"), False)


def test_a_huge_commit_count_is_only_compared() -> None:
    assert tasks_of(read(connector(), task(0), CommitRecord("x", 2**31 - 1))) == ((), True)


def test_a_commit_of_an_unknown_connector_is_forgotten_with_its_tasks() -> None:
    orphan = [task(0), CommitRecord("x", 1)]

    assert read(*orphan).connectors == {}
    assert tasks_of(read(*orphan, connector())) == ((), False)
    assert tasks_of(read(*orphan, connector(), CommitRecord("x", 1))) == ((), True)


def test_a_deletion_takes_the_tasks_with_it() -> None:
    deleted = [connector(), task(0), CommitRecord("x", 1), task(0, 2), ConnectorRecord("x", None)]

    assert read(*deleted).connectors == {}
    assert tasks_of(read(*deleted, connector(version=2))) == ((), False)


def test_a_new_configuration_keeps_the_committed_tasks() -> None:
    config = read(connector(), task(0), CommitRecord("x", 1), connector(version=2))

    assert config.connectors["x"].config == {"version": "2"}
    assert tasks_of(config) == (configs("0.1"), False)


def test_target_states() -> None:
    paused = TargetStateRecord("x", TargetState.PAUSED)

    def target(*records: ConfigRecord) -> TargetState:
        return read(*records).connectors["x"].target

    assert target(connector()) is TargetState.STARTED
    assert target(connector(), paused) is TargetState.PAUSED
    assert target(paused, connector()) is TargetState.PAUSED, "written before the connector is created"
    assert target(connector(), paused, connector(version=2)) is TargetState.PAUSED
    assert target(connector(), paused, TargetStateRecord("x", None)) is TargetState.STARTED
    assert read(paused).connectors == {}
    assert target(connector(), paused, ConnectorRecord("x", None), connector()) is TargetState.PAUSED


def test_a_stopped_connector_keeps_its_tasks_out_of_the_schedule() -> None:
    stopped = TargetStateRecord("x", TargetState.STOPPED)

    config = read(connector(), task(0), CommitRecord("x", 1), stopped)

    assert config.task_counts() == {"x": 0}


def test_the_newest_session_key_counts() -> None:
    keys = [SessionKey(bytes([n]) * 32, "HmacSHA256", n) for n in (1, 2)]

    assert read(*(SessionKeyRecord(key) for key in keys)).session_key == keys[1]


def test_offsets_count_records_and_skip_what_is_no_json() -> None:
    fold = ConfigFold()

    def offset_after(record: Record, at: int) -> int:
        fold.apply(record, at)
        return fold.snapshot().offset

    assert offset_after(encode_config(connector()), 4) == 5
    assert offset_after(Record("connector-y", b"not JSON"), 6) == 5, "Connect does not count it either"
    assert offset_after(Record("nonsense", b"{}"), 7) == 8
    assert offset_after(Record("connector-x", b"[]"), 9) == 10
    assert fold.snapshot().connectors == {"x": ConnectorConfig({"version": "1"})}


def test_events_are_returned_and_change_nothing_but_the_offset() -> None:
    fold = ConfigFold()
    fold.apply(encode_config(connector()), 0)
    before = fold.snapshot()

    for event in (RestartRecord("x"), LoggerRecord("root", "DEBUG")):
        assert fold.apply(encode_config(event), 1) == event

    assert fold.snapshot() == ClusterConfig(2, before.connectors)
    assert isinstance(fold.apply(Record("task-x", b"{}"), 2), Unknown)


def test_a_snapshot_does_not_change_any_more() -> None:
    fold = ConfigFold()
    fold.apply(encode_config(connector()), 0)
    snapshot = fold.snapshot()

    assert fold.snapshot() is snapshot
    fold.apply(encode_config(ConnectorRecord("x", None)), 1)

    assert list(snapshot.connectors) == ["x"]
    assert fold.snapshot().connectors == {}


@dataclass
class Writer:
    """Writes a log as a leader does: whole changes only."""

    log: list[ConfigRecord] = field(default_factory=list)
    version: int = 0

    def configure(self, name: str, tasks: int) -> None:
        self.version += 1
        self.log.append(connector(name, self.version))
        self.commit(name, tasks)

    def commit(self, name: str, tasks: int) -> None:
        self.version += 1
        self.log += [task(number, self.version, name) for number in range(tasks)]
        self.log.append(CommitRecord(name, tasks))

    def delete(self, name: str) -> None:
        self.log += [ConnectorRecord(name, None), TargetStateRecord(name, None)]

    def target(self, name: str, state: TargetState) -> None:
        self.log.append(TargetStateRecord(name, state))


NAMES = st.sampled_from(["a", "b"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("configure"), NAMES, st.integers(0, 3)),
        st.tuples(st.just("delete"), NAMES, st.none()),
        st.tuples(st.just("target"), NAMES, st.sampled_from(TargetState)),
    ),
    max_size=8,
)


@given(STEPS, st.data())
def test_compaction_of_whole_changes_loses_nothing(
    steps: list[tuple[str, str, int | TargetState | None]], data: st.DataObject
) -> None:
    """The cleaner removes what a later record of the same key supersedes, up to any point."""
    writer = Writer()
    for step, name, argument in steps:
        getattr(writer, step)(*([name] if argument is None else [name, argument]))
    log = list(enumerate(map(encode_config, writer.log)))
    cleaned_up_to = data.draw(st.integers(0, len(log)))
    newest = {record.key: offset for offset, record in log}
    whole, compacted = ConfigFold(), ConfigFold()

    for offset, record in log:
        whole.apply(record, offset)
        if offset >= cleaned_up_to or newest[record.key] == offset:
            compacted.apply(record, offset)

    assert compacted.snapshot() == whole.snapshot()


def test_a_configuration_written_without_its_tasks_loses_them_in_a_compaction() -> None:
    """Returns why a writer puts the tasks and their commit behind every connector record."""
    after_compaction = [task(0), CommitRecord("x", 1), connector(version=2)]

    assert tasks_of(read(connector(), *after_compaction)) == (configs("0.1"), False)
    assert tasks_of(read(*after_compaction)) == ((), False)


@pytest.mark.parametrize("state", TargetState)
def test_deletion_after_its_tombstones_are_gone(state: TargetState) -> None:
    """Connect writes no tombstones for tasks and commits: they stay in the log for good."""
    assert read(task(0), CommitRecord("x", 1), TargetStateRecord("x", state)).connectors == {}
