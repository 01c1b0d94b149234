"""Items that stock workers have been assigned but not yet started or stopped. Pure.

    starting(m) = assigned to m, and no status of m about it since
    stopping(m) = revoked from m, which has not joined again since

An agent reports what it does in its metadata, with each join. A stock worker reports only through its status
log records; whatever the status, the worker is past the point at which it compares offsets and starts.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from cooperator.model import Member, TaskId, TaskStatus
from cooperator.planner.plan import Plan


@dataclass(frozen=True, slots=True)
class Hanging:
    """A worker that has been starting or stopping items since ``since_ms`` (ms since the epoch)."""

    member: Member
    since_ms: int
    items: tuple[TaskId, ...]


@dataclass(slots=True)
class _Pending:
    """``starting``: items, each with the time (ms) and the generation of its assignment."""

    member: Member
    starting: dict[TaskId, tuple[int, int]] = field(default_factory=dict)
    stopping: frozenset[TaskId] = frozenset()
    stopping_since_ms: int = 0

    @property
    def is_done(self) -> bool:
        return not self.starting and not self.stopping


class PendingStarts:
    """Lives for one tenure of the leader."""

    def __init__(self) -> None:
        self._pending: dict[str, _Pending] = {}

    @property
    def starting(self) -> frozenset[TaskId]:
        return frozenset(task for pending in self._pending.values() for task in pending.starting)

    def is_busy(self, most_ms: int, now_ms: int) -> bool:
        """Whether a worker still starts or stops something that it was told less than ``most_ms`` ago."""
        return any(at_ms > now_ms for at_ms in self.next_ms(most_ms))

    def give(self, members: Iterable[Member], plan: Plan, generation: int, now_ms: int) -> None:
        """Note that the assignments of ``plan`` were delivered."""
        for member in members:
            assignment = plan.assignments[member.member_id]
            if member.is_agent or assignment.is_empty:
                continue
            pending = self._pending.setdefault(member.identity, _Pending(member))
            pending.member = member
            pending.starting.update(dict.fromkeys(assignment.assigned, (now_ms, generation)))
            if assignment.revoked:
                pending.stopping = frozenset(assignment.revoked)
                pending.stopping_since_ms = now_ms

    def report(self, members: Iterable[Member], ended: Collection[tuple[str, str]]) -> None:
        """Note the members of a round: a member that has joined has stopped all that was revoked from it."""
        joined = {member.identity: member for member in members}
        for identity, pending in list(self._pending.items()):
            incarnation = (identity, pending.member.incarnation)
            member = joined.get(identity)
            if member is not None and member.member_id != pending.member.member_id:
                # Whether it is another process or the same one after a drop, the pending work has ended with
                # it.
                del self._pending[identity]
            elif member is not None:
                pending.stopping = frozenset()
                owned = frozenset(member.owned)
                pending.starting = {task: at for task, at in pending.starting.items() if task in owned}
            if pending.is_done or incarnation in ended:
                self._pending.pop(identity, None)

    def rename(self, names: Mapping[str, str]) -> None:
        """Rename identities."""
        for identity in names.keys() & self._pending.keys():
            pending = self._pending.pop(identity)
            pending.member = replace(pending.member, identity=names[identity])
            self._pending[names[identity]] = pending

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
        """Note a starting task of the connector: its worker asks for the fence before it writes a status."""
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
        """Workers, members or not, that have been starting or stopping for ``for_ms``; sorted by identity."""
        found = []
        for _, pending in sorted(self._pending.items()):
            since = {task: at_ms for task, (at_ms, _) in pending.starting.items()}
            since.update(dict.fromkeys(pending.stopping, pending.stopping_since_ms))
            items = sorted(task for task, at_ms in since.items() if now_ms - at_ms >= for_ms)
            if items:
                found.append(Hanging(pending.member, min(since[task] for task in items), tuple(items)))
        return tuple(found)

    def next_ms(self, for_ms: int) -> list[int]:
        """Times (ms) at which a worker may have been starting or stopping for so long."""
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
