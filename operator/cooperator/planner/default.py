"""The policy Default: Kafka's incremental cooperative rebalancing, extended by the operator's knowledge.

A decision takes these steps, in order:

1. roster: which member represents its identity, which ones leave, which may receive work (``roster``);
2. claims: which tasks stay, and which must go whatever the balance (``claims``);
3. holds: which lost tasks wait for which member, which go back, which are free (``holds``);
4. target: which member should run what, separately for connector instances and tasks (``target``);
5. learners: which tasks with state wait until the member that they move to has caught up (``learners``), and
   which members learn them in case of a death (``standbys``);
6. step: the part of the way to the target that is safe now: revocations, and assignments of unreported
   tasks (``step``).

Revocations for balance wait while tasks are held for a member or a member is expected to join: its arrival
changes the balance again, and moving later costs no downtime. Everything else happens at once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cooperator.model import Memory, TaskId
from cooperator.planner import assignors, claims, holds, standbys, step, target
from cooperator.planner.itemsets import Configured, split
from cooperator.planner.learners import LearnerPlanning
from cooperator.planner.plan import Plan, Reason, SameReason, Why, reason_of
from cooperator.planner.problem import Assignor, PlacementProblem
from cooperator.planner.roster import Roster, survey
from cooperator.planner.view import View
from cooperator.planner.workspace import Workspace


def plan(view: View, memory: Memory, workspace: Workspace) -> tuple[Plan, Memory]:
    """Decide one round. A move takes two rounds, since nothing starts in the round of its revocation."""
    return step.take(view, memory, decide(view, memory, workspace))


def decide(view: View, memory: Memory, workspace: Workspace) -> step.RoundDecision:
    """Return all findings of a round, of which ``plan`` takes the next step."""
    wanted = workspace.configured(view.tasks)
    roster = survey(view, memory)
    claimed = claims.sort_claims(view, memory, roster, wanted.items, workspace.reported(roster.present))
    unreported = claimed.unreported
    settled = holds.settle(view, memory, roster, claimed, wanted.items.all, unreported)
    joins = holds.expected_joins(view, memory, roster, settled.holds)
    wait_until_ms = max((since + view.policy.join_wait_ms for since in joins.values()), default=0)
    free = _free(view, memory, unreported, settled)
    waiting = bool(settled.held) or settled.frozen
    expecting = wait_until_ms > view.now_ms
    learners = LearnerPlanning(view, memory, roster, claimed) if view.stateful else None
    if learners is not None:
        free = learners.bind(free, settled.owed)
    balance = not (waiting or expecting)
    asked = _Asked(view, wanted, roster, claimed, settled, free, balance, expecting, learners)
    assignor, warning = assignors.choose(view.policy.assignor, view.policy.strict_spread, workspace.assignors)
    instances, tasks = asked.targets(assignor)
    if instances.put_off or tasks.put_off:
        settled.timers_ms.append(wait_until_ms)
    decision = step.RoundDecision(
        roster,
        claimed,
        settled,
        unreported,
        free,
        (instances.placed, tasks.placed),
        (instances.released, tasks.released),
        joins,
        (warning,) if warning else (),
    )
    return decision if learners is None else _with_learners(view, memory, decision, learners, balance)


def _with_learners(
    view: View, memory: Memory, found: step.RoundDecision, learners: LearnerPlanning, balance: bool
) -> step.RoundDecision:
    """Let the tasks with state wait that would start cold, and say who learns what."""
    (instances, tasks), (others, released) = found.placed, found.released
    moves = learners.next_moves(target.Target(released, tasks), balance)
    decision = replace(
        found,
        claimed=moves.claims,
        placed=(instances, moves.target.placed),
        released=(others, moves.target.released),
    )
    learned = standbys.choose(
        view,
        decision.roster,
        memory.standbys,
        standbys.owners(view, decision),
        standbys.former(memory),
        standbys.awaited(view, decision),
    )
    warmups = learners.warmups(moves, learned)
    found.settled.timers_ms.extend([*moves.timers_ms, *learners.timers_ms(warmups)])
    return replace(decision, warmups=warmups, standbys=learned, departing=moves.departing)


def _free(
    view: View, memory: Memory, unreported: frozenset[TaskId], settled: holds.Settled
) -> Mapping[TaskId, Reason]:
    """Return the tasks that may be assigned now, to any receiver, and why each is free."""
    taken = view.barred.union(*settled.owed.values(), *settled.reserved.values(), settled.held)
    candidates = unreported - taken if taken else unreported
    created = Reason(Why.CREATED, view.cause)
    if not (settled.frozen or memory.moving or settled.free):
        return SameReason(candidates, created)
    if not memory.moving and settled.free.keys() == candidates:
        return settled.free
    free = {} if settled.frozen else dict.fromkeys(candidates, created)
    for key, tasks in memory.moving.items():
        why, _, cause = key.partition(":")
        free.update(dict.fromkeys(tasks & candidates, Reason(reason_of(why), cause)))
    free.update(settled.free)
    return free


@dataclass(frozen=True, slots=True)
class _Asked:
    """The problems given to the assignor in one round.

    ``expecting``: the round waits for joins before it revokes anything for balance.
    """

    view: View
    wanted: Configured
    roster: Roster
    claimed: claims.Claims
    settled: holds.Settled
    free: Mapping[TaskId, Reason]
    balance: bool
    expecting: bool
    learners: LearnerPlanning | None = None

    def targets(self, assignor: Assignor) -> tuple[target.Target, target.Target]:
        """Return the targets of connector instances and of tasks."""
        settled, items = self.settled, self.wanted.items
        # Free tasks are configured: if there are as many, they are all of them.
        everything = len(self.free) == len(items.all)
        pool = items.all if everything else self.claimed.in_flight.union(self.free)
        elsewhere = self.view.barred.union(*settled.reserved.values(), settled.held)
        if elsewhere:
            pool -= elsewhere
        parts = split(pool, items)
        # On ties, members with fewer tasks take one more instance, then those with fewer instances a task.
        tasks = self._problem(parts.tasks, False)
        if self.learners is not None:
            if self.balance and self.learners.lead_on():
                self.learners.move_at_most(tasks, assignor.assign(tasks).released)
            tasks = self.learners.at_their_aims(tasks)
        task_loads = {identity: len(kept) for identity, kept in tasks.kept.items()}
        instances = replace(self._problem(parts.instances, True), of_other_kind=task_loads)
        first = target.find(instances, assignor, self.expecting)
        instance_loads = target.loads(instances, first)
        second = target.find(replace(tasks, of_other_kind=instance_loads), assignor, self.expecting)
        return first, second

    def _problem(self, pool: frozenset[TaskId], instances: bool) -> PlacementProblem:
        receivers = self.roster.receivers
        zones = dict(self.view.facts.zones)
        stays = {identity: self.claimed.stays[m.member_id] for identity, m in receivers.items()}

        def of_kind(own: Mapping[str, Iterable[TaskId]]) -> dict[str, list[TaskId]]:
            return {i: [task for task in tasks if task.is_instance is instances] for i, tasks in own.items()}

        return PlacementProblem(
            kept={i: items.instances if instances else items.tasks for i, items in stays.items()},
            pool=self.wanted.sort(pool, instances),
            sizes={} if instances else self.view.tasks,
            owed=of_kind(self.settled.owed),
            reserved=of_kind(self.settled.reserved),
            balance=self.balance,
            weights={} if instances else self.view.weights,
            capacities={identity: member.capacity for identity, member in receivers.items()},
            zones={identity: zones.get(identity, member.zone) for identity, member in receivers.items()},
        )
