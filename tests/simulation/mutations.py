"""Planted bugs: each must be found by some seed, or the simulation is blind there.

A mutation replaces a function of the project's code by one that is wrong in one way.
"""

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import PropertyMock, patch

from cooperator.agent import settle
from cooperator.agent.learn import Learner
from cooperator.agent.state import Report, State
from cooperator.controller import incarnations as pod_names
from cooperator.controller import observe
from cooperator.group import takeover
from cooperator.leader import absences, fitting, planning, reconcile, reports, routes
from cooperator.leader import events as ev
from cooperator.leader.between_rounds import BetweenRounds
from cooperator.leader.endpoint import json_answer
from cooperator.leader.lease_confirmation import Candidates, may_confirm
from cooperator.leader.machine import LeaderMachine
from cooperator.leader.rounds import Rounds
from cooperator.leader.state import LeaderState
from cooperator.leader.writes import Writes
from cooperator.logs import LeadWriter
from cooperator.model import Memory
from cooperator.model.memory import HoldReason
from cooperator.planner import claims, default, holds, roster, step
from cooperator.planner.assignors import sticky
from cooperator.pool import decide, incarnations
from cooperator.wire import CommitRecord, TaskRecord
from tests.simulation import learner_mutations
from tests.simulation.planted import Patch, planted

FAST = (
    "AssignsInTheRoundOfTheRevocation",
    "AcknowledgesBeforeTheStop",
    "TakesTheOperatorForAWorker",
    "WaitsForEveryStop",
    "BlamesTasksForRequestedEnds",
    *learner_mutations.FAST,
)
"""Found within so few seeds that each run of the tests looks for them."""


# The planner


@planted
def assigns_in_the_round_of_the_revocation() -> Sequence[Patch]:
    """A revoked task is free at once, not when its holder has rejoined without it."""
    right = claims.sort_claims

    def wrong(*args: Any) -> claims.Claims:
        sorted_ = right(*args)
        unreported = sorted_.unreported | sorted_.in_flight
        return replace(sorted_, unreported=unreported, in_flight=frozenset())

    return [patch.object(claims, "sort_claims", wrong)]


@planted
def plans_by_a_log_that_it_has_not_read() -> Sequence[Patch]:
    """A leader plans although members have read more of the config log than it has."""
    right = Rounds.ready

    def wrong(self: Any, event: ev.RoundReady, now_ms: int) -> list[ev.Instruction]:
        return right(self, replace(event, highest_offset=-1), now_ms)

    return [patch.object(Rounds, "ready", wrong)]


@planted
def does_not_wait_for_leases() -> Sequence[Patch]:
    """A vanished incarnation is assumed to have ended."""
    return [patch.object(holds._Settling, "_fence", lambda self: {})]


