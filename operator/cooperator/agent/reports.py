"""Reports to the leader between rounds, under the sub-protocol ``reconciled`` (docs/reconciliation.md).

A member has one report on its way, which the leader answers with all that the member may run. A report is
due when an answer has arrived, and at once, instead of the one on its way, when the leader must learn of
something: a released task, a departure, or the warmth of the runtime. While a JoinGroup is on its way no
answer changes anything, since that request may have told the leader what the member runs.
"""

from dataclasses import replace

from cooperator.agent.events import AssignmentReceived, ReportAnswered
from cooperator.agent.instructions import Instruction, SendReport
from cooperator.agent.state import Settings, State, Task
from cooperator.model import Epoch, TaskId
from cooperator.reconciliation import (
    Answer,
    Rejection,
    ReportingMember,
    apply_answer,
    next_report,
    told_term,
)
from cooperator.reconciliation.reporting import NO_TERM


def joined(state: State, settings: Settings, assignment: AssignmentReceived) -> None:
    """Begin to report to the leader of this round, or end it where the round has assigned the tasks."""
    if not assignment.reconciled:
        state.reporting = state.sent_report = state.heard_report = state.report_ms = None
        return
    member = state.reporting or ReportingMember(settings.identity, settings.incarnation)
    if member.term != assignment.epoch.term:
        # Epochs begin anew in a group that has been in rounds meanwhile.
        member = replace(told_term(member, assignment.epoch.term), member_epoch=0)
    # The answer to a report before this round may come from a leader that did not know of it.
    state.reporting = replace(member, sent_ms=None)
    state.report_ms = state.now_ms


def dropped(state: State) -> None:
    """Apply no more answers: this process is no member until a round says so."""
    if state.reporting is not None:
        state.reporting = told_term(state.reporting, NO_TERM)
        state.report_ms = None


def answered(state: State, settings: Settings, event: ReportAnswered) -> list[str]:
    """Apply the answer to the last report; returns lines for the story."""
    member = state.reporting
    if member is None or member.sent_ms is None or event.sequence != member.sequence:
        return []
    if event.superseded:
        state.reporting, state.report_ms = replace(member, sent_ms=None), None
        return [f"the answer to report {event.sequence} is superseded by a join"]
    if event.answer is None:
        state.reporting = replace(member, sent_ms=None)
        state.report_ms = state.now_ms + settings.report_retry_ms
        return []
    state.reporting, may_run = apply_answer(
        member, event.answer, event.sequence, state.now_ms, state.lease_ms
    )
    if not isinstance(event.answer, Answer):
        is_asked = event.answer is Rejection.STALE_REPORT
        state.report_ms = state.now_ms + (0 if is_asked else settings.report_retry_ms)
        if may_run is not None:
            _run(state, may_run, Epoch(member.term, 0), -1)
        return [f"report {event.sequence} is rejected: {event.answer.value}"]
    state.heard_report = state.sent_report
    if may_run is None or not state.lease_alive or state.departing:
        # Everything stops, whatever the leader says.
        state.report_ms = state.now_ms + settings.report_retry_ms
        return []
    epoch = Epoch(member.term, event.answer.group_epoch)
    given, revoked = _run(state, may_run, epoch, event.answer.config_offset)
    changes = bool(given or revoked)
    state.report_ms = state.now_ms + (0 if changes else settings.report_pause_ms)
    return [f"answer {epoch}: {given} new, {revoked} revoked"] if changes else []


def _run(state: State, tasks: frozenset[TaskId], epoch: Epoch, config_offset: int) -> tuple[int, int]:
    """Own exactly these tasks from now on; returns the numbers of tasks that are new and that must stop."""
    new = revoked = 0
    for key, task in state.tasks.items():
        if key not in tasks:
            revoked += task.keep
            state.tasks[key] = replace(task, keep=False, quiet=False)
        elif not task.keep:
            new += 1
            state.tasks[key] = replace(
                task, keep=True, revoked_ms=None, epoch=epoch, needs_offset=config_offset
            )
    for key in sorted(tasks - state.tasks.keys()):
        new += 1
        state.tasks[key] = Task(key, epoch, config_offset)
    return new, revoked


def due(state: State, settings: Settings) -> list[Instruction]:
    """The report that is due now."""
    at_ms = next_ms(state, settings)
    if at_ms is None or at_ms > state.now_ms or state.reporting is None:
        return []
    member = replace(state.reporting, sent_ms=None)
    member, report = next_report(member, state.tasks.keys(), state.now_ms, 0)
    if report is None:
        return []
    stopping = frozenset(key for key, task in state.tasks.items() if not task.keep)
    report = replace(report, stopping=stopping, draining=state.draining, warmth=state.warmth)
    state.reporting, state.sent_report, state.report_ms = member, report, None
    state.report_key = state.config.session_key
    return [SendReport(state.leader_url, report, _timeout_ms(state, settings))]


def next_ms(state: State, settings: Settings) -> int | None:
    """When the next report is due; None: nothing is to be reported before an event."""
    member = state.reporting
    if member is None or member.term == NO_TERM or state.exiting is not None:
        return None
    if member.sent_ms is None and state.report_ms is None:
        return None
    if member.sent_ms is None and state.report_key != state.config.session_key:
        # A new member is admitted before it has read the key without which the leader refuses its report.
        return state.now_ms
    news_ms = _news_ms(state, settings)
    at_ms = state.report_ms if member.sent_ms is None else member.sent_ms + _timeout_ms(state, settings)
    return min((each for each in (news_ms, at_ms) if each is not None), default=None)


def _news_ms(state: State, settings: Settings) -> int | None:
    """When to report what the leader must learn of; None: there is nothing new."""
    said, member = state.sent_report, state.reporting
    if said is None or member is None:
        return None
    if (said.draining, said.warmth) != (state.draining, state.warmth):
        return state.now_ms
    if said.owned <= state.tasks.keys():
        return None
    # Others that are about to stop share the report.
    is_slow = member.sent_ms is not None and any(not task.keep for task in state.tasks.values())
    return max(state.now_ms, (member.sent_ms or 0) + settings.report_coalesce_ms) if is_slow else state.now_ms


def is_departure_known(state: State) -> bool:
    """Whether the leader knows that this member departs and owns nothing; always true in rounds."""
    heard = state.heard_report
    return state.reporting is None or (heard is not None and heard.draining and not heard.owned)


def _timeout_ms(state: State, settings: Settings) -> int:
    """The time for which a report waits for its answer: the leader holds it for a third of the lease."""
    return state.lease_ms // 3 + settings.report_slack_ms
