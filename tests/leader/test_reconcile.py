"""The config log is brought to what is desired, and survives its own compaction."""

from hypothesis import given
from hypothesis import strategies as st

from cooperator.leader.reconcile import connector_records, task_records
from cooperator.model import ClusterConfig, Desired, DesiredConnector, TargetState
from cooperator.wire import ConfigFold, Record, encode_config

names = st.sampled_from(["a", "b", "c"])
configs = st.dictionaries(st.sampled_from(["x", "y"]), st.text(max_size=3), max_size=2)
desired = st.builds(
    lambda connectors: Desired(1, connectors),
    st.dictionaries(names, st.builds(DesiredConnector, configs, st.sampled_from(TargetState))),
)


class Log:
    """A compacted topic."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def append(self, records: object) -> None:
        self.records += [encode_config(record) for record in records]  # type: ignore[attr-defined]

    def read(self, *, compacted: bool = False) -> ClusterConfig:
        newest = {record.key: place for place, record in enumerate(self.records)}
        fold = ConfigFold()
        for place, record in enumerate(self.records):
            if not compacted or newest[record.key] == place:
                fold.apply(record, place)
        return fold.snapshot()


@given(st.lists(desired, min_size=1, max_size=4), st.data())
def test_every_change_ends_as_desired_also_for_readers_after_a_compaction(
    changes: list[Desired], data: st.DataObject
) -> None:
    log = Log()
    for wanted in changes:
        log.append(connector_records(wanted, log.read(), owns_config=True))
        for name in wanted.connectors:
            count = data.draw(st.integers(0, 3), label=f"tasks of {name}")
            log.append(task_records(name, tuple({"n": str(n)} for n in range(count))))
        config = log.read()
        assert connector_records(wanted, config, owns_config=True) == ()
        assert {n: (c.config, c.target) for n, c in config.connectors.items()} == {
            n: (c.config, c.target) for n, c in wanted.connectors.items()
        }
        assert log.read(compacted=True).connectors == config.connectors


@given(desired, desired)
def test_a_change_of_a_connector_keeps_its_tasks_after_a_compaction(one: Desired, other: Desired) -> None:
    log = Log()
    log.append(connector_records(one, log.read(), owns_config=True))
    for name in one.connectors:
        log.append(task_records(name, ({"n": "0"}, {"n": "1"})))
    log.append(connector_records(other, log.read(), owns_config=True))
    kept = one.connectors.keys() & other.connectors.keys()
    for config in (log.read(), log.read(compacted=True)):
        assert all(len(config.connectors[name].tasks) == 2 for name in kept)


@given(st.lists(st.tuples(st.sampled_from(["x", "y"]), st.booleans()), min_size=1, max_size=6))
def test_tasks_that_a_stock_worker_need_not_send_again_survive_a_compaction(
    changes: list[tuple[str, bool]],
) -> None:
    """It compares with the log as it followed it, and may be away while a configuration comes and goes."""
    log = Log()
    for value, is_there in changes:
        wanted = Desired(1, {"a": DesiredConnector({"v": value})})
        log.append(connector_records(wanted, log.read(), owns_config=False, with_tasks=False))
        followed = log.read().connectors["a"]
        if is_there and followed.applied != followed.config:
            log.append(task_records("a", ({"v": value, "n": "0"},)))
        followed, afresh = log.read().connectors["a"], log.read(compacted=True).connectors["a"]
        if followed.applied == followed.config:
            assert afresh.tasks == followed.tasks != ()


def test_undesired_connectors_stay_in_a_foreign_log() -> None:
    log = Log()
    log.append(connector_records(Desired(1, {"a": DesiredConnector({})}), log.read(), owns_config=True))
    assert connector_records(Desired(2), log.read(), owns_config=False) == ()
    log.append(connector_records(Desired(2), log.read(), owns_config=True))
    assert log.read().connectors == {}


def test_tasks_whose_commit_is_before_their_connector_are_committed_again_where_no_worker_does_it() -> None:
    """A leader of stock workers writes a connector alone, and waits for them to commit. If agents remain,
    whose tasks are the same as before, nobody does.
    """
    log, wanted = Log(), Desired(1, {"a": DesiredConnector({"x": "1"})})
    log.append(connector_records(wanted, log.read(), owns_config=True))
    log.append(task_records("a", ({"n": "0"}, {"n": "1"})))
    changed = Desired(2, {"a": DesiredConnector({"x": "2"})})
    log.append(connector_records(changed, log.read(), owns_config=True, with_tasks=False))
    assert log.read(compacted=True).connectors["a"].tasks == ()
    assert connector_records(changed, log.read(), owns_config=True, with_tasks=False) == ()

    log.append(connector_records(changed, log.read(), owns_config=True))
    assert log.read(compacted=True).connectors == log.read().connectors
    assert connector_records(changed, log.read(), owns_config=True) == ()
