"""Members that the host does not expect, on a fake group."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cooperator.planner.view import Facts
from tests.harness.fake_group import FakeGroup, running_group

OURS = ("lake-0", "lake-1", "lake-2")
STRANGERS = ("pond-0", "pond-1")


@given(st.lists(st.sampled_from((*OURS, *STRANGERS)), min_size=1, max_size=12), st.integers(0, 12))
def test_strangers_run_nothing_once_the_host_knows_its_own(turns: list[str], told_at: int) -> None:
    """In each turn, a member joins, or ends if present; before one turn the host declares its expected
    members.
    """
    group = running_group()
    group.facts(replace(group.machine.state.facts, expected=None))
    present = set(OURS)
    for turn, identity in enumerate(turns):
        if turn == told_at:
            group.facts(replace(group.machine.state.facts, expected=frozenset(OURS)))
        if identity in present:
            group.die(identity)
        else:
            group.join(identity, stranger=identity in STRANGERS)
        present ^= {identity}
        group.round()
        group.settle()
        strangers = present.intersection(STRANGERS) if turn >= told_at else set()
        assert group.machine.state.unexpected == strangers
        if present.intersection(OURS):
            assert [each for each in strangers if group.runs(each)] == []


def test_a_group_that_is_adopted_has_members_of_its_own() -> None:
    group = FakeGroup(owns_config=False)
    group.facts(Facts(expected=frozenset({"lake-0"})))
    group.join("theirs", stranger=True)
    group.round()
    assert group.machine.state.unexpected == frozenset()
