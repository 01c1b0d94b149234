"""The known contents of the leader log after writes that failed or were not answered."""

from cooperator.leader import events as ev
from cooperator.leader.state import LeaderSettings
from cooperator.model import ClusterConfig, ConnectorConfig, Member, Memory
from tests.harness.validated_leader import ValidatedLeader


def test_the_term_is_saved_before_an_assignment_of_it_when_saving_it_had_failed() -> None:
    machine = ValidatedLeader(LeaderSettings(url="http://leader/"))
    machine.handle(ev.LeadTaken(Memory(term=3), ClusterConfig()), 0)  # whose SaveMemory fails
    instructions = machine.handle(ev.RoundReady(7, "sessioned", "l", (), (), -1, ClusterConfig()), 0)
    assert [type(each) for each in instructions] == [ev.SaveMemory, ev.Answer]
    assert isinstance(instructions[0], ev.SaveMemory)
    assert instructions[0].memory.term == 4


def test_after_a_save_of_unknown_outcome_the_next_round_saves_again() -> None:
    machine = ValidatedLeader(LeaderSettings(url="http://leader/"))
    taken = machine.handle(ev.LeadTaken(Memory(), ClusterConfig()), 0)
    assert isinstance(taken[0], ev.SaveMemory)
    machine.handle(ev.MemorySaved(taken[0].memory), 0)
    lake = Member("m", "lake-0", "incarnation-1")
    config = ClusterConfig(0, {"a": ConnectorConfig({})})
    first = machine.handle(ev.RoundReady(1, "sessioned", "l", (lake,), (), 0, config), 0)
    assert isinstance(first[0], ev.SaveMemory)
    machine.handle(ev.RoundFailed(1, "no answer from the log"), 0)
    again = machine.handle(ev.RoundReady(2, "sessioned", "l", (), (), 0, config), 0)
    assert isinstance(again[0], ev.SaveMemory), "the log may say what was never sent"
