"""Moves of tasks with state: from the target to the next step that loses no state (KIP-441).

    at(T)        = where T runs; aim(T) = where a warm-up of the memory leads it, else at(T)
    target       = the assignor's, for the layout in which every task is at its aim
    caught up    ⇔ the member's last report says that it is at most ``acceptable_lag_bytes`` behind
    may move(T)  ⇔ target(T) has caught up, cannot learn, or its warm-up is over its time
    released     = tasks whose target is elsewhere and that may move; the others run on
    warm-ups'    = (T, target(T)) of those that run on, the oldest first, as many as ``max_warmups`` allows

Lemmas, which tests hold for random groups (KIP-441 states them as constraints of its assignment):

1. *Caught up.* A task with state is revoked for balance, or for a departure before its deadline, only if its
   target may take it as above.
2. *Sticky.* If nothing else changes, the target of the next round is the same: it is computed where every
   task with a warm-up is at its aim already, and a layout that is balanced is not changed. If less has to
   move than was planned, as when a departing member stays, the youngest warm-ups end.
3. *Balanced.* Once all warm-ups are over, the layout is the one that the assignor would have made at once: a
   task that waits is counted at its aim, never twice and never at none.
4. *Few.* At most ``max_warmups`` warm-ups are under way, whatever the number of moves.
5. *Ends.* A warm-up has moved its task, has lost its purpose, or is given up ``warmup_timeout_ms`` after its
   begin. A departing member's tasks are released at its deadline at the latest.
6. *Runs.* A task that no member runs waits for nobody's warm-up: it starts with the member that is the least
   behind.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from cooperator.model import Memory, StateReplicas, TaskId, Warmup
from cooperator.planner.claims import Claims
from cooperator.planner.itemsets import Items, split
from cooperator.planner.plan import Reason, Why
from cooperator.planner.problem import PlacementProblem
from cooperator.planner.roster import Roster
from cooperator.planner.target import Target
from cooperator.planner.view import View


def replicas_of(view: View, task: TaskId) -> StateReplicas | None:
    """Return how the state of ``task`` moves; None for a task without state, such as an instance."""
    return None if task.is_instance else view.stateful.get(task.connector)


def behind_bytes(view: View, roster: Roster, task: TaskId, identity: str) -> int | None:
    """Return how far ``identity`` is behind on ``task``; None: unknown."""
    member = roster.current.get(identity)
    if member is None:
        return None
    return view.behind_bytes.get((identity, member.incarnation), {}).get(task)


def caught_up(view: View, roster: Roster, task: TaskId, identity: str) -> bool:
    """Return whether ``identity`` can take over the state of ``task`` at once."""
    replicas, behind = replicas_of(view, task), behind_bytes(view, roster, task, identity)
    return replicas is not None and behind is not None and behind <= replicas.acceptable_lag_bytes


def best_learner(view: View, roster: Roster, task: TaskId) -> str | None:
    """Return the receiver that has caught up on ``task``; of several, the one that is the least behind."""
    able = [identity for identity in roster.receivers if caught_up(view, roster, task, identity)]
    return min(able, key=lambda i: (behind_bytes(view, roster, task, i) or 0, i), default=None)


def promoted(view: View, roster: Roster, tasks: Collection[TaskId]) -> dict[TaskId, Reason]:
    """Return those of a dead member's ``tasks`` that another member takes over at once.

    A barred task is not among them: it may start nowhere, so it stays held for its own member.
    """
    if not view.stateful:
        return {}
    reason = Reason(Why.STANDBY, view.cause)
    able = sorted(set(tasks) - view.barred)
    return {task: reason for task in able if best_learner(view, roster, task) is not None}


@dataclass(frozen=True, slots=True)
class Moves:
    """The part of a target that is safe now.

    ``target``, ``claims``: without what has to wait. ``going``: per task that is to move, where it goes.
    ``departing``: as in ``Memory``.
    """

    target: Target
    claims: Claims
    going: Mapping[TaskId, str] = field(default_factory=dict)
    departing: Mapping[str, int] = field(default_factory=dict)
    timers_ms: tuple[int, ...] = ()


class LearnerPlanning:
    """Everything that one round decides about learners."""

    def __init__(self, view: View, memory: Memory, roster: Roster, claims: Claims) -> None:
        self._view, self._memory, self._roster, self._claims = view, memory, roster, claims
        self._runs = {
            task: identity
            for identity, member in roster.receivers.items()
            for task in sorted(claims.stays[member.member_id].tasks)
            if task.connector in view.stateful
        }
        self._known = {warmup.item: warmup for warmup in memory.warmups if self._goes_on(warmup)}
        self._bound: frozenset[TaskId] = frozenset()
        self._owed: dict[TaskId, str] = {}

    def _goes_on(self, warmup: Warmup) -> bool:
        task = warmup.item
        return (
            warmup.identity in self._roster.receivers
            and replicas_of(self._view, task) is not None
            and task not in self._view.barred
            and task.task < self._view.tasks.get(task.connector, 0)
            and self._runs.get(task) != warmup.identity
        )

    def is_over(self, task: TaskId, identity: str) -> bool:
        """Whether a warm-up of ``task`` at ``identity`` has had its time."""
        known = self._known.get(task)
        return known is not None and known.identity == identity and self._end_ms(known) <= self._view.now_ms

    def _end_ms(self, warmup: Warmup) -> int:
        return warmup.since_ms + self._view.stateful[warmup.connector].warmup_timeout_ms

    def may_move(self, task: TaskId, to: str) -> bool:
        """Lemma 1."""
        member = self._roster.receivers.get(to)
        if member is None or not member.learns:
            return True
        if task in self._view.cannot_learn.get((to, member.incarnation), ()):
            return True
        return caught_up(self._view, self._roster, task, to) or self.is_over(task, to)

    def bind(
        self, free: Mapping[TaskId, Reason], owed: dict[str, dict[TaskId, Reason]]
    ) -> Mapping[TaskId, Reason]:
        """Move the free tasks that a member has learned, or learns, to what that member is owed."""
        bound: dict[TaskId, str] = {}
        for task in sorted(task for task in free if replicas_of(self._view, task) is not None):
            known = self._known.get(task)
            aim = None if known is None else known.identity
            if aim is None or not caught_up(self._view, self._roster, task, aim):
                aim = best_learner(self._view, self._roster, task) or aim
            if aim is not None:
                bound[task] = aim
        for task, identity in bound.items():
            owed.setdefault(identity, {})[task] = free[task]
        self._bound = frozenset(bound)
        self._owed = {task: i for i, tasks in owed.items() for task in tasks if task not in bound}
        return {task: why for task, why in free.items() if task not in bound} if bound else free

    def lead_on(self) -> bool:
        """Whether a warm-up is to move a task from a member that stays, or is back."""
        return any(task in self._runs or task in self._owed for task in self._known)

    def move_at_most(self, problem: PlacementProblem, needed: Mapping[str, Collection[TaskId]]) -> None:
        """Keep no more warm-ups of running tasks than moves are needed for balance: the oldest.

        ``needed``: the tasks that each member would release if every task was counted where it runs. Members
        above the least load are tied for the right to keep one more: a warm-up that has broken the tie stays.
        """
        total = sum(map(len, needed.values()))
        left = Counter({identity: len(tasks) for identity, tasks in needed.items()})
        if problem.is_even:
            loads = problem.loads()
            least = (sum(loads.values()) + len(problem.pool)) // len(loads)
            left |= Counter({identity: load - least for identity, load in loads.items()})
        kept: dict[TaskId, Warmup] = {}
        for task, known in sorted(self._known.items(), key=lambda each: (each[1].since_ms, each[0])):
            at = self._runs.get(task, self._owed.get(task))
            if at is not None:
                left[at] -= 1
                total -= 1
            if at is None or (left[at] >= 0 and total >= 0):
                kept[task] = known
        self._known = kept

    def at_their_aims(self, problem: PlacementProblem) -> PlacementProblem:
        """Return ``problem`` as if every task with a warm-up were at its aim already (lemma 2)."""
        aims = {task: known.identity for task, known in self._known.items() if task not in self._bound}
        if not aims:
            return problem
        there: dict[str, set[TaskId]] = {identity: set() for identity in problem.kept}
        for task, identity in aims.items():
            there[identity].add(task)

        def without(own: Mapping[str, Iterable[TaskId]]) -> dict[str, list[TaskId]]:
            return {identity: [task for task in tasks if task not in aims] for identity, tasks in own.items()}

        return replace(
            problem,
            kept={i: kept.difference(aims).union(there[i]) for i, kept in problem.kept.items()},
            pool=[task for task in problem.pool if task not in aims],
            owed=without(problem.owed),
            reserved=without(problem.reserved),
        )

    def next_moves(self, found: Target, balance: bool) -> Moves:
        """Take from ``found``, the target of tasks, what has to wait."""
        freed = {task for tasks in found.released.values() for task in tasks}
        placed = {task: to for task, to in found.placed.items() if replicas_of(self._view, task) is None}
        released = {
            identity: [task for task in tasks if replicas_of(self._view, task) is None]
            for identity, tasks in found.released.items()
        }
        going: dict[TaskId, str] = {}
        for task, at in self._runs.items():
            to = self._target(task, found, freed) or at
            if to == at:
                continue
            going[task] = to
            if balance and self.may_move(task, to):
                released.setdefault(at, []).append(task)
                placed[task] = to
        claims, departing, timers_ms = self._departures(found, freed, going)
        # A free task starts anywhere; one that is owed goes elsewhere only if it has its state there.
        for task, to in found.placed.items():
            if task in placed or task in going or task in freed or task in self._known:
                continue
            if not self._is_owed(task) or caught_up(self._view, self._roster, task, to):
                placed[task] = to
        released = {identity: sorted(tasks) for identity, tasks in released.items() if tasks}
        target = replace(found, released=released, placed=placed)
        return Moves(target, claims, going, departing, timers_ms)

    def _target(self, task: TaskId, found: Target, freed: Collection[TaskId]) -> str | None:
        known = self._known.get(task)
        if known is not None and task not in freed:
            return known.identity
        return found.placed.get(task)

    def _is_owed(self, task: TaskId) -> bool:
        is_owed = task in self._owed or task in self._bound
        return is_owed and replicas_of(self._view, task) is not None

    def _departures(
        self, found: Target, freed: Collection[TaskId], going: dict[TaskId, str]
    ) -> tuple[Claims, Mapping[str, int], tuple[int, ...]]:
        """Let departing members keep tasks that would start cold elsewhere, until their deadline."""
        claims, now_ms = self._claims, self._view.now_ms
        stays, let_go, kept_on = dict(claims.stays), dict(claims.let_go), set[TaskId]()
        departing: dict[str, int] = {}
        timers_ms: list[int] = []
        for identity, member in self._roster.leaving.items():
            gone = let_go.get(member.member_id, {})
            mine = [t for t, why in gone.items() if why.why is Why.DRAIN and replicas_of(self._view, t)]
            if not mine or identity in self._roster.held or identity in self._view.facts.gone:
                continue
            since_ms = self._memory.departing.get(identity, now_ms)
            until_ms = since_ms + self._kept_for_ms(identity)
            departing[identity] = since_ms
            keeps = set[TaskId]()
            for task in mine:
                to = self._target(task, found, freed)
                if to is None:
                    continue
                going[task] = to
                if now_ms < until_ms and not self.may_move(task, to):
                    keeps.add(task)
            if keeps:
                kept_on |= keeps
                timers_ms.append(until_ms)
                let_go[member.member_id] = {task: why for task, why in gone.items() if task not in keeps}
                report: Items = claims.reports[member.member_id]
                stays[member.member_id] = split(stays[member.member_id].all | keeps, report)
        if kept_on:
            let_go = {member_id: gone for member_id, gone in let_go.items() if gone}
            claims = replace(claims, stays=stays, let_go=let_go, in_flight=claims.in_flight - kept_on)
        return claims, departing, tuple(timers_ms)

    def _kept_for_ms(self, identity: str) -> int:
        """Returns the time (ms) for which a departing member may keep its tasks; half of a notice is left."""
        halves_ms = [within_ms // 2 for name, within_ms in self._view.facts.notices_ms if name == identity]
        return min([self._view.policy.depart_warm_ms, *halves_ms])

    def warmups(self, moves: Moves, standbys: Mapping[str, frozenset[TaskId]]) -> tuple[Warmup, ...]:
        """Return the warm-ups after this round (lemmas 4 and 5)."""
        now_ms, learned = self._view.now_ms, {(t, i) for i, tasks in standbys.items() for t in tasks}
        wanted: list[Warmup] = []
        for task, to in moves.going.items():
            known = self._known.get(task)
            if known is not None and known.identity == to:
                wanted.append(known)
            elif self._roster.receivers[to].learns:
                wanted.append(Warmup(task.connector, task.task, to, now_ms))
        # Of tasks that nobody runs now: one that starts at once needs none.
        running_on = {*moves.going, *self._bound, *self._runs}
        wanted += [known for task, known in self._known.items() if task not in running_on]
        known_ones = {*self._known.values()}
        wanted.sort(key=lambda each: (each not in known_ones, each.since_ms, each.item))
        admitted: list[Warmup] = []
        under_way = 0
        for warmup in wanted:
            counts = self._end_ms(warmup) > now_ms and (warmup.item, warmup.identity) not in learned
            if counts and under_way >= self._view.stateful[warmup.connector].max_warmups:
                continue
            under_way += counts
            admitted.append(warmup)
        return tuple(sorted(admitted, key=lambda each: each.item))

    def timers_ms(self, warmups: Iterable[Warmup]) -> list[int]:
        """Return when (ms) warm-ups are given up."""
        return [at_ms for at_ms in map(self._end_ms, warmups) if at_ms > self._view.now_ms]


def learned_by(
    memory: Memory, stateful: Mapping[str, StateReplicas], identity: str, now_ms: int
) -> dict[TaskId, str]:
    """Return what ``identity`` is to learn now, each as ``warmup`` or ``standby``."""
    learned = dict.fromkeys(sorted(memory.standbys.get(identity, ())), "standby")
    for warmup in memory.warmups:
        replicas = stateful.get(warmup.connector)
        if warmup.identity != identity or replicas is None:
            continue
        if warmup.since_ms + replicas.warmup_timeout_ms > now_ms:
            learned.setdefault(warmup.item, "warmup")
    return {task: role for task, role in learned.items() if task.connector in stateful}
