"""Runs one scenario from its start to rest: events and timers trigger rounds, rounds change what runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cooperator.model import Policy, PolicyName, TaskId
from cooperator.scenarios.group import ScenarioGroup
from cooperator.scenarios.knowledge import Knowledge
from cooperator.scenarios.leaders import Leader, LeaderOutcome, leader_for
from cooperator.scenarios.scenario import Event, Scenario
from cooperator.scenarios.workers import Process

MOST_ROUNDS = 60
"""A scenario that needs more rounds does not count as quiescent."""


@dataclass(frozen=True, slots=True)
class ReportedItems:
    """A member as it joined a round."""

    process: Process
    member_id: str
    offset: int
    items: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class ScenarioRound:
    """The record of one round; the counts are those after it, in order of the members."""

    number: int
    time_ms: int
    trigger: tuple[str, ...]
    events: tuple[Event, ...]
    generation: int
    config_offset: int
    config: dict[str, int]
    members: tuple[ReportedItems, ...]
    outcome: LeaderOutcome
    undelivered: tuple[str, ...]
    running_tasks: tuple[int, ...]
    running_instances: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """The record of a scenario under a policy. ``quiescent``: it came to rest."""

    scenario: Scenario
    policy: PolicyName
    rounds: tuple[ScenarioRound, ...]
    group: ScenarioGroup
    quiescent: bool


def drive(
    scenario: Scenario, policy: PolicyName, informed: bool = True, probing: bool = False
) -> ScenarioRun:
    """Run ``scenario`` until no event or timer is left.

    ``informed``: the operator (policy Default) knows the pods that it has ordered (see ``knowledge``).
    ``probing``: it looks for learners that have caught up as Kafka Streams does (see ``ScenarioState``).
    """
    group = ScenarioGroup(scenario, Policy().lease_ms if policy is PolicyName.DEFAULT else None)
    group.state.probing = probing
    return play(group, policy, leader_for(policy, Knowledge(scenario) if informed else None))


def play(group: ScenarioGroup, policy: PolicyName, leader: Leader, alone: bool = False) -> ScenarioRun:
    """Apply the events of ``group``'s scenario, and hold rounds, until no event or timer is left.

    ``alone``: rounds are held even without any worker.
    """
    scenario, start_ms = group.scenario, group.now_ms
    rounds: list[ScenarioRound] = []
    unseen: list[Event] = []
    for time_ms, events in _times(group):
        group.advance(time_ms)
        starting = not rounds and time_ms == start_ms and (group.members() or alone)
        trigger = ["start"] if starting else []
        loud = [group.apply(event) for event in events]
        unseen.extend(events)
        if any(loud):
            trigger.append("event")
        trigger.extend(group.take_timers())
        leader.prepare(group)
        if not trigger or not (group.members() or alone):
            continue
        if len(rounds) == MOST_ROUNDS:
            return _finish(ScenarioRun(scenario, policy, tuple(rounds), group, quiescent=False))
        rounds.append(_round(group, leader, len(rounds) + 1, tuple(trigger), tuple(unseen)))
        unseen.clear()
    return _finish(ScenarioRun(scenario, policy, tuple(rounds), group, quiescent=True))


def _times(group: ScenarioGroup) -> Iterator[tuple[int, Sequence[Event]]]:
    """Yield each time at which something is due, with its events; the start comes first."""
    events = list(group.scenario.events)
    done, time_ms = 0, group.now_ms
    while True:
        last = done
        while done < len(events) and events[done].time_ms <= time_ms:
            done += 1
        yield time_ms, events[last:done]
        due = [] if done == len(events) else [events[done].time_ms]
        timer_ms = group.next_timer_ms()
        if timer_ms is not None:
            due.append(timer_ms)
        if not due:
            return
        time_ms = max(time_ms, min(due))


def _round(
    group: ScenarioGroup, leader: Leader, number: int, trigger: tuple[str, ...], events: tuple[Event, ...]
) -> ScenarioRound:
    group.generation += 1
    members = group.members()
    reported = tuple(ReportedItems(m, m.member_id, group.offset_of(m), m.report()) for m in members)
    outcome = leader.decide(group, _cause(number, trigger, events))
    undelivered = group.undelivered()
    for member in members:
        _deliver(group, member, outcome, undelivered)
    group.finish_stops()
    return ScenarioRound(
        number=number,
        time_ms=group.now_ms,
        trigger=trigger,
        events=events,
        generation=group.generation,
        config_offset=group.config_offset,
        config=dict(group.config),
        members=reported,
        outcome=outcome,
        undelivered=tuple(sorted(undelivered)),
        running_tasks=tuple(sum(not item.is_instance for item in m.running) for m in members),
        running_instances=tuple(sum(item.is_instance for item in m.running) for m in members),
    )


def _cause(number: int, trigger: Sequence[str], events: Sequence[Event]) -> str:
    """Return the id of the round's cause: its number, and the events (or the timer) behind it."""
    what = [" ".join(filter(None, (event.type, event.subject))) for event in events]
    return f"{number}: {', '.join(what or trigger)}"


def _deliver(
    group: ScenarioGroup, member: Process, outcome: LeaderOutcome, undelivered: dict[str, bool]
) -> None:
    """Deliver a member's assignment, unless delivery fails, and let the member apply it."""
    assignment = outcome.assignment(member.member_id)
    group.meter.revokes(assignment.revoked)
    if outcome.error:
        member.frozen = None
        group.want_rejoin()
    if member.member_id in undelivered:
        group.unstarted.update(assignment.assigned)
        if undelivered[member.member_id]:
            group.dies_unnoticed(member)
        else:
            group.want_rejoin()
        return
    stopping = [item for item in assignment.revoked if item in member.running]
    starting = [item for item in assignment.assigned if item not in member.running]
    group.meter.stops(stopping, group.now_ms)
    member.take(assignment.assigned, assignment.revoked)
    group.meter.starts(member, starting, group.now_ms)
    group.state.starts(member, starting, group.now_ms)
    group.unstarted.difference_update(starting)
    member.last_completed_generation = group.generation
    delay_ms = outcome.plan.delay_ms
    member.scheduled_ms = group.now_ms + delay_ms if delay_ms else None
    if assignment.revoked:
        group.want_rejoin()


def _finish(run: ScenarioRun) -> ScenarioRun:
    run.group.meter.finish(run.group.now_ms)
    return run
