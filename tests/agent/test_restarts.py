"""Conversations with the supervisor about failed tasks: pauses, their limit, and when a new count begins."""

import pytest

from cooperator.agent import events as ev
from cooperator.agent import instructions as do
from cooperator.model import INSTANCE, AutoRestart, TargetState, TaskId, TaskState
from cooperator.model.trace import error_of

A, A0, A1 = (TaskId("a", task) for task in (INSTANCE, 0, 1))
TWICE = AutoRestart(max_restarts=2, backoff_ms=1_000, reset_after_ms=30_000)


def fails(member, task=A0, trace="no disk"):
    return member.tell(ev.Failed(task, member.attempt(task), trace))


def last(member):
    """The last status, and the delay (ms) until the attempt that it announces."""
    [put] = member.all(do.PutStatus)
    return put.status, put.next_attempt_in_ms


def starts(said):
    return [one.task for one in said if isinstance(one, do.StartTask)]


def comes_back(member, after_ms, task=A0):
    """The task restarts exactly when its pause is over, and runs."""
    assert starts(member.time_passes(after_ms - 1)) == []
    assert starts(member.time_passes(1)) == [task]
    assert member.statuses() == [(str(task), TaskState.STARTING)]
    member.tell(ev.Contact(member.now_ms))
    member.tell(ev.Started(task, member.attempt(task)))


def gives_up(member):
    """The task never restarts while the lease is renewed."""
    for _ in range(100):
        assert starts(member.time_passes(30_000)) == []
        member.tell(ev.Contact(member.now_ms))


def test_pauses_double_up_to_the_longest_and_then_the_task_stays_failed(member):
    member.configure(auto_restart=AutoRestart(max_restarts=4, backoff_ms=10_000, backoff_max_ms=30_000))
    member.run(A0, A1)
    for pause_ms in (10_000, 20_000, 30_000, 30_000):
        fails(member)
        status, in_ms = last(member)
        assert (status.state, status.trace, in_ms) == (TaskState.RESTARTING, "no disk", pause_ms)
        member.tell(ev.Contact(member.now_ms))
        comes_back(member, pause_ms)
    fails(member)
    status, in_ms = last(member)
    assert (status.state, status.reason, in_ms) == (TaskState.FAILED, "RestartLimit", None)
    assert "after 4 automatic restarts (maxRestarts is 4)" in status.trace
    assert error_of(status.trace) == "no disk", "the cause comes first"
    assert status.trace.startswith("no disk")
    gives_up(member)
    assert member.report.owned == (A0, A1), "the member keeps the task"
    assert member.attempt(A1) == 2, "the other task is untouched"


def test_an_instance_is_restarted_as_well(member):
    member.run(A)
    fails(member, A)
    comes_back(member, 10_000, A)


def test_restarts_make_no_round(member):
    member.run(A0)
    fails(member)
    assert [type(one) for one in member.time_passes(10_000)] == [do.StartTask]


def test_without_automatic_restarts_a_failed_task_waits_for_a_request(member):
    member.configure(auto_restart=AutoRestart(enabled=False))
    member.run(A0)
    fails(member)
    status, in_ms = last(member)
    assert (status.state, status.reason, status.trace, in_ms) == (TaskState.FAILED, "", "no disk", None)
    gives_up(member)


def test_a_task_that_has_run_long_enough_begins_a_new_count(member):
    member.configure(auto_restart=TWICE)
    member.run(A0)
    fails(member)
    comes_back(member, 1_000)
    member.time_passes(29_999)
    fails(member)
    assert last(member)[1] == 2_000, "the task has not run long enough"
    member.tell(ev.Contact(member.now_ms))
    comes_back(member, 2_000)
    member.time_passes(30_000)
    fails(member)
    assert last(member)[1] == 1_000


