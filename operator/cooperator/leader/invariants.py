"""Invariants of a leader's state that hold after every event. Pure."""

from collections.abc import Iterable

from cooperator.leader.regroup import unsettled
from cooperator.leader.state import LeaderState
from cooperator.leader.story import StateSummary
from cooperator.model import Memory, PolicyName, TaskId
from cooperator.reconciliation import BrokenInvariant as InconsistentGroup
from cooperator.wire import Protocol


class BrokenInvariant(AssertionError):
    """The state contradicts itself: a bug in the leader."""


def check(
    state: LeaderState,
    before: StateSummary,
    after: StateSummary,
    durable: Memory | None,
    deadlines_ms: Iterable[int],
    now_ms: int,
) -> None:
    """Raise BrokenInvariant unless ``state`` is consistent. Takes as long as planning a round.

    ``before``, ``after``: the marks of the state before and after the last event. ``durable``: the last
    memory that was saved. ``deadlines_ms``: of requests for rounds and of requests that wait for a reply.
    """
    changed = "; ".join(after.changes(StateSummary.of(state)))
    _require(not changed, f"something else than an event changed the state: {changed}")
    _lead(state, before, after)
    _round(state)
    _timer(state, deadlines_ms, now_ms)
    if state.group is not None:
        _require(state.leading, "a reconciled group, and no lead")
        _require(state.group.term == state.memory.term, f"a group of term {state.group.term}")
        try:
            state.group.validate()
        except InconsistentGroup as error:
            raise BrokenInvariant(str(error)) from None
    if state.sent is not None and state.generation == state.sent.memory.generation:
        _assignments(state, durable)


def _lead(state: LeaderState, before: StateSummary, after: StateSummary) -> None:
    _require(after.term >= before.term, f"the term fell from {before.term} to {after.term}")
    _require(state.leading or not state.in_round, "a round, and no lead")
    if not state.leading:
        left = (state.members, state.awaited, state.returning, state.relocated, state.regroups)
        answered = (state.plan, state.sent)
        found = [each for each in (*left, *answered) if each]
        _require(not found, f"something is left of a lead that was lost: {found}")
    _require(set(state.awaited) <= {member.identity for member in state.evicted}, "awaits strangers")
    memory = state.memory
    _require(set(memory.managed).isdisjoint(memory.orphans), "a connector is to be deleted and to be kept")


def _round(state: LeaderState) -> None:
    _require(state.completed <= state.generation, f"{state.completed} is delivered before it is planned")
    _require(not (state.topic_refusal and state.sent), f"assigned, although {state.topic_refusal}")
    pending = unsettled(state.regroups, state.config)
    _require(pending.keys() == state.regroups.keys(), "waits for task configurations that are committed")


def _timer(state: LeaderState, deadlines_ms: Iterable[int], now_ms: int) -> None:
    """A timer that is overdue is about to fire."""
    due = [at_ms for at_ms in deadlines_ms if at_ms > now_ms]
    if state.leading and not state.in_round and not state.topic_refusal:
        due += [at_ms for at_ms in state.awaited.values() if at_ms > now_ms]
        if state.returning and state.returning_until_ms > now_ms and not state.is_blind:
            due.append(state.returning_until_ms)
        if state.plan is not None and (state.plan.rejoin_at_ms or 0) > now_ms:
            due.append(state.plan.rejoin_at_ms or 0)
    if due:
        wake_ms = state.wake_at_ms
        _require(wake_ms is not None and wake_ms <= min(due), f"sleeps until {wake_ms}, past {min(due)}")


def _assignments(state: LeaderState, durable: Memory | None) -> None:
    """Checks the last answered round, from which ``state.members`` follows."""
    assert state.sent is not None
    plan, memory = state.sent.plan, state.sent.memory
    if state.completed == state.generation:
        _require(
            durable is not None and (durable.term, durable.given) == (memory.term, memory.given),
            f"members were sent {memory.term}.{memory.generation}, which the leader log does not say",
        )
    _once(((i, tasks) for i, tasks in memory.given.items()), "should be run")
    assigned = ((member_id, each.assigned) for member_id, each in plan.assignments.items())
    _once(assigned, "is assigned")
    if state.policy.name is PolicyName.EAGER or state.protocol == Protocol.DEFAULT.value:
        return  # All have stopped what they report before they joined.
    new = {task: i for i, each in plan.assignments.items() for task in each.assigned}
    facts = state.sent.facts
    living = [m for m in state.members if (m.identity, m.incarnation) not in facts.ended]
    for member in living:
        for task in member.owned:
            _require(
                new.get(task, member.member_id) == member.member_id,
                f"{task} is assigned to {new.get(task)}, and {member.member_id} has not stopped it",
            )
            _require(
                task not in plan.held or task in member.stopping,
                f"{task} is held, and {member.member_id} keeps it",
            )
    staying = {
        (member.identity, member.incarnation)
        for member in living
        if not member.draining and member.identity not in facts.leaving
    }
    for identity, hold in memory.holds.items():
        _require((identity, hold.incarnation) not in staying, f"tasks are held for {identity}, which is here")


def _once(given: Iterable[tuple[str, Iterable[TaskId]]], what: str) -> None:
    owner: dict[TaskId, str] = {}
    for name, tasks in given:
        for task in tasks:
            other = owner.setdefault(task, name)
            _require(other == name, f"{task} {what} at {other} and at {name}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise BrokenInvariant(message)
