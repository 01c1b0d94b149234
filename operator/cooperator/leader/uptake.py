"""What stock workers have not taken up yet of their shares. Pure.

    starting(m) = assigned to m, and without a word of m about it since
    stopping(m) = revoked from m, which has not joined again since

An agent says what it does in its metadata, with each join. Of a stock worker there is only its word in the
status log: whatever that is, it has got past the point at which it compares offsets and starts.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from cooperator.model import Member, TaskId, TaskStatus
from cooperator.planner.plan import Plan


@dataclass(frozen=True, slots=True)
class Hanging:
    """A worker that has been in the midst of something since ``since_ms`` (ms since the epoch)."""

    member: Member
    since_ms: int
    items: tuple[TaskId, ...]


@dataclass(slots=True)
class _Pending:
    """``starting``: items, each with when (ms) and in which generation it was given."""

    member: Member
    starting: dict[TaskId, tuple[int, int]] = field(default_factory=dict)
    stopping: frozenset[TaskId] = frozenset()
    stopping_since_ms: int = 0

    @property
    def is_done(self) -> bool:
        return not self.starting and not self.stopping


class Uptake:
    """Of one tenure of the lead."""

    def __init__(self) -> None:
        self._pending: dict[str, _Pending] = {}

    @property
    def starting(self) -> frozenset[TaskId]:
        return frozenset(task for pending in self._pending.values() for task in pending.starting)

    def is_busy(self, most_ms: int, now_ms: int) -> bool:
        """Whether somebody is at something that it was given less than ``most_ms`` ago."""
        return any(at_ms > now_ms for at_ms in self.next_ms(most_ms))

    def give(self, members: Iterable[Member], plan: Plan, generation: int, now_ms: int) -> None:
        """The shares of ``plan`` are delivered."""
        for member in members:
            share = plan.shares[member.member_id]
            if member.is_agent or share.is_empty:
                continue
            pending = self._pending.setdefault(member.identity, _Pending(member))
            pending.member = member
            pending.starting.update(dict.fromkeys(share.assigned, (now_ms, generation)))
            if share.revoked:
                pending.stopping = frozenset(share.revoked)
                pending.stopping_since_ms = now_ms

    def report(self, members: Iterable[Member], ended: Collection[tuple[str, str]]) -> None:
        """These have joined a round: who did has stopped all that it was told to."""
        joined = {member.identity: member for member in members}
        for identity, pending in list(self._pending.items()):
            life = (identity, pending.member.incarnation)
            member = joined.get(identity)
            if member is not None and member.member_id != pending.member.member_id:
                # Be it another process or the same one, dropped and back: it has come to its end with that.
                del self._pending[identity]
            elif member is not None:
                pending.stopping = frozenset()
                owned = frozenset(member.owned)
                pending.starting = {task: at for task, at in pending.starting.items() if task in owned}
            if pending.is_done or life in ended:
                self._pending.pop(identity, None)

    def hear(self, statuses: Mapping[TaskId, TaskStatus]) -> None:
        for identity, pending in list(self._pending.items()):
            worker = pending.member.worker_id
            for task, (_, generation) in list(pending.starting.items()):
                status = statuses.get(task)
                if status is None or status.worker != worker:
                    continue
                if status.epoch is None or status.epoch.generation >= generation:
                    del pending.starting[task]
            if pending.is_done:
                del self._pending[identity]

    def asked_for_fence(self, connector: str) -> None:
        """One of the connector's tasks is being started: it asks for this before it says so."""
        for identity, pending in sorted(self._pending.items()):
            task = min(
                (task for task in pending.starting if task.connector == connector and not task.is_instance),
                default=None,
            )
            if task is not None:
                del pending.starting[task]
                if pending.is_done:
                    del self._pending[identity]
                return

    def hanging(self, for_ms: int, now_ms: int) -> tuple[Hanging, ...]:
        """Who has been at something for ``for_ms``, sorted by identity; be it a member still or not."""
        found = []
        for _, pending in sorted(self._pending.items()):
            since = {task: at_ms for task, (at_ms, _) in pending.starting.items()}
            since.update(dict.fromkeys(pending.stopping, pending.stopping_since_ms))
            items = sorted(task for task, at_ms in since.items() if now_ms - at_ms >= for_ms)
            if items:
                found.append(Hanging(pending.member, min(since[task] for task in items), tuple(items)))
        return tuple(found)

    def next_ms(self, for_ms: int) -> list[int]:
        """When (ms) somebody may have been at something for so long."""
        return [
            at_ms + for_ms
            for pending in self._pending.values()
            for at_ms in (
                *(at_ms for at_ms, _ in pending.starting.values()),
                *((pending.stopping_since_ms,) if pending.stopping else ()),
            )
        ]

    def clear(self) -> None:
        self._pending.clear()
