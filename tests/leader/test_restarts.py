"""Restarts that are requested of a leader: a request is answered once its record is in the log, or never."""

import pytest

from cooperator.model import INSTANCE
from cooperator.wire import RestartRecord
from tests.harness.fake_group import FakeGroup, running_group

KEY = "restart-connector-a"


def written(group: FakeGroup) -> int:
    return group.written.count(KEY)


@pytest.mark.parametrize("task", [None, INSTANCE, 0])
def test_each_is_written_once_for_the_members_to_read_and_makes_no_round(task: int | None) -> None:
    group = running_group()
    record = RestartRecord("a", include_tasks=True, task=task)
    assert group.replies[group.restart(record)] == 202
    assert group.replies[group.restart(record)] == 202
    assert written(group) == 2, "a restart that is requested twice happens twice"
    group.advance(60_000)
    assert written(group) == 2
    assert not group.asks_for_round()


def test_in_a_round_its_answer_waits_for_the_end_of_the_round() -> None:
    group = running_group()
    group.take_lead()
    request = group.restart(RestartRecord("a", only_failed=True))
    assert request not in group.replies
    assert written(group) == 0
    group.round()
    assert written(group) == 1
    assert group.replies[request] == 202


@pytest.mark.parametrize("in_round", [False, True])
def test_a_restart_whose_write_fails_is_not_lost(in_round: bool) -> None:
    group = running_group()
    if in_round:
        group.take_lead()
    group.config_log_away = True
    request = group.restart(RestartRecord("a"))
    if in_round:
        group.round()
    assert request not in group.replies, "nothing is said before it is true"
    group.config_log_away = False
    group.advance(5_000)
    assert written(group) == 1
    assert group.replies[request] == 202


def test_a_restart_that_cannot_be_written_in_time_is_refused_and_not_written_later() -> None:
    group = running_group()
    group.config_log_away = True
    request = group.restart(RestartRecord("a"), for_ms=4_000)
    group.advance(3_999)
    assert request not in group.replies
    group.advance(1)
    assert group.replies[request] == 503
    group.config_log_away = False
    group.advance(60_000)
    assert written(group) == 0


def test_a_round_that_does_not_end_keeps_nobody_waiting() -> None:
    group = running_group()
    group.take_lead()
    request = group.restart(RestartRecord("a"), for_ms=4_000)
    group.advance(4_000)
    assert group.replies[request] == 503


@pytest.mark.parametrize(
    "record", [RestartRecord("b"), RestartRecord("a", task=99), RestartRecord("a", task=-2)]
)
def test_a_connector_or_task_that_is_not_configured_is_unknown(record: RestartRecord) -> None:
    group = running_group()
    assert group.replies[group.restart(record)] == 404
    assert written(group) == 0


def test_a_leader_that_lost_the_lead_refuses_what_it_has_not_written() -> None:
    group = running_group()
    group.take_lead()
    request = group.restart(RestartRecord("a"))
    assert request not in group.replies
    group.lose_lead()
    assert group.replies[request] == 409
    assert group.replies[group.restart(RestartRecord("a"))] == 409
    group.take_lead()
    group.round()
    assert written(group) == 0
