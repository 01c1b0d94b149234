"""The records that a leader writes of its group, whatever becomes of the writes."""

from hypothesis import given
from hypothesis import strategies as st

from cooperator.leader.group_log import GroupLog
from cooperator.model import TaskId
from cooperator.reconciliation import ReconciledGroup, depart, fold, join, retarget
from cooperator.reconciliation.records import RecordKey, Value

TASKS = [TaskId("c", number) for number in range(4)]
IDENTITIES = ["a", "b", "c"]
CHANGES = st.one_of(
    st.tuples(st.just("join"), st.sampled_from(IDENTITIES), st.integers(0, 2)),
    st.tuples(st.just("depart"), st.sampled_from(IDENTITIES), st.just(0)),
    st.tuples(st.just("target"), st.sampled_from(IDENTITIES), st.integers(0, 3)),
    st.tuples(st.just("end"), st.just(""), st.just(0)),
)
WRITES = st.sampled_from(["written", "lost", "written, and not known", "none"])


def changed(group: ReconciledGroup | None, kind: str, identity: str, number: int) -> ReconciledGroup | None:
    group = group or ReconciledGroup(term=1)
    if kind == "join":
        return join(group, identity, f"{identity}#{number}", 0, 10)
    if kind == "depart":
        return depart(group, identity, 0, 10) if identity in group.members else group
    if kind == "target":
        return retarget(group, {identity: frozenset(TASKS[:number])})
    return None


@given(st.lists(st.tuples(CHANGES, WRITES), max_size=20))
def test_after_a_write_the_log_says_the_group_whatever_became_of_those_before(
    steps: list[tuple[tuple[str, str, int], str]],
) -> None:
    log, stored, group = GroupLog(), dict[RecordKey, Value](), None
    for change, write in steps:
        group = changed(group, *change)
        if write == "none":
            continue
        records = log.due(group)
        number = log.sending(group, records)
        if write != "lost":
            stored.update({key: value for key, value in records.items() if value is not None})
            stored = {key: value for key, value in stored.items() if records.get(key, value) is not None}
        if write == "written":
            log.saved(number)
            assert fold([stored]) == (group or ReconciledGroup())
        else:
            log.failed()


def test_a_group_of_another_term_than_the_memory_is_none() -> None:
    group = join(ReconciledGroup(term=3), "a", "a#1", 0, 10)
    log = GroupLog()
    records = log.due(group)

    assert log.read(records, 3) == group
    assert log.read(records, 4) is None
    assert log.due(None).keys() == records.keys()
    assert log.read({}, 0) is None
