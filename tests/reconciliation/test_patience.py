"""New tasks wait for a member for a while; then they may go to others."""

from cooperator.model import TaskId
from cooperator.reconciliation import ReconciledGroup, depart, join, late, retarget, ungiven, waits, withdrawn
from cooperator.reconciliation.patience import PATIENCE_MS, PATIENCE_PER_MEMBER_MS
from tests.reconciliation.test_reports import Conversation, T, U, given

NEW = TaskId("c", 2)


def two() -> Conversation:
    """Member a runs T, and is to run U as well; b has nothing."""
    talk = Conversation("a", "b")
    talk.targets(a={T})
    talk.report("a", 1, 0)
    talk.targets(a={T, U})
    return talk


def test_tasks_wait_for_a_member_until_it_is_given_them() -> None:
    talk = two()
    assert ungiven(talk.group, "a") == {U}
    assert given(talk.report("a", 2, talk.group.members["a"].current.member_epoch, T)) == {T, U}
    assert ungiven(talk.group, "a") == frozenset()


def test_tasks_that_another_one_has_not_released_are_not_new() -> None:
    talk = two()
    talk.targets(b={T, U})
    assert ungiven(talk.group, "b") == {U}


def test_the_patience_begins_with_the_wait_and_others_do_not_prolong_it() -> None:
    talk = two()
    until_ms = waits({}, talk.group, 1_000)
    assert until_ms == {"a": 1_000 + PATIENCE_MS}
    talk.targets(a={T, U}, b={NEW})
    assert waits(until_ms, talk.group, 1_100) == {
        "a": 1_000 + PATIENCE_MS,
        "b": 1_100 + PATIENCE_MS + PATIENCE_PER_MEMBER_MS,
    }


def test_a_member_is_late_when_the_patience_is_over() -> None:
    talk = two()
    until_ms = waits({}, talk.group, 1_000)
    assert late(until_ms, talk.group, 999 + PATIENCE_MS) == frozenset()
    assert late(until_ms, talk.group, 1_000 + PATIENCE_MS) == {"a"}


def test_nobody_is_late_while_tasks_wait_for_many_members() -> None:
    identities = [f"m{number}" for number in range(30)]
    group = ReconciledGroup()
    for identity in identities:
        group = join(group, identity, f"{identity}#1", 0, 0)
    for count, expected in ((3, 3), (4, 0)):
        layout = {identity: frozenset({TaskId(identity, 0)}) for identity in identities[:count]}
        waiting = retarget(group, layout)
        assert len(late(waits({}, waiting, 0), waiting, 60_000)) == expected


def test_new_tasks_go_to_others_only_if_there_are_any() -> None:
    talk = two()
    assert withdrawn(talk.group, {"a"}) == {"a": {U}}
    assert withdrawn(talk.group, {"a", "b"}) == {}
    alone = depart(talk.group, "b", 0, 0)
    assert withdrawn(alone, {"a"}) == {}


def test_a_member_that_has_reached_its_target_is_waited_for_by_nothing() -> None:
    group = retarget(join(ReconciledGroup(), "a", "a#1", 0, 0), {"a": frozenset()})
    assert waits({}, group, 0) == {}
