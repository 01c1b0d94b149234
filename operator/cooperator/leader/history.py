"""The effects of past rounds, for people: a short list of the last ones, and totals."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cooperator.model import Epoch, Member, Memory, TaskId
from cooperator.planner.plan import Plan


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One round: when (ms since the epoch), why, and how many items it changed.

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

    def record(
        self,
        plan: Plan,
        members: tuple[Member, ...],
        before: Memory,
        after: Memory,
        cause: str,
        now_ms: int,
        events: str = "",
    ) -> None:
        """Add the round of ``plan``, which made the memory ``after`` of the one ``before``.

        A move is an assignment to another identity than the last owner.
        """
        self.mark_busy(now_ms)
        since_ms = self.busy_since_ms or now_ms
        if not after.moving and not any(entry.leased for entry in after.unstopped):
            self.busy_since_ms = None
        assigned = revoked = moved = 0
        owners = self.owners
        present = {member.identity for member in members}
        for identity, tasks in before.given.items():
            if identity not in present:
                owners.update(dict.fromkeys(tasks, identity))
        for member in members:
            assignment = plan.assignments[member.member_id]
            revoked += len(assignment.revoked)
            owners.update(dict.fromkeys(assignment.revoked, member.identity))
        for member in members:
            assignment = plan.assignments[member.member_id]
            assigned += len(assignment.assigned)
            if owners:
                moved += sum(
                    owners.pop(task, member.identity) != member.identity for task in assignment.assigned
                )
        self.rebalances.append(
            Rebalance(
                now_ms,
                since_ms,
                after.term,
                after.generation,
                cause,
                len(members),
                assigned,
                revoked,
                moved,
                len(plan.held),
                events,
            )
        )
        self.reasons[cause] = self.reasons.get(cause, 0) + 1
        changes = {"rebalances": 1, "assigned": assigned, "revoked": revoked, "moved": moved}
        for name, count in changes.items():
            self.counters[name] = self.counters.get(name, 0) + count
