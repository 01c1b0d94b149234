"""Restarts that are asked of a leader."""

import pytest

from cooperator.leader import events as ev
from cooperator.model import INSTANCE
from cooperator.wire import RestartRecord
from tests.harness.fake_group import FakeGroup, running_group

KEY = "restart-connector-a"


def ask(group: FakeGroup, record: RestartRecord) -> tuple[int, list[RestartRecord]]:
    """The answer, and what is written for it at once."""
    code, instructions = group.machine.restart(record, group.now_ms)
    return code, written(instructions)


def written(instructions: list[ev.Instruction]) -> list[RestartRecord]:
    return [
        record
        for instruction in instructions
        if isinstance(instruction, ev.WriteConfig)
        for record in instruction.records
        if isinstance(record, RestartRecord)
    ]


@pytest.mark.parametrize("task", [None, INSTANCE, 0])
def test_each_is_written_once_for_the_members_to_read_and_makes_no_round(task: int | None) -> None:
    group = running_group()
    record = RestartRecord("a", include_tasks=True, task=task)
    assert ask(group, record) == (202, [record])
    assert ask(group, record) == (202, [record]), "asked twice is restarted twice"
    assert written(group.machine.handle(ev.Tick(), group.now_ms + 60_000)) == []
    assert not group.asks_for_round()


def test_in_a_round_it_waits_for_the_end_of_it() -> None:
    group = running_group()
    group.take_lead()
    assert ask(group, RestartRecord("a", only_failed=True)) == (202, [])
    assert KEY not in group.written
    group.round()
    assert group.written.count(KEY) == 1


@pytest.mark.parametrize(
    "record", [RestartRecord("b"), RestartRecord("a", task=99), RestartRecord("a", task=-2)]
)
def test_what_is_not_configured_is_said(record: RestartRecord) -> None:
    assert ask(running_group(), record) == (404, [])


def test_who_does_not_lead_writes_nothing_also_not_later() -> None:
    group = running_group()
    group.take_lead()
    assert ask(group, RestartRecord("a")) == (202, [])
    group.machine.handle(ev.LeadLost("another leads"), group.now_ms)
    assert ask(group, RestartRecord("a")) == (409, [])
    group.take_lead()
    group.round()
    assert KEY not in group.written
