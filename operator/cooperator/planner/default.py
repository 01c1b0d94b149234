"""The policy Default: Kafka's incremental cooperative rebalancing, told what an operator knows.

One decision, in this order:

1. roster: who speaks for its identity, who leaves, who may be given work (``roster``);
2. claims: what stays, what must go whatever the balance (``claims``);
3. holds: which lost tasks wait for whom, which go back, which are free (``holds``);
4. target: who should run what, apart for connector instances and tasks (``target``);
5. step: the part of the way that is safe now: revocations, and assignments of what nobody reports (``step``).

Revocations for balance wait while a member is held for or expected to join: its arrival changes the balance
again, and moving later costs nobody any downtime. All else happens at once.
"""

from collections.abc import Mapping
from dataclasses import replace

from cooperator.model import Memory, TaskId
from cooperator.planner import claims, holds, step, target
from cooperator.planner.itemsets import Configured, configured, difference
from cooperator.planner.plan import Plan, Reason, Why
from cooperator.planner.roster import Roster, survey
from cooperator.planner.view import View


def plan(view: View, memory: Memory) -> tuple[Plan, Memory]:
    """Decide one round: two rounds make a move, since nothing starts in the round of its revocation."""
    wanted = configured(view.tasks)
    roster = survey(view, memory)
    claimed = claims.sort_claims(view, memory, roster, wanted.items)
    unreported = difference(wanted.items.all, claimed.occupied)
    settled = holds.settle(view, memory, roster, claimed, wanted.items.all, unreported)
    joins = holds.expected_joins(view, memory, roster, settled.holds)
    wait_until_ms = max((since + view.policy.join_wait_ms for since in joins.values()), default=0)
    free = _free(view, memory, unreported, settled)
    waiting = bool(settled.held) or settled.frozen or wait_until_ms > view.now_ms
    instances, tasks = _targets(view, wanted, roster, claimed, settled, free, balance=not waiting)
    if (instances.surplus or tasks.surplus) and wait_until_ms > view.now_ms:
        settled.timers_ms.append(wait_until_ms)
    return step.take(
        view,
        memory,
        step.Decision(
            roster,
            claimed,
            settled,
            unreported,
            free,
            {**instances.placed, **tasks.placed},
            (instances.released, tasks.released),
            joins,
        ),
    )


def _free(
    view: View, memory: Memory, unreported: frozenset[TaskId], settled: holds.Settled
) -> dict[TaskId, Reason]:
    """What may be assigned now, to anyone, and why it is free."""
    mine = frozenset[TaskId]().union(*settled.owed.values(), *settled.reserved.values())
    candidates = unreported - mine - settled.held.keys()
    free = {} if settled.frozen else dict.fromkeys(candidates, Reason(Why.CREATED, view.cause))
    for key, tasks in memory.moving.items():
        why, _, cause = key.partition(":")
        free.update(dict.fromkeys(tasks & candidates, Reason(Why(why), cause)))
    free.update(settled.free)
    return free


def _targets(
    view: View,
    wanted: Configured,
    roster: Roster,
    claimed: claims.Claims,
    settled: holds.Settled,
    free: dict[TaskId, Reason],
    balance: bool,
) -> tuple[target.Target, target.Target]:
    """The targets of connector instances and of tasks, over the receivers."""
    spoken_for = frozenset[TaskId]().union(*settled.reserved.values())
    pool = (claimed.in_flight | free.keys()) - spoken_for - settled.held.keys() - view.suspended

    def own(instances: bool, of_other_kind: Mapping[str, int]) -> target.Loads:
        kept = {identity: claimed.stays[m.member_id] for identity, m in roster.receivers.items()}
        return target.Loads(
            kept={i: items.instances if instances else items.tasks for i, items in kept.items()},
            owed={
                i: [task for task in tasks if task.is_instance is instances]
                for i, tasks in settled.owed.items()
            },
            reserved={
                i: sum(task.is_instance is instances for task in tasks)
                for i, tasks in settled.reserved.items()
            },
            of_other_kind=of_other_kind,
        )

    # Who has fewer tasks takes one more instance, and who then has fewer instances takes one more task.
    tasks = own(False, {})
    instances = own(True, {i: len(kept) for i, kept in tasks.kept.items()})
    pools = [wanted.sort(pool & kind, kind is wanted.items.instances) for kind in wanted.items[1:]]
    first = target.compute(instances, pools[0], {}, balance)
    second = target.compute(replace(tasks, of_other_kind=first.loads), pools[1], view.tasks, balance)
    return first, second
