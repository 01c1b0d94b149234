"""Reports are read correctly whether or not they were predicted; predicted bytes are not decoded."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cooperator.group import JoinedMember, Round
from cooperator.leader import events as ev
from cooperator.leader.reports import ReportReader, Reports
from cooperator.leader.state import LeaderSettings
from cooperator.model import ClusterConfig, ConnectorConfig, Member, Memory, SessionKey, TaskId
from cooperator.wire import (
    AgentReport,
    ExtendedAssignment,
    Metadata,
    Protocol,
    Role,
    decode_assignment,
    encode_metadata,
    items,
)
from tests.harness.validated_leader import ValidatedLeader

NO_CONFIG: Mapping[str, str] = {}
CONFIG = ClusterConfig(
    5,
    {name: ConnectorConfig(NO_CONFIG, tasks=(NO_CONFIG,) * count) for count, name in enumerate("abcdef")},
    SessionKey(b"key", "HmacSHA256", 0),
)


class Group:
    """Members that take up what they are given, and the leader that decides it."""

    def __init__(self) -> None:
        self.machine = ValidatedLeader(LeaderSettings(url="http://leader/"))
        self.machine.handle(ev.LeadTaken(Memory(), CONFIG), 0)
        self.reader = ReportReader()
        self.owned: dict[str, dict[TaskId, None]] = {}
        self.generation = 0

    def joined(self, names: list[str]) -> Round:
        members = tuple(JoinedMember(name, None, self.says(name)) for name in names)
        return Round(self.generation, "sessioned", "leader", members)

    def round(self, names: list[str]) -> tuple[Reports, Reports]:
        """One round with these members; what was read of them, and what somebody reads who knows nothing."""
        self.generation += 1
        self.owned = {name: self.owned.get(name, {}) for name in names}
        joined = self.joined(names)
        anew = ReportReader().read(joined)
        reports = self.reader.read(joined)
        ready = ev.RoundReady(self.generation, "sessioned", "leader", reports.members, (), 5, CONFIG, 0)
        for instruction in self.machine.handle(ready, self.generation):
            if isinstance(instruction, ev.SaveMemory):
                self.machine.handle(ev.MemorySaved(instruction.memory), 0)
            elif isinstance(instruction, ev.Answer):
                self.reader.expect(self.machine.state.members, instruction.written)
                for name in names:
                    self.take(name, decode_assignment(instruction.assignments[name]))
        self.machine.handle(ev.Delivered(self.generation), self.generation)
        self.reader.foresee()
        return reports, anew

    def take(self, name: str, assignment: ExtendedAssignment) -> None:
        own = self.owned[name]
        for task in assignment.revoked:
            del own[task]
        own.update(dict.fromkeys(assignment.assigned))

    def says(self, name: str) -> bytes:
        allocation = ExtendedAssignment(0, "leader", "http://leader/", 5, tuple(self.owned[name]))
        report = AgentReport(Role.WORKER, name, f"incarnation of {name}", nonce=self.generation)
        return encode_metadata(Metadata("http://member/", 5, allocation, report), Protocol.SESSIONED)


def as_sets(reports: Reports) -> list[tuple[Member, frozenset[TaskId], int]]:
    """Members, with what they own in any order."""
    return [(m.having((), m.stopping, m.applied), frozenset(m.owned), len(m.owned)) for m in reports.members]


NAMES = st.lists(st.sampled_from("mnopq"), min_size=1, unique=True)


@settings(deadline=None)
@given(st.lists(st.tuples(NAMES, st.booleans()), min_size=1, max_size=6))
def test_reports_are_read_as_by_somebody_who_foresees_nothing(rounds: list[tuple[list[str], bool]]) -> None:
    group = Group()
    for names, forgetful in rounds:
        if forgetful and names[0] in group.owned:
            # It has lost something that it was given.
            group.owned[names[0]] = dict.fromkeys(list(group.owned[names[0]])[1:])
        remembered, anew = group.round(names)
        assert as_sets(remembered) == as_sets(anew)


@settings(deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=4))
def test_predicted_reports_are_never_decoded(rounds: list[list[str]]) -> None:
    group = Group()
    for names in rounds:
        group.round(names)
        staying = [name for name in names if name in group.owned]
        with pytest.MonkeyPatch.context() as patched:
            # The next round: everybody has let go of what it was told to, and has what it was given.
            patched.setattr(items, "_read_fast", never)
            group.reader.read(group.joined(staying))


def never(*_: object) -> None:
    raise AssertionError("decoded")
