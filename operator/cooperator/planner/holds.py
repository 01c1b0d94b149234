"""Departures and returns: which tasks wait for whom, until when, and which need wait no longer.

    unreported = configured − reported by any present member
    lost(i)    = (given(i) ∪ hold(i)) ∩ unreported
    i absent   → lost(i) is held until max(deadline, end of the last holder's lease); then it is free
    i present  → lost(i) is owed to i at once, as soon as the end of its earlier life is certain
    fenced     = what a vanished life was stopping when it was last seen; until its lease has run out

The end of a life is certain when its host has proof of it, when that life is itself a member (what it does
not report it does not run), or when its lease and a margin have passed since it was found missing.
The deadline is scheduled.rebalance.max.delay.ms after an identity's own departure (KIP-415 has one for the
whole group); there is none for an identity that will not come back or has used up its budget of returns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cooperator.model import Hold, HoldReason, Member, Memory, TaskId, Unstopped
from cooperator.planner.claims import Claims
from cooperator.planner.plan import HeldTask, Reason, Why
from cooperator.planner.roster import Roster
from cooperator.planner.view import View

_NONE: frozenset[TaskId] = frozenset()


@dataclass(slots=True)
class Settled:
    """What has become of every task that should be running and is reported by nobody.

    ``owed``: per identity, its own tasks that it gets back now. ``free``: lost tasks whose wait is over.
    ``reserved``: per identity, its own tasks that cannot start yet (an earlier life of it may still run
    them, or they are suspended). ``held``: every task that waits. ``frozen``: nothing that memory does not
    know may start anywhere. ``timers_ms``: when one of these waits ends.
    """

    holds: dict[str, Hold] = field(default_factory=dict)
    held: dict[TaskId, HeldTask] = field(default_factory=dict)
    owed: dict[str, dict[TaskId, Reason]] = field(default_factory=dict)
    free: dict[TaskId, Reason] = field(default_factory=dict)
    reserved: dict[str, frozenset[TaskId]] = field(default_factory=dict)
    unstopped: list[Unstopped] = field(default_factory=list)
    returns: dict[str, tuple[int, ...]] = field(default_factory=dict)
    frozen: bool = False
    timers_ms: list[int] = field(default_factory=list)


def settle(
    view: View, memory: Memory, roster: Roster, claims: Claims, configured: frozenset[TaskId]
) -> Settled:
    """Decide about departures, returns and what is left of earlier lives."""
    settling = _Settling(view, memory, roster, claims, configured)
    for identity in sorted(memory.given.keys() | memory.holds.keys() | view.awaited.keys()):
        settling.settle(identity)
    settling.fence()
    settling.reserve_for_newest_lives()
    settling.apply_waits()
    return settling.settled


def expected_joins(view: View, memory: Memory, roster: Roster, holds: Mapping[str, Hold]) -> dict[str, int]:
    """Per identity that should join, since when (ms) it is waited for; not those that are held for."""
    expected = view.facts.expected
    if expected is None:
        return {}
    coming = expected - view.facts.gone - view.facts.leaving - roster.current.keys() - holds.keys()
    return {identity: memory.joins.get(identity, view.now_ms) for identity in sorted(coming)}


class _Settling:
    """One run of ``settle``."""

    def __init__(
        self, view: View, memory: Memory, roster: Roster, claims: Claims, configured: frozenset[TaskId]
    ) -> None:
        self.view, self.memory, self.roster, self.claims = view, memory, roster, claims
        self.configured = configured
        self.unreported = configured - claims.occupied
        self.now_ms = view.now_ms
        self.lease_ms = view.policy.lease_ms + view.policy.lease_margin_ms
        self.settled = Settled(returns=self._recent_returns())

    def settle(self, identity: str) -> None:
        given, hold = self.memory.given.get(identity, _NONE), self.memory.holds.get(identity)
        due = given | hold.tasks if hold is not None else given
        member = self.roster.current.get(identity)
        if member is None:
            self._absent(identity, due, hold)
        elif identity in self.roster.held:
            self._drains_and_returns(identity, due, hold, member)
        else:
            self._present(identity, due & self.unreported, hold, member)

    def _absent(self, identity: str, due: frozenset[TaskId], hold: Hold | None) -> None:
        """The identity is no member: hold what it had, until the wait is over."""
        lost = due & self.unreported
        awaited_until_ms = self.view.awaited.get(identity, 0)
        if hold is None:
            blanket = identity in self.view.awaited and identity not in self.memory.given
            if not due and not blanket:
                return
            hold = self._missing(identity, lost, blanket)
        elif hold.reason is HoldReason.EVICTED:
            awaited_until_ms = max(hold.deadline_ms, awaited_until_ms)
        if awaited_until_ms > self.now_ms:
            hold = replace(hold, tasks=lost, deadline_ms=awaited_until_ms, reason=HoldReason.EVICTED)
        else:
            if hold.reason is HoldReason.EVICTED:
                hold = self._depart(identity, hold)
            hold = self._refresh(identity, replace(hold, tasks=lost))
        if hold.not_before_ms > self.now_ms:
            self._fence_deleted(identity, due, hold)
        if hold.until_ms <= self.now_ms:
            self.settled.free.update(dict.fromkeys(lost, Reason(Why.HOLD_ENDED, hold.cause)))
        elif lost or hold.blanket:
            self.settled.holds[identity] = hold

    def _missing(self, identity: str, lost: frozenset[TaskId], blanket: bool) -> Hold:
        """The hold of an identity that is missing for the first time; its reason is settled afterwards."""
        incarnation = self.memory.incarnations.get(identity, "")
        not_before_ms = self.now_ms + self.lease_ms
        return Hold(
            lost,
            self.now_ms,
            self.now_ms,
            not_before_ms,
            incarnation,
            HoldReason.EVICTED,
            self.view.cause,
            blanket,
        )

    def _depart(self, identity: str, hold: Hold) -> Hold:
        """A new departure: it gets its deadline, unless its budget of returns is used up."""
        times = (*self.settled.returns.get(identity, ()), hold.since_ms)
        self.settled.returns[identity] = times
        policy = self.view.policy
        delay_ms = policy.scheduled_rebalance_max_delay_ms if len(times) <= policy.max_returns else 0
        return replace(hold, deadline_ms=hold.since_ms + delay_ms, reason=HoldReason.DEPARTED)

    def _refresh(self, identity: str, hold: Hold) -> Hold:
        """Take in what has become known: its end is proven, it will not come back."""
        facts = self.view.facts
        deadline_ms = min(hold.deadline_ms, hold.since_ms + self.view.policy.scheduled_rebalance_max_delay_ms)
        if identity in facts.gone:
            deadline_ms = hold.since_ms
        not_before_ms = 0 if (identity, hold.incarnation) in facts.ended else hold.not_before_ms
        unproven = not_before_ms > max(deadline_ms, self.now_ms)
        reason = HoldReason.UNPROVEN if unproven else HoldReason.DEPARTED
        return replace(hold, deadline_ms=deadline_ms, not_before_ms=not_before_ms, reason=reason)

    def _fence_deleted(self, identity: str, due: frozenset[TaskId], hold: Hold) -> None:
        """What is configured no more leaves the hold; the lease counts for it all the same."""
        deleted = due - self.configured - self.claims.occupied
        if deleted:
            self.settled.unstopped.append(Unstopped(identity, hold.incarnation, deleted, hold.since_ms))

    def _drains_and_returns(
        self, identity: str, due: frozenset[TaskId], hold: Hold | None, member: Member
    ) -> None:
        """A draining member that will be back, or has nowhere to move its tasks to: they wait for it."""
        tasks = (due & self.unreported) | self.configured.intersection(member.owned)
        if hold is None:
            deadline_ms = self.now_ms + self.view.policy.scheduled_rebalance_max_delay_ms
            hold = Hold(tasks, self.now_ms, deadline_ms, 0, member.incarnation, cause=self.view.cause)
        if tasks:
            self.settled.holds[identity] = replace(hold, tasks=tasks)

    def _present(self, identity: str, lost: frozenset[TaskId], hold: Hold | None, member: Member) -> None:
        """The identity is a member: what it lost is its own, once its earlier life has certainly ended."""
        if not lost:
            return
        last = hold.incarnation if hold else self.memory.incarnations.get(identity, member.incarnation)
        certain = last in self.roster.lives(identity) or (identity, last) in self.view.facts.ended
        if hold is None and not certain:
            hold = self._missing(identity, lost, blanket=False)
        if hold is not None and not certain and hold.not_before_ms > self.now_ms:
            deadline_ms = min(hold.deadline_ms, self.now_ms)
            self.settled.holds[identity] = replace(
                hold, tasks=lost, deadline_ms=deadline_ms, reason=HoldReason.UNPROVEN, blanket=False
            )
        elif identity in self.roster.leaving:
            self.settled.free.update(dict.fromkeys(lost, Reason(Why.DRAIN, self.view.cause)))
        else:
            back = hold is not None or last != member.incarnation
            reason = Reason(Why.RETURNED if back else Why.UNDELIVERED, self.view.cause)
            self.settled.owed[identity] = dict.fromkeys(sorted(lost), reason)

    def fence(self) -> None:
        """Keep what vanished lives were stopping from starting while their leases may run."""
        lives = {(member.identity, member.incarnation) for member in self.roster.present}
        for entry in self.memory.unstopped:
            life = (entry.identity, entry.incarnation)
            since_ms = self.now_ms if entry.gone_since_ms is None else entry.gone_since_ms
            until_ms = since_ms + self.lease_ms
            if life in lives or life in self.view.facts.ended or until_ms <= self.now_ms:
                continue
            self.settled.unstopped.append(replace(entry, gone_since_ms=since_ms))
            waiting = entry.tasks & self.unreported
            if waiting:
                held = HeldTask(entry.identity, until_ms, HoldReason.UNPROVEN)
                self.settled.held.update(dict.fromkeys(waiting, held))
                self.settled.timers_ms.append(until_ms)

    def reserve_for_newest_lives(self) -> None:
        """What an older life of an identity still runs is its newest life's own, once it has let go."""
        for older in self.roster.older:
            newest = self.roster.current[older.identity]
            if newest.identity in self.roster.leaving:
                continue
            staying = (self.claims.stays[m.member_id] for m in self.roster.current.values())
            own = self.configured.intersection(older.owned).difference(*staying)
            self.settled.reserved[older.identity] = self.settled.reserved.get(older.identity, _NONE) | own

    def apply_waits(self) -> None:
        """Holds and fences outrank everything: what they name is neither free nor owed now."""
        settled = self.settled
        for identity, hold in settled.holds.items():
            held = HeldTask(identity, hold.until_ms, hold.reason, hold.cause)
            settled.held.update({task: held for task in hold.tasks if task not in settled.held})
            settled.frozen = settled.frozen or hold.blanket
            if hold.until_ms > self.now_ms:
                settled.timers_ms.append(hold.until_ms)
        blocked = settled.held.keys() | self.view.suspended
        if not blocked:
            return
        settled.free = {task: why for task, why in settled.free.items() if task not in blocked}
        for identity, owed in settled.owed.items():
            reserved = owed.keys() & blocked
            if reserved:
                settled.reserved[identity] = settled.reserved.get(identity, _NONE) | reserved
                settled.owed[identity] = {task: why for task, why in owed.items() if task not in reserved}

    def _recent_returns(self) -> dict[str, tuple[int, ...]]:
        since_ms = self.now_ms - self.view.policy.return_window_ms
        recent = {
            identity: tuple(at_ms for at_ms in times if at_ms > since_ms)
            for identity, times in self.memory.returns.items()
        }
        return {identity: times for identity, times in recent.items() if times}
