"""No figure is shown before it is known: a new leader counts nobody as missing who may be on the way back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cooperator.host.known import is_known
from cooperator.leader import events as ev
from cooperator.leader.observability.projection import project
from cooperator.model import Memory, Policy
from tests.harness.examples import examples
from tests.harness.fake_group import FakeGroup, FakeMember, running_group
from tests.harness.reconciling_group import reconciled_group
from tests.harness.validated_leader import ValidatedLeader

MEMBERS = 3
TASKS = 4
AWAITED_MS = 35_000
FORGOTTEN_MS = 60_000
"""Longer than all that a leader waits for members that it cannot know of."""


@dataclass(frozen=True)
class Start:
    """A leader's start. ``present``: the members in its first round; ``is_new``: a process of its own.

    The broker tells the reports of the others (``reported``), their ids, or nothing (``listed`` is False), as
    if a leader before had evicted them.
    """

    present: frozenset[int]
    is_new: bool
    listed: bool
    reported: bool
    remembers: bool


numbers = st.integers(0, MEMBERS - 1)
starts = st.builds(
    Start,
    present=st.frozensets(numbers),
    is_new=st.booleans(),
    listed=st.booleans(),
    reported=st.booleans(),
    remembers=st.booleans(),
).filter(lambda start: start.listed or start.remembers)
"""A member that neither the broker nor the log names is known to nobody."""
events = st.lists(
    st.sampled_from(["round", "failed round", "comes back", "dies", "vanishes", "time", "lead lost"]),
    max_size=8,
)


class Restarted:
    """A group whose leader starts anew, with everything that its members run."""

    def __init__(self, group: FakeGroup, start: Start) -> None:
        self.group, self.start = group, start
        self.away: list[FakeMember] = []
        group.machine.handle(ev.LeadLost("replaced"), group.now_ms)
        if start.is_new:
            group.machine = ValidatedLeader(group.machine.settings, group.machine.state.policy)
        if not start.remembers:
            group.saved = Memory()
            getattr(group, "log", {}).clear()
        for number in set(range(MEMBERS)) - start.present:
            self.away.append(group.members.pop(group.of(f"lake-{number}").member_id))
        self.take_lead()

    def take_lead(self) -> None:
        listed = self.away if self.start.listed else []
        if self.start.reported:
            self.group.take_lead(*(member.report() for member in listed))
        else:
            self.group.take_lead(unread=[member.unread() for member in listed])
        self.until_ms = self.group.now_ms + AWAITED_MS

    def play(self, event: str) -> None:
        group = self.group
        match event:
            case "round" | "failed round":
                group.round(deliver=event == "round")
            case "comes back" if self.away:
                member = self.away.pop()
                group.members[member.member_id] = member
            case "dies" | "vanishes" if self.away:
                # The broker counts it no more; who sees its end is the host.
                member = self.away.pop()
                group.members[member.member_id] = member
                group.die(member.identity, proven=event == "dies")
            case "time":
                group.advance(10_000)
            case "lead lost":
                group.lose_lead()
                self.take_lead()

    def shown(self) -> Mapping[str, set[str]] | None:
        """The tasks of each member that are shown; None while no figure is."""
        status: dict[str, Any] = project(self.group.machine.state, self.group.statuses)
        if not is_known(status):
            return None
        return {member["identity"]: set(member["owned"]) for member in status["members"]}

    def check(self) -> None:
        shown = self.shown()
        if shown is None or self.group.now_ms >= self.until_ms:
            return
        for member in (*self.group.members.values(), *self.away):
            assert member.identity in shown, f"{member.identity} is counted as missing"
            runs = {str(task) for task in member.running}
            assert runs <= shown[member.identity], f"{member.identity} is shown without what it runs"


def group_of(is_reconciled: bool) -> FakeGroup:
    policy = Policy(scheduled_rebalance_max_delay_ms=60_000)
    if is_reconciled:
        return reconciled_group(policy, MEMBERS, TASKS)
    return running_group(policy, members=MEMBERS, task_count=TASKS)


@settings(max_examples=examples(50, long=200))
@given(start=starts, history=events, is_reconciled=st.booleans())
def test_no_member_is_counted_as_missing_before_it_could_be_back(
    start: Start, history: list[str], is_reconciled: bool
) -> None:
    restarted = Restarted(group_of(is_reconciled), start)
    restarted.check()
    for event in history:
        restarted.play(event)
        restarted.check()
    while restarted.away:
        restarted.play("comes back")
    restarted.group.round()
    restarted.group.settle()
    restarted.group.advance(FORGOTTEN_MS)
    assert restarted.shown() is not None, "all are back, and nothing is shown"


@pytest.mark.parametrize("is_reconciled", [False, True])
def test_figures_are_shown_when_those_that_are_away_are_late(is_reconciled: bool) -> None:
    none_present = Start(frozenset(), is_new=True, listed=True, reported=True, remembers=True)
    restarted = Restarted(group_of(is_reconciled), none_present)
    restarted.play("round")
    assert restarted.shown() is None, "three members are on their way"
    restarted.group.advance(AWAITED_MS - 1)
    assert restarted.shown() is None
    restarted.group.advance(1)
    assert restarted.shown() == {}, "by the leader's own clock, without another event"


@pytest.mark.parametrize("is_reconciled", [False, True])
def test_a_member_whose_end_is_proven_is_waited_for_no_longer(is_reconciled: bool) -> None:
    two_present = Start(frozenset({0, 1}), is_new=True, listed=True, reported=True, remembers=True)
    restarted = Restarted(group_of(is_reconciled), two_present)
    restarted.play("round")
    assert restarted.shown() is None
    restarted.play("dies")
    assert restarted.shown() is not None
    assert restarted.shown().keys() == {"lake-0", "lake-1"}