@planted
def waits_for_half_a_lease() -> Sequence[Patch]:
    """The lease of a vanished incarnation is counted too short."""
    right = holds._Settling.__init__

    def wrong(self: Any, view: Any, *args: Any) -> None:
        policy = replace(view.policy, lease_ms=view.policy.lease_ms // 2, lease_margin_ms=0)
        right(self, replace(view, policy=policy), *args)

    return [patch.object(holds._Settling, "__init__", wrong)]


@planted
def forgets_who_still_stops() -> Sequence[Patch]:
    """Revocations from an incarnation that vanished before it had stopped are not remembered."""
    right = step._remember
    return [patch.object(step, "_remember", lambda *args: replace(right(*args), unstopped=()))]


@planted
def renews_holds() -> Sequence[Patch]:
    """Each round restarts a hold."""

    def wrong(self: Any, identity: str, hold: Any) -> Any:
        delay_ms = self.view.policy.scheduled_rebalance_max_delay_ms
        return replace(hold, deadline_ms=self.now_ms + delay_ms, reason=HoldReason.DEPARTED)

    return [patch.object(holds._Settling, "_refresh", wrong)]


@planted
def forgets_holds() -> Sequence[Patch]:
    """Departed members' tasks are assigned at once."""
    return [patch.object(holds._Settling, "_keep", lambda self, identity, hold, tasks: None)]


@planted
def balances_while_it_holds() -> Sequence[Patch]:
    """Revocations for balance do not wait for held members."""
    right = default._Asked._problem
    return [
        patch.object(default._Asked, "_problem", lambda *args: replace(right(*args), balance=True)),
    ]


@planted
def never_balances() -> Sequence[Patch]:
    """No task is ever revoked for balance."""
    right = default._Asked._problem
    return [
        patch.object(default._Asked, "_problem", lambda *args: replace(right(*args), balance=False)),
    ]


@planted
def moves_one_more_than_needed() -> Sequence[Patch]:
    """A member with too many tasks loses one more than needed."""
    right = sticky._surpluses

    def wrong(problem: Any, loads: Mapping[str, int]) -> dict[str, int]:
        return {i: min(n + 1, loads[i]) for i, n in right(problem, loads).items()}

    return [patch.object(sticky, "_surpluses", wrong)]


@planted
def takes_tasks_for_who_is_not_warm() -> Sequence[Patch]:
    """A joining member gets its part at once, even if its runtime is not up."""

    def wrong(staying: Mapping[str, Any], facts: Any) -> Mapping[str, Any]:
        return {i: member for i, member in staying.items() if i not in facts.cordoned} or staying

    return [patch.object(roster, "_best_suited", wrong)]


@planted
def drains_into_the_cold() -> Sequence[Patch]:
    """A departing member releases its tasks although no other member is warm yet."""
    right = roster.survey
    return [patch.object(default, "survey", lambda *args: replace(right(*args), warming=False))]


# The leader


@planted
def sends_plans_that_are_too_large() -> Sequence[Patch]:
    """A plan is sent as a whole, whatever the broker can store."""
    return [patch.object(planning, "fit", lambda plan, memory, *_: fitting.Fitted(plan, memory))]


@planted
def never_reads_the_limit_again() -> Sequence[Patch]:
    """The broker's limit of a group's record is read once, so that raising it has no effect."""
    right = BetweenRounds._limit_due_ms

    def wrong(self: Any) -> int:
        return absences.NEVER_MS if self._state.limit_read_ms is not None else right(self)

    return [patch.object(BetweenRounds, "_limit_due_ms", wrong)]


@planted
def forgets_its_memory_with_the_leader() -> Sequence[Patch]:
    """A new leader starts with an empty memory."""
    return [_lead_taken(lambda machine, event: replace(event, memory=Memory(term=event.memory.term)))]


@planted
def forgets_its_memory_when_a_member_leads() -> Sequence[Patch]:
    """A member that leads does not read what the operator remembered."""

    def wrong(rounds: Rounds, event: ev.LeadTaken) -> ev.LeadTaken:
        if rounds._settings.owns_config:
            return event
        return replace(event, memory=Memory(term=event.memory.term))

    return [_lead_taken(wrong)]


@planted
def goes_by_the_clock_of_another_leader() -> Sequence[Patch]:
    """A new leader takes the times in its memory for times of its own clock."""
    return [patch.object(absences, "by_own_clock", lambda memory, *_: memory)]


@planted
def assigns_during_a_take_over() -> Sequence[Patch]:
    """Tasks of evicted members are assigned before they return."""
    right = Rounds.lead_taken

    def wrong(self: Rounds, event: ev.LeadTaken, now_ms: int) -> list[ev.Instruction]:
        out = right(self, replace(event, memory=Memory(term=event.memory.term), evicted=()), now_ms)
        self._state.awaited = {}
        return out

    return [patch.object(Rounds, "lead_taken", wrong)]


@planted
def writes_connectors_without_their_tasks() -> Sequence[Patch]:
    """A new configuration of a connector is written alone: a compaction separates it from its tasks."""
    right = reconcile.connector_records

    def wrong(*args: Any) -> tuple[Any, ...]:
        return tuple(record for record in right(*args) if not isinstance(record, TaskRecord | CommitRecord))

    return [patch.object(_module(Writes), "connector_records", wrong)]


@planted
def never_saves_its_memory() -> Sequence[Patch]:
    """Assignments are sent that the leader log does not contain."""
    return [patch.object(LeaderState, "is_durable", PropertyMock(return_value=True))]


@planted
def sends_before_it_saves() -> Sequence[Patch]:
    """The answer of a round goes out before the memory is durable."""
    right = Rounds.ready

    def wrong(self: Rounds, event: ev.RoundReady, now_ms: int) -> list[ev.Instruction]:
        return sorted(right(self, event, now_ms), key=lambda i: isinstance(i, ev.SaveMemory))

    return [patch.object(Rounds, "ready", wrong)]


@planted
def does_not_fence_its_predecessor() -> Sequence[Patch]:
    """Each leader writes under a transactional id of its own."""
    right = LeadWriter.__init__
    numbers = itertools.count()

    def wrong(self: LeadWriter, transport: Any, topics: Any, group_id: str, *more: Any) -> None:
        right(self, transport, topics, f"{group_id}-{next(numbers)}", *more)

    return [patch.object(LeadWriter, "__init__", wrong)]


@planted
def sleeps_through_the_end_of_a_hold() -> Sequence[Patch]:
    """No timer is set for what the plan waits for."""
    return [patch.object(BetweenRounds, "_next_ms", lambda self, now_ms: [now_ms + 3_600_000])]


@planted
def regroups_what_runs() -> Sequence[Patch]:
    """New task configurations are written while the old tasks run."""
    return [patch.object(Writes, "_in_use", lambda *args: False)]


@planted
def takes_a_death_for_all_lives() -> Sequence[Patch]:
    """A death names an identity, not an incarnation: the living one is evicted."""
    right = LeaderMachine.handle

    def wrong(self: LeaderMachine, event: ev.Event, now_ms: int) -> list[ev.Instruction]:
        if isinstance(event, ev.FactsChanged):
            dead = {identity for identity, _ in event.facts.ended}
            more = {(m.identity, m.incarnation) for m in self.state.members if m.identity in dead}
            event = ev.FactsChanged(replace(event.facts, ended=event.facts.ended | more))
        return right(self, event, now_ms)

    return [patch.object(LeaderMachine, "handle", wrong)]


@planted
def takes_the_operator_for_a_worker() -> Sequence[Patch]:
    """A member that leads counts the absent operator as a worker."""

    class NoRole:
        LEADER = "nobody"

    return [patch.object(reports, "Role", NoRole)]


@planted
def confirms_every_lease() -> Sequence[Patch]:
    """The leader's endpoint confirms every lease, also of who is no member any more."""

    async def wrong(self: Any, request: Any) -> Any:
        return json_answer(200, {"confirmed": True})

    return [patch.object(routes.LeaderRoutes, "_post_lease", wrong)]


@planted
def forgets_who_may_join() -> Sequence[Patch]:
    """A leader without its broker confirms leases if all members of its round ask, whoever else may join."""

    def wrong(*args: Any, now_ms: int, **said: Any) -> bool:
        nobody = Candidates(frozenset(), now_ms)
        return may_confirm(*args, now_ms=now_ms, **{**said, "candidates": nobody, "absent": ()})

    return [patch.object(routes, "may_confirm", wrong)]


@planted
def takes_the_lead_without_evicting() -> Sequence[Patch]:
    """The other members stay in the round in which the lead is taken."""
    return [patch.object(takeover, "MAX_EVICTIONS", 0)]


# The pool


@planted
def takes_an_unreachable_node_for_dead() -> Sequence[Patch]:
    """A member on a node that is not ready is assumed to have ended."""

    def wrong(pod: Any, nodes: Any) -> bool:
        node = nodes.get(pod.node) if nodes is not None else None
        return node is not None and not node.ready

    return [patch.object(incarnations, "_out_of_service", wrong)]


@planted
def takes_a_vanished_object_for_proof() -> Sequence[Patch]:
    """A pod that is deleted, by force or not, is assumed to have ended."""
    right = incarnations.survey

    def wrong(desired: Any, observed: Any, memory: Any, now_ms: int) -> incarnations.Survey:
        seen = right(desired, observed, memory, now_ms)
        ended = dict(seen.memory.ended)
        pods = {pod.identity: pod.incarnation for pod in observed.pods}
        for identity, last in memory.incarnations.items():
            if pods.get(identity) != last.incarnation and last.incarnation not in ended.get(identity, ()):
                ended[identity] = (*ended.get(identity, ()), last.incarnation)
        return replace(seen, memory=replace(seen.memory, ended=ended))

    return [patch.object(_module(decide), "survey", wrong)]


@planted
def proves_ends_by_times() -> Sequence[Patch]:
    """A member whose container is reported to have begun before the one before it ended is assumed to have
    ended."""

    def wrong(incarnation: Any, body: observe.Body) -> bool:
        seen = observe.container(body)
        return seen is not None and (seen.started_ms or 0) < (seen.finished_ms or 0)

    return [patch.object(pod_names, "has_ended", wrong)]


@planted
def takes_what_it_does_not_see_for_ended() -> Sequence[Patch]:
    """A pod that the operator has seen and does not see now is assumed to have ended."""
    right = incarnations.survey

    def wrong(desired: Any, observed: Any, memory: Any, now_ms: int) -> incarnations.Survey:
        seen = right(desired, observed, memory, now_ms)
        pods = {pod.identity for pod in observed.pods}
        ended = {i: (last.incarnation,) for i, last in memory.incarnations.items() if i not in pods}
        return replace(seen, memory=replace(seen.memory, ended={**seen.memory.ended, **ended}))

    return [patch.object(_module(decide), "survey", wrong)]


# The member


@planted
def acknowledges_before_the_stop() -> Sequence[Patch]:
    """A member's report leaves out the tasks that it was told to stop, although they still run."""

    def wrong(self: State) -> Report:
        report = right(self)
        return replace(
            report, owned=tuple(t for t in report.owned if t not in report.stopping), stopping=frozenset()
        )

    right = State.report
    return [patch.object(State, "report", wrong)]


@planted
def runs_without_a_lease() -> Sequence[Patch]:
    """A member does not notice that its lease has ended."""
    return [
        patch.object(State, "lease_alive", PropertyMock(return_value=True)),
        _watchdog_sleeps(),
    ]


@planted
def blames_tasks_for_requested_ends() -> Sequence[Patch]:
    """The pool takes the end of a pod that was deleted for a crash by a task."""
    right_cause, right_seen = observe._cause, incarnations._seen

    def cause(body: Any, terminated: Any) -> Any:
        return right_cause({**body, "metadata": {**body["metadata"], "deletionTimestamp": None}}, terminated)

    def seen(*args: Any) -> Any:
        return replace(right_seen(*args), stopping=False)

    return [patch.object(observe, "_cause", cause), patch.object(incarnations, "_seen", seen)]


@planted
def has_no_watchdog() -> Sequence[Patch]:
    """Tasks that have not stopped long after the end of the lease are not killed."""
    return [_watchdog_sleeps()]


@planted
def waits_for_every_stop() -> Sequence[Patch]:
    """A member whose heartbeats renew its lease waits for a stop that never ends."""
    right = settle._kill_ms

    def wrong(state: State, settings: Any, moving: Any) -> int | None:
        return right(state, replace(settings, revocation_timeout_ms=3_600_000), moving)

    return [patch.object(settle, "_kill_ms", wrong)]


@planted
def restarts_everything_at_each_assignment() -> Sequence[Patch]:
    """Tasks in neither list of an assignment are stopped and started, as an eager worker does."""
    right = Learner._assignment

    def wrong(self: Learner, assignment: Any) -> None:
        right(self, assignment)
        for key, task in self._state.tasks.items():
            if task.alive and task.keep:
                self._state.tasks[key] = replace(task, restart=True)

    return [patch.object(Learner, "_assignment", wrong)]


@planted
def forgets_to_acknowledge() -> Sequence[Patch]:
    """A member that has stopped a revoked task does not rejoin to acknowledge it."""
    return [patch.object(settle, "_acknowledgement", lambda state, settings: [])]


@planted
def says_that_it_is_warm_at_once() -> Sequence[Patch]:
    """A member does not report that its runtime is still starting."""
    return [patch.object(Learner, "_warmth", lambda self, warmth: None)]


@planted
def keeps_to_itself_that_it_is_warm() -> Sequence[Patch]:
    """A member whose runtime has come up does not rejoin to report it."""
    right: Any = State.acknowledgement_due

    def wrong(self: State) -> bool:
        answered = self.answered
        return right.fget(self if answered is None else replace(self, warmth=answered.warmth))  # type: ignore[no-any-return]

    return [patch.object(State, "acknowledgement_due", property(wrong))]


def _watchdog_sleeps() -> Patch:
    right = settle._kill_ms

    def wrong(state: State, settings: Any, moving: Any) -> int | None:
        at_ms = right(state, settings, moving)
        return None if at_ms is None else at_ms + 3_600_000

    return patch.object(settle, "_kill_ms", wrong)


def _lead_taken(change: Callable[[Rounds, ev.LeadTaken], ev.LeadTaken]) -> Patch:
    right = Rounds.lead_taken

    def wrong(self: Rounds, event: ev.LeadTaken, now_ms: int) -> list[ev.Instruction]:
        return right(self, change(self, event), now_ms)

    return patch.object(Rounds, "lead_taken", wrong)


def _module(of: Callable[..., Any]) -> Any:
    """The module of a function or class, even if its package re-exports it under the module's name."""
    return sys.modules[of.__module__]
