"""Departures and returns: which tasks wait for whom, until when, and which need wait no longer.

    unreported = configured − reported by any present member
    lost(i)    = (given(i) ∪ hold(i)) ∩ unreported
    i absent   → lost(i) is held until its deadline; then it is free; a task whose state another member has
                 (``learners``) is free at once if the end of i is proven
    i present  → lost(i) is owed to i at once
    fenced     = ∪ over vanished incarnations: what each had been given or was stopping; nobody starts
                 that before the incarnation has certainly ended, be it free or owed

The end of an incarnation is certain when its host has proof of it, when that incarnation is itself a member
(it does not run what it does not report), or when its lease and a margin have passed since it was found
missing. A stock worker keeps no lease. While there is no member under its identity, its end is uncertain
until it is proven, or (``Fencing.BEST_EFFORT``) for as long as it is waited for. A member under its identity
is taken for the same process, started anew or not, unless the leader awaits another one: it evicted several
incarnations of it, or the member is at another address. One that is in touch with the broker comes back
within that time, and until then nobody is given what it runs, another incarnation of its identity included.
The deadline is scheduled.rebalance.max.delay.ms after an identity's own departure (KIP-415 has one for the
whole group); there is none for an identity that will not come back or has used up its budget of returns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cooperator.model import Hold, HoldReason, Member, Memory, TaskId, Unstopped
from cooperator.planner.claims import Claims
from cooperator.planner.learners import promoted
from cooperator.planner.plan import HeldTask, Reason, Why
from cooperator.planner.roster import Roster
from cooperator.planner.view import View

_NONE: frozenset[TaskId] = frozenset()


@dataclass(slots=True)
class Settled:
    """Classifies every task that should be running and that no member reports.

    ``owed``: per identity, its own tasks that it gets back now. ``free``: lost tasks whose wait is over.
    ``reserved``: per identity, its own tasks that cannot start yet (an earlier incarnation of it may still
    run them, or they are barred). ``held``: every task that waits. ``frozen``: nothing may start anywhere:
    tasks without a report may run at a member that is away. ``timers_ms``: when one of these waits ends.
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
    view: View,
    memory: Memory,
    roster: Roster,
    claims: Claims,
    configured: frozenset[TaskId],
    unreported: frozenset[TaskId],
) -> Settled:
    """Decide about departures, returns and what is left of earlier incarnations."""
    settling = _Settling(view, memory, roster, claims, configured, unreported)
    # One that drains and returns may be unknown to memory: its tasks wait for it all the same.
    for identity in sorted(memory.given.keys() | memory.holds.keys() | view.awaited.keys() | roster.held):
        settling.settle(identity)
    settling.await_other_incarnations()
    settling.reserve_for_newest_incarnations()
    settling.keep_what_is_owed()
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
        self,
        view: View,
        memory: Memory,
        roster: Roster,
        claims: Claims,
        configured: frozenset[TaskId],
        unreported: frozenset[TaskId],
    ) -> None:
        self.view, self.memory, self.roster, self.claims = view, memory, roster, claims
        self.configured, self.unreported = configured, unreported
        self.now_ms = view.now_ms
        self.fence_ms = view.policy.fence_ms
        self.settled = Settled(returns=self._recent_returns())
        self.unfenced: set[TaskId] = set()
        self.fenced = self._fence()
        self._owed: set[TaskId] = set()

    def _fence(self) -> dict[TaskId, HeldTask]:
        """Returns the tasks that vanished incarnations may still run, each with the end of its longest lease.

        A task whose lease has no known end is among ``unfenced`` from here on.
        """
        present = {(member.identity, member.incarnation) for member in self.roster.present}
        vanished = [
            Unstopped(
                identity,
                self.memory.incarnations.get(identity, ""),
                tasks,
                leased=identity not in self.memory.leaseless,
            )
            for identity, tasks in sorted(self.memory.given.items())
        ]
        vanished.extend(self.memory.unstopped)
        fenced: dict[TaskId, HeldTask] = {}
        for entry in vanished:
            incarnation = (entry.identity, entry.incarnation)
            if not entry.tasks or incarnation in present or incarnation in self.view.facts.ended:
                continue
            since_ms = self.now_ms if entry.gone_since_ms is None else entry.gone_since_ms
            end_ms, reason = self._uncertain(entry, since_ms)
            if end_ms is not None and end_ms <= self.now_ms:
                continue
            until_ms = since_ms if end_ms is None else end_ms
            self.settled.unstopped.append(replace(entry, gone_since_ms=since_ms))
            waiting = HeldTask(entry.identity, until_ms, reason, self.view.cause)
            for task in entry.tasks & self.unreported - self.unfenced:
                if end_ms is None:
                    self.unfenced.add(task)
                if end_ms is None or task not in fenced or fenced[task].until_ms < until_ms:
                    fenced[task] = waiting
        return fenced

    def _uncertain(self, entry: Unstopped, since_ms: int) -> tuple[int | None, HoldReason]:
        """Until when (ms) the end of an incarnation that vanished at ``since_ms`` is uncertain, and why;
        None: until it is proven."""
        if not entry.leased and entry.identity in self.roster.current:
            return self.view.awaited.get(entry.identity, 0), HoldReason.EVICTED
        length_ms = self.view.policy.fence_of_ms(entry.leased)
        if length_ms is None:
            return None, HoldReason.UNFENCED
        return since_ms + length_ms, HoldReason.UNPROVEN

    def settle(self, identity: str) -> None:
        given, hold = self.memory.given.get(identity, _NONE), self.memory.holds.get(identity)
        due = given
        if hold is not None:
            due = given | hold.tasks if given else hold.tasks
        member = self.roster.current.get(identity)
        # Skip reported tasks: most members report exactly what they were assigned.
        all_there = member is not None and due is self.claims.reports[member.member_id].all
        lost = _NONE if all_there else due & self.unreported
        if member is None:
            self._absent(identity, lost, hold)
        elif identity in self.roster.held:
            self._drains_and_returns(identity, lost, hold, member)
        elif lost and identity in self.roster.leaving:
            self.settled.free.update(dict.fromkeys(lost, Reason(Why.DRAIN, self.view.cause)))
        elif lost := lost - self._owed:
            # Two can be owed one task, where reports were older than the memory: it goes to one of them.
            self._owed |= lost
            back = hold is not None or self.memory.incarnations.get(identity) != member.incarnation
            returned = Reason(Why.RETURNED, self.view.cause)
            reason = returned if back else Reason(Why.UNDELIVERED, self.view.cause)
            owed = dict.fromkeys(sorted(lost), reason)
            for entry in () if back else self.memory.unstopped:
                if entry.identity == identity:
                    # They waited here for an earlier incarnation of it, which ran them.
                    owed.update(dict.fromkeys(sorted(lost & entry.tasks), returned))
            self.settled.owed[identity] = owed

    def _absent(self, identity: str, lost: frozenset[TaskId], hold: Hold | None) -> None:
        """The identity is no member: hold what it had, until the wait is over."""
        unstarted = lost & self.view.unstarted
        if unstarted:
            self.settled.free.update(dict.fromkeys(unstarted, Reason(Why.UNDELIVERED, self.view.cause)))
            lost -= unstarted
        awaited_until_ms = self.view.awaited.get(identity, 0)
        if hold is None:
            blanket = identity in self.view.awaited and identity not in self.memory.given
            if not lost and not blanket:
                return
            hold = self._missing(identity, blanket)
        elif hold.reason is HoldReason.EVICTED:
            awaited_until_ms = max(hold.deadline_ms, awaited_until_ms)
        ended = (identity, hold.incarnation) in self.view.facts.ended
        if ended and hold.blanket:
            hold = replace(hold, blanket=False)
        if awaited_until_ms > self.now_ms and not ended:
            hold = replace(hold, deadline_ms=awaited_until_ms, reason=HoldReason.EVICTED)
        else:
            if hold.reason is HoldReason.EVICTED:
                hold = self._depart(identity, hold)
            hold = self._refresh(identity, hold)
        if ended:
            # A member that has its state goes on: to wait for its own would take longer.
            taken = promoted(self.view, self.roster, lost.difference(self.fenced))
            self.settled.free.update(taken)
            lost = lost.difference(taken)
        if hold.deadline_ms <= self.now_ms:
            fenced = lost.intersection(self.fenced)
            free = lost - fenced if fenced else lost
            self.settled.free.update(dict.fromkeys(free, Reason(Why.HOLD_ENDED, hold.cause)))
            lost = fenced
        self._keep(identity, hold, lost)

    def _missing(self, identity: str, blanket: bool) -> Hold:
        """The hold of an identity that is missing for the first time; its reason is settled afterwards."""
        return Hold(
            tasks=_NONE,
            since_ms=self.now_ms,
            deadline_ms=self.now_ms,
            not_before_ms=self.now_ms + self.fence_ms if blanket else 0,
            incarnation=self.memory.incarnations.get(identity, ""),
            reason=HoldReason.EVICTED,
            cause=self.view.cause,
            blanket=blanket,
        )

    def _depart(self, identity: str, hold: Hold) -> Hold:
        """A new departure: it gets its deadline, unless its budget of returns is used up."""
        times = (*self.settled.returns.get(identity, ()), hold.since_ms)
        self.settled.returns[identity] = times
        policy = self.view.policy
        delay_ms = policy.scheduled_rebalance_max_delay_ms if len(times) <= policy.max_returns else 0
        return replace(hold, deadline_ms=hold.since_ms + delay_ms, reason=HoldReason.DEPARTED)

    def _refresh(self, identity: str, hold: Hold) -> Hold:
        """Take in what has become known: it will not come back, or the delay is shorter now."""
        delay_ms = self.view.policy.scheduled_rebalance_max_delay_ms
        deadline_ms = min(hold.deadline_ms, hold.since_ms + delay_ms)
        if identity in self.view.facts.gone:
            deadline_ms = hold.since_ms
        return replace(hold, deadline_ms=deadline_ms, reason=HoldReason.DEPARTED)

    def _keep(self, identity: str, hold: Hold, tasks: frozenset[TaskId]) -> None:
        """Go on holding ``tasks``, if there are any."""
        not_before_ms = min(hold.not_before_ms, self.now_ms + self.fence_ms) if hold.blanket else 0
        if self.fenced:
            ends = (self.fenced[task].until_ms for task in tasks - self.unfenced if task in self.fenced)
            not_before_ms = max(ends, default=not_before_ms)
        hold = replace(hold, tasks=tasks, not_before_ms=not_before_ms)
        if hold.reason is not HoldReason.EVICTED:
            if hold.deadline_ms <= self.now_ms and not self.unfenced.isdisjoint(tasks):
                hold = replace(hold, reason=HoldReason.UNFENCED)
            elif not_before_ms > max(hold.deadline_ms, self.now_ms):
                hold = replace(hold, reason=HoldReason.UNPROVEN)
        if tasks or hold.blanket_until_ms > self.now_ms:
            self.settled.holds[identity] = hold

    def _drains_and_returns(
        self, identity: str, lost: frozenset[TaskId], hold: Hold | None, member: Member
    ) -> None:
        """A draining member that will be back, or has nowhere to move its tasks to: they wait for it."""
        elsewhere = (kept.all for other, kept in self.claims.stays.items() if other != member.member_id)
        # Another member may run a copy of what this one reports, and keeps it.
        tasks = lost | self.configured.intersection(member.owned).difference(*elsewhere)
        if hold is None or hold.incarnation != member.incarnation:
            deadline_ms = self.now_ms + self.view.policy.scheduled_rebalance_max_delay_ms
            hold = Hold(tasks, self.now_ms, deadline_ms, 0, member.incarnation, cause=self.view.cause)
        self._keep(identity, hold, tasks)

    def await_other_incarnations(self) -> None:
        """An identity is a member, and another incarnation of it was evicted and is not back. Unless memory
        says what that one was given, it may run anything: nothing unreported starts until it is back."""
        for identity in sorted(self.view.awaited.keys() & self.roster.current.keys()):
            until_ms, known = self.view.awaited[identity], self.memory.holds.get(identity)
            is_unknown = identity not in self.memory.given if known is None else known.blanket
            if is_unknown and until_ms > self.now_ms:
                hold = self.settled.holds.get(identity) or Hold(_NONE, self.now_ms, until_ms)
                self.settled.holds[identity] = replace(
                    hold, deadline_ms=until_ms, not_before_ms=0, reason=HoldReason.EVICTED, blanket=True
                )

    def reserve_for_newest_incarnations(self) -> None:
        """Tasks that an older incarnation of an identity still runs are its newest incarnation's own, once
        it has let go."""
        for older in self.roster.older:
            newest = self.roster.current[older.identity]
            if newest.identity in self.roster.leaving:
                continue
            staying = (self.claims.stays[m.member_id].all for m in self.roster.current.values())
            # Two that run copies of one task may both have a newer incarnation: it is one's.
            others = (tasks for i, tasks in self.settled.reserved.items() if i != older.identity)
            own = self.configured.intersection(older.owned).difference(*staying, *others)
            self.settled.reserved[older.identity] = self.settled.reserved.get(older.identity, _NONE) | own

    def keep_what_is_owed(self) -> None:
        """Tasks that a present member is owed are not free, though another one's wait for them may be over:
        memory can name both (see ``settle``), and the task would be assigned twice."""
        free = self.settled.free
        if self._owed and not self._owed.isdisjoint(free):
            self.settled.free = {task: why for task, why in free.items() if task not in self._owed}

    def apply_waits(self) -> None:
        """Holds and fences outrank everything: what they name is neither free nor owed now."""
        settled, timers_ms = self.settled, set[int]()
        for identity, hold in settled.holds.items():
            held = HeldTask(identity, hold.until_ms, hold.reason, hold.cause)
            settled.held.update({task: held for task in hold.tasks if task not in settled.held})
            settled.frozen = settled.frozen or hold.blanket_until_ms > self.now_ms
            timers_ms |= {hold.until_ms, hold.blanket_until_ms}
            if not hold.tasks <= self.fenced.keys() or not self.unfenced.isdisjoint(hold.tasks):
                timers_ms.add(hold.deadline_ms)
        for task, fence in self.fenced.items():
            if task not in settled.held:
                settled.held[task] = fence
                timers_ms.add(fence.until_ms)
        settled.timers_ms.extend(at_ms for at_ms in timers_ms if at_ms > self.now_ms)
        for identity, hold in settled.holds.items():
            if hold.blanket_until_ms > self.now_ms:
                # The current holders are unknown, and even the memory of them may be outdated.
                held = HeldTask(identity, hold.blanket_until_ms, hold.reason, hold.cause)
                settled.held.update({task: held for task in self.unreported if task not in settled.held})
        blocked = settled.held.keys() | self.view.barred
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
