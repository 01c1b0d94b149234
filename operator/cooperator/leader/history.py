"""The effects of past rounds, for people: a short list of the last ones, and totals."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cooperator.model import Epoch, Member, Memory, TaskId
from cooperator.planner.plan import Plan
from cooperator.reconciliation import ReconciledGroup


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One round, or one target without rounds: when (ms since the epoch), why, and how many items it changed.

    ``epoch``: the group's epoch of a target, by which attempts are named in such a term; 0: a round.
    ``since_ms``: when the cause became known. A move takes more than one round; the later ones keep its
    cause. ``events``: the events that caused the round (see ``causes``).
    """

    at_ms: int
    since_ms: int
    term: int
    generation: int
    cause: str
    members: int
    assigned: int
    revoked: int
    moved: int
    held: int
    events: str = ""
    epoch: int = 0


class Changed(NamedTuple):
    """The tasks that a round, or a new target, gives to a member and takes from it."""

    identity: str
    assigned: Collection[TaskId]
    revoked: Collection[TaskId]


def changes_of(plan: Plan, members: Iterable[Member]) -> list[Changed]:
    """The changes of a round."""
    found = ((member.identity, plan.assignments[member.member_id]) for member in members)
    return [Changed(identity, each.assigned, each.revoked) for identity, each in found]


def changes_of_targets(
    before: ReconciledGroup, after: ReconciledGroup, members: Iterable[Member]
) -> list[Changed]:
    """The changes of new targets, moves included."""
    found = ((m.identity, before.target_of(m.identity), after.target_of(m.identity)) for m in members)
    return [Changed(identity, now.tasks - was.tasks, was.tasks - now.tasks) for identity, was, now in found]


@dataclass(slots=True)
class History:
    """One leader's record of its rounds; no decision depends on it.

    * ``born``: for each identity whose present incarnation this leader has seen begin, that incarnation and
      the epoch of its first round.
    * ``owners``: the last identity that ran each currently unassigned task.
    * ``busy_since_ms``: when the current activity began (ms since the epoch); None while there is none.
    * ``reasons``: number of rounds by cause.
    """

    rebalances: deque[Rebalance] = field(default_factory=lambda: deque(maxlen=100))
    counters: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    born: dict[str, tuple[str, Epoch]] = field(default_factory=dict)
    owners: dict[TaskId, str] = field(default_factory=dict)
    busy_since_ms: int | None = None

    def mark_busy(self, now_ms: int) -> None:
        """Note that a round is necessary."""
        if self.busy_since_ms is None:
            self.busy_since_ms = now_ms

    def rename(self, names: Mapping[str, str]) -> None:
        """Rename identities."""
        self.born = {names.get(identity, identity): birth for identity, birth in self.born.items()}
        self.owners = {task: names.get(identity, identity) for task, identity in self.owners.items()}

    def note_births(self, members: Iterable[Member], before: Memory, epoch: Epoch) -> None:
        """Note incarnations that join for the first time. One that already runs something is older."""
        for member in members:
            if not member.owned and before.incarnations.get(member.identity) != member.incarnation:
                self.born[member.identity] = member.incarnation, epoch

    def note_departed(self, before: Memory, present: Collection[str]) -> None:
        """Note whose tasks those are that ``before`` has given to identities which are not ``present``."""
        for identity, tasks in before.given.items():
            if identity not in present:
                self.owners.update(dict.fromkeys(tasks, identity))

    def record(
        self,
        changes: Sequence[Changed],
        held: int,
        before: Memory,
        after: Memory,
        cause: str,
        now_ms: int,
        events: str = "",
        epoch: int = 0,
    ) -> None:
        """Add what made the memory ``after`` of the one ``before``: a round, or a target (``epoch`` is set).

        ``changes``: of each member. A move is an assignment to another identity than the last owner.
        """
        self.mark_busy(now_ms)
        since_ms = self.busy_since_ms or now_ms
        # A target has its moves whole; in rounds, the later rounds of a move have its cause.
        if epoch or (not after.moving and not any(entry.leased for entry in after.unstopped)):
            self.busy_since_ms = None
        moved = 0
        owners = self.owners
        self.note_departed(before, {each.identity for each in changes})
        for each in changes:
            owners.update(dict.fromkeys(each.revoked, each.identity))
        for each in changes:
            if owners:
                moved += sum(owners.pop(task, each.identity) != each.identity for task in each.assigned)
        assigned = sum(len(each.assigned) for each in changes)
        revoked = sum(len(each.revoked) for each in changes)
        self.rebalances.append(
            Rebalance(
                now_ms,
                since_ms,
                after.term,
                after.generation,
                cause,
                len(changes),
                assigned,
                revoked,
                moved,
                held,
                events,
                epoch,
            )
        )
        self.reasons[cause] = self.reasons.get(cause, 0) + 1
        counts = {"rebalances": 1, "assigned": assigned, "revoked": revoked, "moved": moved}
        for name, count in counts.items():
            self.counters[name] = self.counters.get(name, 0) + count