def test_paused_time_does_not_count_as_running_time(member):
    member.configure(auto_restart=TWICE)
    member.run(A0)
    fails(member)
    comes_back(member, 1_000)
    member.configure(auto_restart=TWICE, target=TargetState.PAUSED)
    member.tell(ev.Paused(A0, member.attempt(A0)))
    member.time_passes(35_000)
    member.tell(ev.Contact(member.now_ms))
    fails(member)
    assert last(member)[1] == 2_000


@pytest.mark.parametrize("only_failed", [True, False])
def test_a_restart_by_hand_comes_at_once_and_begins_a_new_count(member, only_failed):
    member.configure(auto_restart=TWICE)
    member.run(A0)
    fails(member)
    comes_back(member, 1_000)
    fails(member)
    assert starts(member.tell(ev.RestartRequested("a", include_tasks=True, only_failed=only_failed))) == [A0]
    fails(member)
    assert last(member)[1] == 1_000


def test_one_task_alone_is_restarted(member):
    member.run(A, A0, A1)
    fails(member, A1)
    # The message to stock workers does not matter here.
    one = ev.RestartRequested("a", include_tasks=False, only_failed=True, task=0)
    assert member.tell(one) == [do.StopTask(A0, 2)]
    assert starts(member.stopped(A0)) == [A0]
    instance = ev.RestartRequested("a", include_tasks=False, only_failed=False, task=INSTANCE)
    assert member.tell(instance) == [do.StopTask(A, 1)]


def test_a_changed_configuration_begins_a_new_count(member):
    member.configure(auto_restart=TWICE)
    member.run(A0)
    fails(member)
    comes_back(member, 1_000)
    fails(member)
    assert starts(member.configure(auto_restart=TWICE, tasks=[{"unit": "fixed"}])) == [A0]
    fails(member)
    assert last(member)[1] == 1_000


def test_a_raised_limit_counts_at_once_and_restarts_nothing_that_runs(member):
    member.configure(auto_restart=AutoRestart(max_restarts=0))
    member.run(A, A0, A1)
    fails(member)
    assert last(member)[0].state is TaskState.FAILED
    assert member.configure(auto_restart=TWICE) == []
    status, in_ms = last(member)
    assert (status.state, in_ms) == (TaskState.RESTARTING, 1_000)
    comes_back(member, 1_000)
    assert (member.attempt(A), member.attempt(A1)) == (1, 3)


def test_a_task_paused_meanwhile_comes_back_paused(member):
    member.run(A0)
    fails(member)
    member.configure(target=TargetState.PAUSED)
    [start] = member.time_passes(10_000)
    assert start.paused


def test_a_task_revoked_meanwhile_does_not_come_back(member):
    member.run(A0)
    fails(member)
    assert member.assignment(revoked=[A0]) == [do.Rejoin("released a-0")]
    assert starts(member.time_passes(10_000)) == []


def test_nothing_comes_back_without_a_lease(member):
    member.configure(auto_restart=AutoRestart(backoff_ms=60_000))
    member.run(A0)
    fails(member)
    assert starts(member.time_passes(300_000)) == []
    assert member.report.owned == ()


@pytest.mark.parametrize("again", ["configuration", "request"])
def test_a_permanent_failure_stays_failed_until_a_user_acts(member, again):
    member.run(A0, A1)
    member.tell(ev.Failed(A0, member.attempt(A0), "option 'topic': is required", "InvalidOption"))
    status, in_ms = last(member)
    assert (status.state, status.reason, in_ms) == (TaskState.FAILED, "InvalidOption", None)
    assert status.trace == "option 'topic': is required"
    gives_up(member)
    assert member.report.owned == (A0, A1), "the member keeps the task"
    if again == "configuration":
        assert starts(member.configure(tasks=[{"unit": "fixed"}, {"unit": "1"}])) == [A0]
    else:
        assert starts(member.tell(ev.RestartRequested("a", include_tasks=True, only_failed=True))) == [A0]
    fails(member)
    assert last(member)[1] == 10_000, "a failure that may pass is tried again"
