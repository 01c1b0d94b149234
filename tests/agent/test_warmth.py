"""Conversations with the supervisor about its runtime: when it reports the state, and to whom."""

import pytest

from cooperator.agent import events as ev
from cooperator.agent import instructions as do
from cooperator.model import TaskId, Warmth

A0 = TaskId("a", 0)


@pytest.fixture
def warming(member):
    member.tell(ev.WarmUpBegun())
    member.assignment()
    return member


def test_a_runtime_that_needs_no_time_is_warm(member):
    assert member.report.warmth is Warmth.WARM


def test_its_first_join_says_that_it_is_not_warm(member):
    assert member.tell(ev.WarmUpBegun()) == []
    assert member.report.warmth is Warmth.WARMING


def test_it_joins_again_when_it_is_warm(warming):
    nonce = warming.report.nonce
    assert warming.tell(ev.WarmedUp()) == [do.Rejoin("the runtime is warm")]
    assert warming.report.warmth is Warmth.WARM
    assert warming.report.nonce != nonce
    assert warming.assignment() == [], "nothing else happens"


def test_an_assignment_that_answers_an_older_report_does_not_end_it(warming):
    in_flight = warming.report
    warming.tell(ev.WarmedUp())
    assert warming.assignment(answers=in_flight) == [do.Rejoin("the runtime is warm")]


def test_a_member_that_warms_up_before_its_first_assignment_reports_it_afterwards(member):
    member.tell(ev.WarmUpBegun())
    in_flight = member.report
    assert member.tell(ev.WarmedUp()) == []
    assert member.assignment(answers=in_flight) == [do.Rejoin("the runtime is warm")]


def test_a_report_that_no_assignment_answers_is_repeated(warming):
    warming.tell(ev.WarmedUp())
    assert do.Rejoin("the runtime is warm") in warming.time_passes(30_000)


def test_its_own_tasks_start_meanwhile(warming):
    warming.configure()
    [start] = warming.assignment([A0])
    assert isinstance(start, do.StartTask)


def test_a_runtime_that_takes_too_long_has_stalled(warming):
    for _ in range(12):
        warming.tell(ev.Contact(warming.now_ms))
        assert warming.report.warmth is Warmth.WARMING
        heard = [one for one in warming.time_passes(20_000) if isinstance(one, do.Rejoin)]
    assert heard == [do.Rejoin("the runtime is stalled")]
    assert warming.report.warmth is Warmth.STALLED
    warming.assignment()
    assert warming.tell(ev.WarmedUp()) == [do.Rejoin("the runtime is warm")], "the runtime may still come up"


def test_a_runtime_that_cannot_start_has_stalled_until_it_can(warming):
    assert warming.tell(ev.WarmUpFailed()) == [do.Rejoin("the runtime is stalled")]
    warming.assignment()
    assert warming.tell(ev.WarmUpFailed()) == [], "this has been reported"
    assert warming.tell(ev.WarmedUp()) == [do.Rejoin("the runtime is warm")]


def test_a_departing_member_reports_both_at_once(warming):
    warming.tell(ev.DrainRequested())
    warming.tell(ev.WarmedUp())
    assert warming.report.draining
    assert warming.report.warmth is Warmth.WARM
    assert warming.assignment() == [do.Leave(), do.Exit(0)]
